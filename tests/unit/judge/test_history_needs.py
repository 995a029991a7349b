"""A judgement requests the rows it needs, and no others."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ml_metrics.judge import HistoryNeeds, history_needs
from ml_metrics.judge.baseline import Elsewhere
from ml_metrics.judge.history import RECENT
from unit.judge.cases import DAY, START, condition, config, history, point

MEAN = {"percent_difference": 4}


def needs(window: int, recent: int, earliest: datetime | None = None) -> HistoryNeeds:
    return HistoryNeeds(("a",), window, recent, earliest)


def days(rows: list) -> list[int]:
    return [(row.timestamp - START).days for row in rows]


def test_the_needs_of_a_test_that_looks_elsewhere() -> None:
    rules = {
        "loss": condition(MEAN, "less", window=30, compare_to="nightly"),
        "acc": condition(MEAN, "greater", window=20, compare_to={"deployment": "prod"}),
        "time": condition(MEAN, "less", window=20, compare_to={"deployment": "prod", "test": "b"}),
        "size": condition(MEAN, "less", window=20, compare_to={"deployment": "lab", "test": "nightly"}),
        "fixed": condition({"fixed_value": 1}, "less"),
    }
    found = history_needs(config(rules), "a")
    assert found.tests == ("a", "nightly")
    assert found.elsewhere == (
        Elsewhere("prod", "a", "a of deployment prod"),
        Elsewhere("prod", "b", "b of deployment prod"),
        Elsewhere("lab", "nightly", "nightly of deployment lab"),
    )
    assert found.series == (
        "a",
        "nightly",
        "a of deployment prod",
        "b of deployment prod",
        "nightly of deployment lab",
    )
    assert found.names == ("a", "nightly", "b")
    assert found.deployments == ("prod", "lab")
    assert (found.window, found.recent, found.earliest) == (30, 30, None)


@pytest.mark.parametrize(("window", "recent"), [(3, 10), (10, 10), (11, 11)])
def test_ten_rows_of_any_kind_are_read_at_least(window: int, recent: int) -> None:
    assert RECENT == 10
    found = history_needs(config({"loss": condition(MEAN, "less", window=window)}), "a")
    assert (found.window, found.recent) == (window, recent)


def test_conditions_without_a_history_need_no_baseline_and_set_no_limit() -> None:
    since = {"since": "2026-03-01"}
    fixed = condition({"fixed_value": 1}, "less", compare_to=None)
    found = history_needs(config({"loss": condition(MEAN, "less", **since), "fixed": fixed}), "a")
    assert found.earliest == datetime(2026, 3, 1, tzinfo=UTC)
    waits = condition({"fixed_value": 1}, "less", wait_for_n_points_of_history=3)
    assert history_needs(config({"fixed": waits}), "a").window == 100
    assert history_needs(config({"fixed": fixed}), "a").window == 0


def test_the_newest_rows_of_any_kind_and_older_good_ones_are_selected() -> None:
    rows = [point(day, None if day % 2 else 1.0, "missing" if day % 2 else "pass") for day in range(12)]
    assert days(needs(4, 4).select(rows)) == [4, 6, 8, 9, 10, 11]
    assert days(needs(2, 4).select(rows)) == [8, 9, 10, 11]
    assert days(needs(1, 4).select(rows)) == [8, 9, 10, 11]
    assert days(needs(3, 4).select(rows)) == [6, 8, 9, 10, 11]
    assert days(needs(2, 0).select(rows)) == [8, 10]
    assert days(needs(0, 0).select(rows)) == []
    assert days(needs(99, 4).select(rows)) == [0, 2, 4, 6, 8, 9, 10, 11]


def test_no_older_row_is_from_before_the_earliest() -> None:
    rows = history([1.0] * 8)
    assert days(needs(6, 2, START + 3 * DAY).select(rows)) == [3, 4, 5, 6, 7]
    assert days(needs(6, 6, START + 3 * DAY).select(rows)) == [2, 3, 4, 5, 6, 7], "it does not limit the recent ones"


def test_failed_verdicts_and_jobs_are_no_baseline() -> None:
    rows = [*history([1.0] * 3), point(3, 9.0, "fail"), point(4, 1.0, status="failure"), *history([1.0])]
    assert days(needs(9, 1).select(rows)) == [0, 1, 2, 0]
