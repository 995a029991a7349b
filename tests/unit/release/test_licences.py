"""Everything that is locked has a known licence, and none is copyleft but those that are named and allowed."""

from __future__ import annotations

import os
import re
from email.message import Message

import pytest
from packaging.markers import Marker

from missing import missing
from release import licences
from release.checks import TOOLS
from release.licences import ALLOWED, READ, Licensed, bundled, declared, licences_of, page, refused
from release.locks import LOCKS, read_lock
from release.tree import PROJECT

OURS = [lock for lock in LOCKS if lock != "requirements-release.lock"]


@pytest.mark.parametrize("lock", OURS)
def test_every_locked_licence_is_allowed(lock: str) -> None:
    found = licences_of(lock)
    assert len(found) == len(re.findall(r"^[a-z0-9].*==", (PROJECT / "requirements" / lock).read_text(), re.MULTILINE))
    assert [why for one in found if (why := refused(one))] == []


def test_every_licence_of_the_environment_for_releases_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    packages = next(TOOLS.parent.glob("lib/python*/site-packages"), None)
    if packages is None:
        missing("`make release-tools` installs what releases need")
    monkeypatch.setattr(licences, "PLACES", [str(packages)])
    lock = "requirements-release.lock"
    # on another Python than the one with which licences were read, some packages are not needed
    elsewhere = {one.name for one in read_lock(lock) if one.marker and not Marker(one.marker).evaluate()} - READ.keys()
    assert [why for one in licences_of(lock) if one.name not in elsewhere and (why := refused(one))] == []


def test_every_licence_in_the_chart_library_is_allowed_and_stands_beside_it() -> None:
    found = bundled()
    assert [why for one in found if (why := refused(one))] == []
    beside = (PROJECT / "plugins/ml_metrics/ui/dashboard/assets/vega-licences.txt").read_text()
    assert {"vega", "vega-lite", "d3-array"} <= {one.name for one in found}
    for one in found:
        if one.name.startswith(("vega-", "d3-")) and one.name != "vega-typings":
            assert f"\n== {one.name} " in f"\n{beside}", one.name


def test_nothing_is_allowed_or_read_by_hand_that_is_not_locked() -> None:
    names = {one.name for lock in LOCKS for one in read_lock(lock)}
    assert {name for name, _ in ALLOWED} | READ.keys() <= names


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("MIT AND Apache-2.0", True),
        ("GPL-3.0-only OR MIT", True),
        ("(GPL-2.0-or-later OR LGPL-2.1-only)", False),
        ("MIT AND GPL-3.0-only", False),
        ("AGPL-3.0-or-later", False),
        ("LGPL-3.0-only", False),
        ("MPL-2.0", False),
        ("Apache-2.0 WITH LLVM-exception", False),
        ("SSPL-1.0", False),
        ("LicenseRef-Proprietary", False),
        ("", False),
    ],
)
def test_what_is_not_permissive_is_refused(licence: str, allowed: bool) -> None:
    assert (refused(Licensed("new-package", "1", licence, "")) == "") is allowed


def test_a_licence_is_allowed_for_one_package_only() -> None:
    assert refused(Licensed("psycopg", "1", "LGPL-3.0-only", "")) == ""
    assert "is neither permissive nor allowed" in refused(Licensed("psycopg", "1", "AGPL-3.0-only", ""))


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License-Expression": "MIT AND PSF-2.0", "License": "GPL"}, "MIT AND PSF-2.0"),
        ({"License": "Apache License, Version 2.0"}, "Apache-2.0"),
        ({"License": "BSD 2-Clause License", "Classifier": "License :: OSI Approved :: BSD License"}, "BSD-2-Clause"),
        ({"License": "UNKNOWN", "Classifier": "License :: OSI Approved :: MIT License"}, "MIT"),
        ({"License": "GNU General Public License v3"}, ""),
        ({"License": "MIT, but only on Sundays"}, ""),
        ({"Classifier": "License :: Other/Proprietary License"}, ""),
        ({}, ""),
    ],
)
def test_a_declaration_becomes_an_expression_or_is_unknown(fields: dict[str, str], licence: str) -> None:
    metadata = Message()
    for name, value in fields.items():
        metadata[name] = value
    assert declared(metadata) == licence


def test_a_package_with_a_copyleft_classifier_beside_another_is_not_taken_for_the_other() -> None:
    metadata = Message()
    metadata["Classifier"] = "License :: OSI Approved :: MIT License"
    metadata["Classifier"] = "License :: OSI Approved :: GNU General Public License v3 (GPLv3)"
    assert declared(metadata) == ""


def test_the_page_of_licences_is_up_to_date() -> None:
    path = PROJECT / "requirements" / "licences.md"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(page())
    assert path.read_text() == page(), "`make docs` updates the page"
