"""The bundled assets: versions, lock file, licences, and no foreign hosts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import ml_metrics.ui.dashboard
from ml_metrics.alerts.charts.frame import SCHEMA, VEGA_LITE

HERE = Path(ml_metrics.ui.dashboard.__file__).parent
ASSETS = HERE / "assets"


def test_browser_and_mail_use_one_version_of_vega_lite() -> None:
    pinned = json.loads((HERE / "bundle" / "package.json").read_text())["dependencies"]
    assert pinned["vega-lite"].startswith(f"{VEGA_LITE}.")
    assert pinned["vega-lite"] in (ASSETS / "vega.js").read_text()
    assert SCHEMA.endswith(f"/v{VEGA_LITE.partition('.')[0]}.json")


def test_the_lock_file_pins_the_bundle_by_hash_and_names_no_registry() -> None:
    package, lock = (json.loads((HERE / "bundle" / name).read_text()) for name in ("package.json", "package-lock.json"))
    root, *locked = lock["packages"].values()
    for kind in ("dependencies", "devDependencies"):
        assert root[kind] == package[kind]
    assert [each for each in locked if not each["integrity"].startswith("sha512-") or "resolved" in each] == []


def test_the_licence_of_every_bundled_package_is_included() -> None:
    licences = (ASSETS / "vega-licences.txt").read_text()
    for name, version in json.loads((HERE / "bundle" / "package.json").read_text())["dependencies"].items():
        assert f"== {name} {version} (" in licences
    assert "Redistribution and use in source and binary forms" in licences


def test_scripts_and_styles_name_no_host() -> None:
    for name in ("theme.js", "dashboard.js", "charts.js", "dashboard.css"):
        text = (ASSETS / name).read_text().replace('"http://www.w3.org/2000/svg"', "")  # a namespace
        assert re.findall(r"https?://|//[a-z]+\.", text) == []
    named = set(re.findall(r"https?://([a-z0-9.-]+)", (ASSETS / "vega.js").read_text()))
    # XML namespaces, schema names and a link in a warning; none is ever requested
    assert named <= {"www.w3.org", "vega.github.io", "github.com"}
