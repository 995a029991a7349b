"""The newest runs of many tests come from two queries, and are those that a query for each test finds."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from ml_metrics.core.model import JobStatus, Outcome
from ml_metrics.judge import HistoryNeeds
from ml_metrics.warehouse import Warehouse, open_warehouse
from ml_metrics.warehouse import metrics as newest_runs
from ml_metrics.warehouse.metrics import FirstOfRun
from unit.warehouse.records import MONDAY, record, run_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.core.model import StoredMetric
    from ml_metrics.warehouse import RunRecord

NAMES = ("loss_final", "rare_final")


def one_by_one(warehouse: Warehouse, tests: list[str], recent: int) -> dict[str, list[StoredMetric]]:
    needs = {test: HistoryNeeds(tests=(test,), window=0, recent=recent, earliest=None) for test in tests}
    return {test: rows for test, one in needs.items() if (rows := warehouse.metrics.history(one))}


def a_run(test: str, day: int, metrics: int, *, trial: bool = False, failed: bool = False) -> RunRecord:
    values = dict.fromkeys(NAMES[:metrics], float(day))
    status = JobStatus.FAILURE if failed else JobStatus.SUCCESS
    return record(day, values, test=test, status=status, trial=("image",) if trial else ())


def test_several_deployments_on_each_engine(opener: Callable[..., Warehouse]) -> None:
    warehouse = opener()
    runs = [a_run(test, day, day % 3) for test in ("a", "b", "c") for day in range(5)]
    others = [replace(one, job=replace(one.job, uuid=f"prod{one.key}", deployment="prod")) for one in runs]
    others = [replace(one, metrics=tuple(replace(m, run_key=one.key) for m in one.metrics)) for one in others]
    warehouse.load_all([*runs, *others])
    tests = ["b", "a", "none", "b"]
    assert dict(warehouse.metrics.of_newest_runs(tests, 3)) == one_by_one(warehouse, ["a", "b"], 3)
    assert list(warehouse.metrics.of_newest_runs(["none"], 3)) == list(warehouse.metrics.of_newest_runs([], 3)) == []


RUNS = some.lists(
    some.tuples(some.sampled_from("abc"), some.integers(0, 30), some.integers(0, 2), some.booleans(), some.booleans()),
    max_size=20,
)


@settings(max_examples=25, deadline=None)
@given(runs=RUNS, recent=some.integers(1, 5))
def test_they_are_those_that_a_query_for_each_finds(runs: list[tuple[Any, ...]], recent: int) -> None:
    with open_warehouse("sqlite://") as warehouse:
        for test, day, metrics, trial, failed in runs:
            warehouse.load(a_run(test, day, metrics, trial=trial, failed=failed))
        found = dict(warehouse.metrics.of_newest_runs(list("abc"), recent))
        assert found == one_by_one(warehouse, list("abc"), recent)


@pytest.mark.parametrize(("bills", "queries"), [(True, 2), (False, 6)])
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_many_tests_take_two_queries_where_bytes_are_billed(
    opener: Callable[..., Warehouse], monkeypatch: pytest.MonkeyPatch, *, bills: bool, queries: int
) -> None:
    warehouse = opener()
    tests = [f"t{number:02}" for number in range(50)]
    warehouse.load_all([a_run(test, day, 1) for test in tests for day in range(2)])
    store, asked = warehouse.database.store, []
    monkeypatch.setattr(store, "bills_bytes", bills)
    rows, stream = store.rows, store.stream
    monkeypatch.setattr(store, "rows", lambda *which: asked.append(which) or rows(*which))
    monkeypatch.setattr(store, "stream", lambda *which: asked.append(which) or stream(*which))
    found = list(warehouse.metrics.of_newest_runs(tests, 1))
    assert [name for name, _ in found] == tests
    assert all(len(of_test) == 1 for _, of_test in found)
    assert len(asked) == queries
    assert newest_runs.TESTS_AT_ONCE < 50


def test_the_first_values_of_a_run_are_those_that_are_judged(warehouse: Warehouse) -> None:
    judged = {"z_final": Outcome.PASS, "y_final": Outcome.FAIL}
    full = record(0, {"a_final": 1.0, "b_final": 2.0, "y_final": 3.0, "z_final": float("nan")}, outcomes=judged)
    full = replace(full, metrics=tuple(replace(m, unit="s" if m.metric == "y_final" else m.unit) for m in full.metrics))
    warehouse.load_all([full, record(1, {"step_time_p50": 5.0}, test="b"), record(2, {}, test="c")])
    warehouse.database.change("UPDATE metric_history SET unit = NULL WHERE test_name = :test", test="b")
    runs = {
        run_of(day, test).key: (test, MONDAY + timedelta(days=day))
        for day, test in ((0, run_of().test), (1, "b"), (2, "c"))
    }
    # rows of older versions have no unit: their names tell
    one = {run_of(1, "b").key: FirstOfRun([("step_time_p50", 5.0, "", "s")], 0)}
    first = [("y_final", 3.0, "fail", "s"), ("z_final", None, "pass", "")]
    rest = [("a_final", 1.0, "", ""), ("b_final", 2.0, "", "")]
    assert warehouse.metrics.first_of_runs(runs, most=2, limit=9) == {**one, full.key: FirstOfRun(first, 2)}
    assert warehouse.metrics.first_of_runs(runs, most=4, limit=9) == {**one, full.key: FirstOfRun(first + rest, 0)}
    assert warehouse.metrics.first_of_runs(runs, most=9, limit=2) == {**one, full.key: FirstOfRun(first[:1], 3)}
    assert warehouse.metrics.first_of_runs({}, most=9, limit=9) == {}


@pytest.mark.parametrize(("days", "is_found"), [(-11, True), (-12, False)])
def test_a_point_that_was_written_long_before_its_run_ended_is_one_of_it(
    warehouse: Warehouse, days: int, *, is_found: bool
) -> None:
    run = record(0, {"a_final": 1.0})
    warehouse.load(replace(run, metrics=(replace(run.metrics[0], written_at=MONDAY + timedelta(days=days)),)))
    found = warehouse.metrics.first_of_runs({run.key: (run.job.test_name, MONDAY)}, most=1, limit=1)
    assert (run.key in found) == is_found
