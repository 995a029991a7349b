"""Trials are recorded apart: no query leaves one in a history or a standing, on any engine."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ml_metrics.core.model import JobStatus, Outcome
from ml_metrics.judge import HistoryNeeds
from ml_metrics.warehouse import open_warehouse
from ml_metrics.warehouse.runs import BETWEEN, TESTS
from unit.warehouse.records import MONDAY, TEST, record, run_of

if TYPE_CHECKING:
    from ml_metrics.warehouse import Warehouse

WEEK = timedelta(days=7)
METRIC = "accuracy_final"
BAD, GOOD = {METRIC: Outcome.FAIL}, {METRIC: Outcome.PASS}
CHANGED = ("image", "size")


@pytest.fixture
def trial_at_each_end(warehouse: Warehouse) -> Warehouse:
    """Two regular runs on days 1 and 2, between a trial that passed and one that failed."""
    warehouse.load_all([
        record(0, outcomes=GOOD, trial=CHANGED),
        record(1, outcomes=GOOD),
        record(2, outcomes=GOOD),
        record(3, {METRIC: 0.1, "only_in_trials": 1}, outcomes=BAD, trial=CHANGED),
    ])  # fmt: skip
    return warehouse


def keys(*days: int) -> list[str]:
    return [run_of(day).key for day in days]


@pytest.mark.parametrize(("window", "recent", "found"), [(5, 5, (1, 2)), (0, 1, (2,)), (1, 1, (2,)), (2, 1, (1, 2))])
def test_a_history_has_no_trial(trial_at_each_end: Warehouse, window: int, recent: int, found: tuple[int, ...]) -> None:
    needs = HistoryNeeds(tests=(TEST,), window=window, recent=recent, earliest=MONDAY)
    rows = trial_at_each_end.metrics.history(needs, metrics=[METRIC, "only_in_trials"])
    assert {row.run_key for row in rows} == set(keys(*found))


def test_older_values_of_a_rare_metric_have_no_trial(warehouse: Warehouse) -> None:
    rare = {"rare": 1.0}
    warehouse.load_all([record(0, rare), record(1, rare, trial=CHANGED), *(record(day) for day in range(2, 20))])
    needs = HistoryNeeds(tests=(TEST,), window=2, recent=1, earliest=None)
    rows = warehouse.metrics.history(needs, metrics=["rare"])
    assert [row.run_key for row in rows if row.metric == "rare"] == keys(0)


def test_only_trials_are_no_history(warehouse: Warehouse) -> None:
    warehouse.load_all([record(day, trial=CHANGED) for day in range(3)])
    assert warehouse.metrics.history(HistoryNeeds(tests=(TEST,), window=5, recent=5, earliest=None)) == []
    assert (warehouse.runs.tests(), warehouse.runs.previous(TEST)) == ([], None)


def test_the_runs_of_a_test_have_trials_only_where_they_are_listed(trial_at_each_end: Warehouse) -> None:
    runs = trial_at_each_end.runs
    assert [run.uuid for run in runs.newest(TEST)] == keys(2, 1)
    assert [run.uuid for run in runs.newest(TEST, 3, trials=True)] == keys(3, 2, 1)
    assert [run.trial for run in runs.newest(TEST, trials=True)] == ["image, size", None, None, "image, size"]
    assert [run.run_key for run in runs.between(MONDAY, MONDAY + WEEK, [TEST])] == keys(1, 2)
    assert [one.runs for one in runs.sums(MONDAY, MONDAY + WEEK)] == [2]


def test_the_previous_and_the_last_run_that_passed_are_no_trials(trial_at_each_end: Warehouse) -> None:
    runs, second = trial_at_each_end.runs, MONDAY + timedelta(days=1)
    assert (runs.previous(TEST, before=second), runs.last_passed(TEST, second)) == (None, None)
    newest = runs.last_passed(TEST, MONDAY + WEEK)
    assert newest is not None
    assert newest.run_key == run_of(2).key


def test_the_standing_of_a_test_is_that_of_its_newest_regular_run(trial_at_each_end: Warehouse) -> None:
    (status,) = trial_at_each_end.runs.tests()
    assert (status.newest.run_key, status.newest.verdict) == (run_of(2).key, "pass")


def test_a_trial_that_ends_with_a_regular_run_is_not_the_newest(warehouse: Warehouse) -> None:
    warehouse.load_all([record(1), record(2, trial=CHANGED, status=JobStatus.FAILURE)])
    warehouse.database.change(
        "UPDATE job_history SET timestamp = :at WHERE test_name = :test", test=TEST, at=MONDAY + timedelta(days=1)
    )
    (status,) = warehouse.runs.tests()
    assert status.newest.run_key == run_of(1).key


def test_the_metrics_of_several_runs_have_no_trial(trial_at_each_end: Warehouse) -> None:
    metrics, until = trial_at_each_end.metrics, MONDAY + WEEK
    assert [row.run_key for row in metrics.values(TEST, METRIC)] == keys(2, 1)
    assert [row.run_key for row in metrics.of_tests([TEST], [METRIC], MONDAY, until, 10)] == keys(1, 2)
    assert metrics.names([TEST], MONDAY, until) == [METRIC]
    assert metrics.broken(MONDAY, until) == []


def test_the_metrics_of_a_trial_name_what_was_changed(trial_at_each_end: Warehouse) -> None:
    metrics = trial_at_each_end.metrics
    assert {row.trial for row in metrics.of_run(run_of(3).key)} == {"image, size"}
    assert [row.trial for row in metrics.values(TEST, METRIC, trials=True)] == [
        "image, size",
        None,
        None,
        "image, size",
    ]
    by_key = {row.run_key: row.trial for row in metrics.of_test(TEST, [METRIC], MONDAY, MONDAY + WEEK)}
    assert by_key == dict(zip(keys(0, 1, 2, 3), ("image, size", None, None, "image, size"), strict=True))


def test_a_run_that_is_loaded_again_may_become_a_trial(warehouse: Warehouse) -> None:
    warehouse.load(record(0))
    warehouse.load(record(0, trial=CHANGED))
    found = warehouse.runs.get(run_of(0).key)
    assert found is not None
    assert found.trial == "image, size"
    assert warehouse.runs.newest(TEST) == []


@pytest.mark.parametrize(
    ("query", "index"), [(BETWEEN, "job_history_by_time"), (TESTS, "job_history_regular_standing")]
)
def test_the_page_of_all_tests_reads_an_index_without_the_rows(tmp_path: Path, query: str, index: str) -> None:
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        warehouse.ensure_schema()
    times = {"since": "2026-01-01", "until": "2026-02-01", "horizon": "1900-01-01"}
    with closing(sqlite3.connect(tmp_path / "w.db")) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", {"deployment": "tests", **times}).fetchall()
    assert any({"COVERING", index} <= set(row[3].split()) for row in plan)
    assert not [row[3] for row in plan if "test_name=? AND timestamp>" in row[3]], "one search for each newest run"
