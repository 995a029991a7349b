"""Bills of materials list what the lock files list, have the same bytes each time, and keep to CycloneDX's schema."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from missing import missing
from release import sbom
from release.checks import TOOLS, check_bills
from release.locks import ELSEWHERE, LOCKS, read_lock
from release.tree import PROJECT, ReleaseError

EPOCH = 1_767_225_600
METADATA = """\
Metadata-Version: 2.4
Name: Ml_Metrics
Version: 1.0.0+dev.g1
License-Expression: Apache-2.0
Requires-Dist: apache-airflow>=3.1
Requires-Dist: PyYAML
Provides-Extra: postgres
Requires-Dist: psycopg[binary]; extra == "postgres"
Provides-Extra: all
Requires-Dist: ml-metrics[postgres]; extra == "all"
Requires-Dist: Our_Other
"""
OTHER = """\
Metadata-Version: 2.4
Name: our-other
Version: 1.0.0+dev.g1
License-Expression: MIT
Requires-Dist: msgspec
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return write_wheel(tmp_path, "ml_metrics", METADATA)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return write_wheel(tmp_path, "our_other", OTHER)


def write_wheel(folder: Path, name: str, metadata: str) -> Path:
    path = folder / f"{name}-1.0.0+dev.g1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}-1.0.0+dev.g1.dist-info/METADATA", metadata)
    return path


def components(bill: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(bill)["components"]}


def test_the_bill_of_a_wheel_has_what_it_needs_at_locked_versions(wheel: Path, other: Path) -> None:
    bill = json.loads(text := sbom.of_wheel(wheel, EPOCH, [other]))
    own = bill["metadata"]["component"]
    assert (own["name"], own["version"]) == ("ml-metrics", "1.0.0+dev.g1")
    assert own["purl"] == "pkg:pypi/ml-metrics@1.0.0%2Bdev.g1"
    found = components(text)
    locked = {one.name: one.version for one in read_lock("requirements.lock")}
    ours = found.pop("our-other")
    assert (ours["version"], ours["licenses"]) == ("1.0.0+dev.g1", [{"expression": "MIT"}])
    assert found["msgspec"]["scope"] == "required"  # what our other distribution needs
    assert {name: one["version"] for name, one in found.items() if not one.get("properties")}.items() <= locked.items()
    assert found["apache-airflow"]["scope"] == found["pyyaml"]["scope"] == "required"
    assert found["apache-airflow-core"]["scope"] == "required"  # what is needed by what is needed
    assert found["psycopg"]["scope"] == found["psycopg-binary"]["scope"] == "optional"
    assert found["psycopg"]["licenses"] == [{"expression": "LGPL-3.0-only"}]
    assert "pandas" not in found  # locked, and not needed by this wheel
    (of_wheel,) = (each for each in bill["dependencies"] if each["ref"] == own["bom-ref"])
    assert f"pkg:pypi/psycopg@{locked['psycopg']}" in of_wheel["dependsOn"]


def test_a_requirement_that_is_not_locked_is_an_error(wheel: Path) -> None:
    with pytest.raises(ReleaseError, match=r"ml_metrics-.*: needs our-other, which is not in requirements\.lock"):
        sbom.of_wheel(wheel, EPOCH)


def test_the_bill_of_the_environment_has_everything_that_is_locked() -> None:
    bill = json.loads(sbom.of_lock("requirements.lock", EPOCH))
    assert [one["purl"] for one in bill["components"]] == [one.purl for one in read_lock("requirements.lock")]
    known = {one["bom-ref"] for one in [*bill["components"], bill["metadata"]["component"]]}
    assert {ref for each in bill["dependencies"] for ref in [each["ref"], *each["dependsOn"]]} == known


def test_a_bill_follows_from_its_content_alone(wheel: Path, other: Path) -> None:
    assert sbom.of_wheel(wheel, EPOCH, [other]) == sbom.of_wheel(wheel, EPOCH, [other])
    serials = {json.loads(sbom.of_wheel(wheel, epoch, [other]))["serialNumber"] for epoch in (EPOCH, EPOCH, EPOCH + 1)}
    assert len(serials) == 2


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_is_wanted_by_another_or_by_us(lock: str) -> None:
    packages = read_lock(lock)
    assert packages
    assert [one.name for one in packages if not one.wanted_by] == []


def test_bills_keep_to_the_schema(wheel: Path, other: Path, tmp_path: Path) -> None:
    if not (TOOLS / "python").exists():
        missing("`make release-tools` installs what releases need")
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(sbom.of_wheel(wheel, EPOCH, [other]))
    bad.write_text(good.read_text().replace('"type": "library"', '"type": "thing"', 1))
    check_bills([good])
    with pytest.raises(ReleaseError, match=r"bad\.json.*thing"):
        check_bills([good, bad])


def test_the_project_has_the_lock_files_that_are_read() -> None:
    assert set(LOCKS) | ELSEWHERE == {file.name for file in (PROJECT / "requirements").glob("*.lock")}
