"""Queries for metrics, on every engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.core.model import Outcome
from ml_metrics.warehouse import with_verdicts
from unit.warehouse.records import MONDAY, TEST, record, verdict

if TYPE_CHECKING:
    import pytest

    from ml_metrics.warehouse import RunRecord, Warehouse

WEEK = timedelta(days=7)
BAD = {"accuracy_final": Outcome.FAIL}


def test_values_are_newest_first_and_limited(warehouse: Warehouse) -> None:
    warehouse.load_all([record(day, {"accuracy_final": float(day)}) for day in range(5)])
    assert [run.timestamp for run in warehouse.runs.newest(TEST, 2)] == [MONDAY + timedelta(days=day) for day in (4, 3)]
    assert [value.value for value in warehouse.metrics.values(TEST, "accuracy_final", 3)] == [4.0, 3.0, 2.0]
    assert warehouse.metrics.values(TEST, "no_such_metric") == []


def test_the_metrics_of_runs_are_read_however_far_apart_the_runs_ended(warehouse: Warehouse) -> None:
    def of(day: int, test: str = TEST) -> RunRecord:
        judged = replace(verdict("loss_final", Outcome.PASS, float(day)), reference=2.0)
        return with_verdicts(record(day, {"loss_final": float(day), "unjudged": 9.0}, test=test), [judged])

    runs = [of(day) for day in (0, 2, 400)]
    warehouse.load_all([*runs, of(1), of(2, "another")])
    ends = {run.key: run.job.timestamp for run in runs}
    found = warehouse.metrics.of_runs(TEST, {**ends, "unknown": MONDAY})
    assert [sorted(row.value for row in found[run.key]) for run in runs] == [[0.0, 9.0], [2.0, 9.0], [9.0, 400.0]]
    assert found["unknown"] == []
    assert sorted(row.value for row in warehouse.metrics.judged(ends)) == [0.0, 2.0, 400.0]


def test_broken_metrics(warehouse: Warehouse) -> None:
    values = {"accuracy_final": 0.1, "loss_final": 2.0}
    outcomes = {**BAD, "loss_final": Outcome.PASS, "absent": Outcome.MISSING}
    warehouse.load(record(0, values, outcomes=outcomes))
    broken = warehouse.metrics.broken(MONDAY, MONDAY + WEEK)
    assert [(one.metric, one.outcome, one.value) for one in broken] == [
        ("absent", "missing", None),
        ("accuracy_final", "fail", 0.1),
    ]
    assert broken[1].lower == 0.5


def test_values_of_several_tests_side_by_side(warehouse: Warehouse) -> None:
    for test in ("one", "two", "three"):
        warehouse.load(record(0, {"a": 1.0, "b": 2.0}, test=test))
    found = warehouse.metrics.of_tests(["one", "two"], ["b"], MONDAY, MONDAY + WEEK, limit=10)
    assert [(each.test, each.metric, each.value, each.timestamp) for each in found] == [
        ("one", "b", 2.0, MONDAY),
        ("two", "b", 2.0, MONDAY),
    ]


def test_nothing_is_asked_where_nothing_is_named(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warehouse.database.store, "rows", None)
    metrics, span = warehouse.metrics, (MONDAY, MONDAY + WEEK)
    assert metrics.of_tests([], ["b"], *span, limit=10) == metrics.of_tests(["one"], [], *span, limit=10) == []
    assert metrics.of_test("one", [], *span) == metrics.names([], *span) == []


def test_siblings_are_other_tests_with_a_metric_and_other_metrics_of_a_test_whose_noise_is_known(
    warehouse: Warehouse,
) -> None:
    for test, day, runs, spread in (("a", 0, 30, 1.0), ("a", 1, 31, 3.0), ("b", 0, 29, 1.0), (TEST, 0, 40, 4.0)):
        known = {"rule": "no rise that lasts 3 runs", "reference": -200.0, "spread": spread, "baseline_points": runs}
        plain = record(day, {"loss": 2.0, "other": 1.0}, test=test)
        verdicts = [replace(verdict(name, Outcome.PASS, 2.0), **known) for name in ("loss", "other")]
        warehouse.load(with_verdicts(plain, verdicts))
    found = warehouse.metrics.siblings(TEST, ["loss"], MONDAY + timedelta(days=2))
    assert sorted(found) == [("a", "loss", 0.01), (TEST, "loss", 0.02), (TEST, "other", 0.02)]
    assert warehouse.metrics.siblings(TEST, ["loss"], MONDAY + WEEK) == []
