"""What browsers get is in the package, is what it says it is, and fits what draws the mail's pictures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import ml_metrics.dashboard
from ml_metrics.charts.render import VEGA_LITE
from ml_metrics.charts.theme import SCHEMA

HERE = Path(ml_metrics.dashboard.__file__).parent
ASSETS = HERE / "assets"


def test_browser_and_mail_draw_by_one_version_of_the_grammar() -> None:
    pinned = json.loads((HERE / "bundle" / "package.json").read_text())["dependencies"]
    assert pinned["vega-lite"].startswith(f"{VEGA_LITE}.")
    assert pinned["vega-lite"] in (ASSETS / "vega.js").read_text()
    assert SCHEMA.endswith(f"/v{VEGA_LITE.partition('.')[0]}.json")


def test_every_package_in_the_bundle_has_its_licence_beside_it() -> None:
    licences = (ASSETS / "vega-licences.txt").read_text()
    for name, version in json.loads((HERE / "bundle" / "package.json").read_text())["dependencies"].items():
        assert f"== {name} {version} (" in licences
    assert "Redistribution and use in source and binary forms" in licences


def test_our_scripts_and_styles_name_no_host() -> None:
    for name in ("dashboard.js", "charts.js", "dashboard.css"):
        assert re.findall(r"https?://|//[a-z]+\.", (ASSETS / name).read_text()) == []
    named = set(re.findall(r"https?://([a-z0-9.-]+)", (ASSETS / "vega.js").read_text()))
    # names of XML's spaces and of schemas, and a sentence in a warning: none is ever asked
    assert named <= {"www.w3.org", "vega.github.io", "github.com"}
