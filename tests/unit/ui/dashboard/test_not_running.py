"""Tests that do not run, on the pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ml_metrics.ui.dashboard.page import notices_of, problems_by_test, sentences_of
from ml_metrics.warehouse import KnownTest, open_warehouse

if TYPE_CHECKING:
    from pathlib import Path

PROBLEMS = {"file:unreadable": "nightly.yaml:4: comand: unknown key"}


def test_what_the_last_pass_found_is_named(tmp_path: Path) -> None:
    with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db") as warehouse:
        assert problems_by_test(warehouse) == {}
        known = {"nightly": KnownTest("nightly", problems=PROBLEMS), "fine": KnownTest("fine")}
        warehouse.known_tests.replace(known, 0)
        assert problems_by_test(warehouse) == {"nightly": PROBLEMS}


@pytest.mark.parametrize(("number", "end"), [(1, "read)."), (10, "read)."), (12, " and 2 more.")])
def test_a_notice_is_short(number: int, end: str) -> None:
    (notice,) = notices_of({f"test-{one}": PROBLEMS for one in range(number)})
    assert notice.startswith("Not running as defined: test-0 (its file cannot be read)")
    assert notice.endswith(end)
    assert notices_of({}) == []


def test_the_page_of_a_test_has_the_file_and_the_line() -> None:
    assert sentences_of(PROBLEMS) == [
        "Not running as defined, its file cannot be read: nightly.yaml:4: comand: unknown key"
    ]
