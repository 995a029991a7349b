"""The lasting changes of a metric's level, with the runs in which they begin."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ml_metrics.config.conditions import MinChange
from ml_metrics.core.model import Outcome
from ml_metrics.judge import changes_in
from unit.judge.cases import history, noisy, point

if TYPE_CHECKING:
    from ml_metrics.core.model import StoredMetric


def test_annotations_skip_non_finite_values() -> None:
    values: list[float | None] = [*noisy([(100, 30), (120, 10)])]
    rows: list[StoredMetric] = [*history(values), point(12.5, None), point(13.5, float("inf"))]
    (change,) = changes_in(rows)
    assert (change.run_key, change.index) == ("run-00030", 30)
    assert change.before == pytest.approx(100, abs=1)
    assert change.after == pytest.approx(120, abs=1)


def test_runs_that_diverged_are_no_level() -> None:
    diverged = [replace(row, outcome=Outcome.NON_FINITE, non_finite=0.5) for row in history([500.0] * 10)]
    others = history(noisy([(100, 40)]))
    assert changes_in([*others[:-10], *(replace(row, value=500.0) for row in others[-10:])])
    mixed = [
        replace(bad, run_key=row.run_key, timestamp=row.timestamp)
        for bad, row in zip(diverged, others[-10:], strict=True)
    ]
    assert changes_in([*others[:-10], *mixed]) == []


def test_rows_in_any_order_have_the_same_changes() -> None:
    rows = [point(0.25, math.nan), *history(noisy([(100, 30), (120, 20)]))]
    assert changes_in(rows[::-1]) == changes_in(rows)


def test_a_change_that_is_smaller_than_asked_is_left_out() -> None:
    rows = history(noisy([(100, 30), (106, 30)]))
    assert len(changes_in(rows, min_change=MinChange(absolute=5, percent=5))) == 1
    assert changes_in(rows, min_change=MinChange(absolute=8)) == []
    assert changes_in(rows, min_change=MinChange(percent=8)) == []


def test_only_changes_that_are_certain_enough_are_returned() -> None:
    rows = history(noisy([(100, 40), (102, 40)]))
    (change,) = changes_in(rows)
    assert changes_in(rows, certainty=change.certainty) == [change]
    assert changes_in(rows, certainty=change.certainty + 0.001) == []


def test_a_change_names_what_differs_from_the_run_before() -> None:
    rows = history(noisy([(100, 30), (90, 20)]))
    images = {row.run_key: {"image": "a" if number < 30 else "b", "node": "n1"} for number, row in enumerate(rows)}
    (change,) = changes_in(rows, attributes=images)
    assert change.differs == ("image: a -> b",)
    assert str(change).startswith("the level fell from ")
    assert str(change).endswith("%), first in run run-00030 of 2026-01-31 00:00, where image: a -> b")


def test_a_change_has_the_newest_unit() -> None:
    rows = history(noisy([(100, 30), (90, 20)]))
    renamed = [*(replace(row, unit="s") for row in rows[:-1]), replace(rows[-1], unit="ms")]
    assert [change.unit for change in changes_in(renamed)] == ["ms"]


def test_a_change_from_zero_has_no_percentage() -> None:
    (change,) = changes_in(history([0.0] * 20 + [3.0] * 20))
    assert change.percent is None
    assert "the level rose from 0 to 3, first" in str(change)
