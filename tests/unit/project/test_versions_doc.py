"""The versions that are promised are those that are tested: one file lists them, and all else follows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from matrix.corners import (
    HEAD,
    LOCK,
    README,
    SHORT_HEAD,
    load_corners,
    number,
    pythons,
    rows_of_page,
    summary,
    table,
    table_in,
)

PROJECT = Path(__file__).parents[3]
CORNERS = load_corners()


def test_the_readme_lists_the_tested_versions() -> None:
    assert table_in(README, "versions") == table(summary(CORNERS), SHORT_HEAD)


def test_the_page_has_a_row_of_what_was_installed_for_each_corner() -> None:
    page = rows_of_page()
    assert list(page) == [one.name for one in CORNERS]
    for corner in CORNERS:
        row = dict(zip(HEAD, page[corner.name], strict=True))
        assert (row["Airflow"], row["Python"], row[""]) == (corner.airflow, corner.python, corner.note)
        assert corner.packages in row["packages of"]
        assert {name: row[name] for name in corner.pins} == corner.pins


def test_ci_runs_the_ends_of_the_ranges() -> None:
    oldest, *_, newest = sorted((one for one in CORNERS if one.ci), key=lambda one: number(one.airflow))
    versions = sorted(number(one.airflow) for one in CORNERS)
    assert (number(oldest.airflow), oldest.python) == (versions[0], pythons(CORNERS)[0])
    assert (number(newest.airflow), newest.python) == (versions[-1], pythons(CORNERS)[-1])
    assert " matrix SHORT=1 " in (PROJECT / ".ci" / "run").read_text()


def test_the_locked_airflow_is_a_corner_on_each_python() -> None:
    (locked,) = re.findall(r"^apache-airflow==(\S+)", (PROJECT / LOCK).read_text(), re.MULTILINE)
    of_lock = [one for one in CORNERS if one.packages == LOCK]
    assert {one.airflow for one in of_lock} == {locked}
    assert [one.python for one in of_lock] == pythons(CORNERS)


def test_the_makefile_and_the_package_take_the_tested_pythons() -> None:
    oldest, *_, newest = (number(one) for one in pythons(CORNERS))
    check = f"{oldest} <= sys.version_info < ({newest[0]}, {newest[1] + 1})"
    assert check in (PROJECT / "Makefile").read_text()
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"].startswith(f">={pythons(CORNERS)[0]}")


def test_the_package_asks_for_the_oldest_tested_airflow_and_takes_newer_ones_than_the_newest() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    asked = [one for one in project["dependencies"] if one.startswith("apache-airflow>")]
    assert asked == [f"apache-airflow>={min((one.airflow for one in CORNERS), key=number)},<4"]


def test_every_minor_version_in_the_range_has_a_corner() -> None:
    minors = sorted({number(one.airflow)[1] for one in CORNERS})
    assert minors == list(range(minors[0], minors[-1] + 1))
