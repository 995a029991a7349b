"""Tests that do not run, on the pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.ui.dashboard.page import not_running, problems_by_test
from ml_metrics.warehouse import KnownTest, open_warehouse

if TYPE_CHECKING:
    from pathlib import Path

PROBLEMS = {"file:unreadable": "nightly.yaml:4: comand: unknown key"}


def test_what_the_last_pass_found_is_named(tmp_path: Path) -> None:
    with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db") as warehouse:
        assert problems_by_test(warehouse.known_tests.read()) == {}
        known = {"nightly": KnownTest("nightly", problems=PROBLEMS), "fine": KnownTest("fine")}
        warehouse.known_tests.replace(known, 0)
        assert problems_by_test(warehouse.known_tests.read()) == {"nightly": PROBLEMS}


def test_each_problem_is_one_short_line_the_most_frequent_first() -> None:
    idle = {**{f"test-{one}": {"dag:paused": ""} for one in range(21)}, "nightly": PROBLEMS}
    assert not_running(idle) == [
        "21 tests do not run as defined, its DAG is paused: test-0, test-1, test-2 and 18 more",
        "1 test does not run as defined, its file cannot be read: nightly",
    ]
    assert not_running({}) == []
