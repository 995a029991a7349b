"""What names the rooms of the package names those that it has."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from campaigns.mutants.__main__ import PACKAGE, PROJECT, ROOMS

DOCS = Path(__file__).parents[3] / "docs"


def test_the_table_of_rooms_is_that_of_the_contract() -> None:
    spec = importlib.util.spec_from_file_location("make_rooms", DOCS / "make_rooms.py")
    assert spec is not None
    assert spec.loader is not None
    make_rooms = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_rooms)
    page = (DOCS / "contributing.md").read_text()
    assert page == make_rooms.with_rooms(page), "`make docs` writes it"
    assert page.count("| `judge/` | Numbers to verdicts") == 1


def test_mutants_are_drawn_from_rooms_that_are_there() -> None:
    assert [room for room in ROOMS if not (PROJECT / PACKAGE / room).exists()] == []
