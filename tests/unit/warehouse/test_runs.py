"""Queries for runs and tests, on every engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ml_metrics.core.model import JobStatus, Outcome, Workload
from ml_metrics.core.values import BEGINNING_OF_TIME
from ml_metrics.warehouse import Place, RunRecord, RunSummary, RunSums, ScheduledRuns, TestStatus, run_record
from ml_metrics.warehouse.runs import MOST_NAMED
from unit.warehouse.records import MONDAY, TEST, metric, record, run_of

if TYPE_CHECKING:
    from ml_metrics.warehouse import Warehouse

WEEK = timedelta(days=7)
BAD = {"accuracy_final": Outcome.FAIL}
GOOD = {"accuracy_final": Outcome.PASS}


def test_the_previous_run(warehouse: Warehouse) -> None:
    warehouse.load_all([record(day) for day in range(3)])
    assert warehouse.runs.previous(TEST, exclude=run_of(2).key) == record(1).job
    assert warehouse.runs.previous(TEST, before=MONDAY + timedelta(days=1)) == record(0).job
    assert warehouse.runs.previous(TEST, before=MONDAY) is None


def test_a_run_is_stored_whatever_its_clock_said(warehouse: Warehouse) -> None:
    workload = Workload(JobStatus.SUCCESS, ended_at=datetime.fromisoformat("0001-01-01T00:00:00+05:00"))
    about = {"test_type": "", "accelerator": "", "framework_version": ""}
    warehouse.load(run_record(run_of(0), workload, [metric("accuracy_final", 0.9)], (), {}, **about))
    row = warehouse.runs.get(run_of(0).key)
    assert row is not None
    assert row.timestamp == BEGINNING_OF_TIME
    assert [one.value for one in warehouse.metrics.of_run(run_of(0).key)] == [0.9]


def test_the_runs_of_all_tests_in_a_time_span(warehouse: Warehouse) -> None:
    warehouse.load_all([record(day, outcomes=GOOD) for day in (-1, 0, 3, 7)])
    warehouse.load(record(2, test="other", status=JobStatus.TIMEOUT))
    runs = warehouse.runs.between(MONDAY, MONDAY + WEEK, [TEST, "other"])
    of_many = warehouse.runs.between(MONDAY, MONDAY + WEEK, [TEST, "other", *map(str, range(MOST_NAMED))])
    assert sorted(of_many, key=lambda run: run.test) == runs
    assert [run.test for run in warehouse.runs.between(MONDAY, MONDAY + WEEK, ["other"])] == ["other"]
    assert warehouse.runs.between(MONDAY, MONDAY + WEEK, []) == []
    sums = {one.test: (one.dag_id, one.runs, one.good) for one in warehouse.runs.sums(MONDAY, MONDAY + WEEK)}
    assert sums == {TEST: (TEST, 2, 2), "other": ("other", 1, 0)}
    assert [(run.test, run.run_key) for run in runs] == [
        ("other", run_of(2, "other").key),
        (TEST, run_of(0).key),
        (TEST, run_of(3).key),
    ]
    assert runs[0].job_status == "timeout"
    assert runs[1].at == MONDAY


def test_a_test_has_its_newest_run_and_the_time_of_its_last_good_run(warehouse: Warehouse) -> None:
    warehouse.load_all([record(0, outcomes=GOOD), record(1, outcomes=BAD), record(2, status=JobStatus.FAILURE)])
    warehouse.load(record(1, test="never-well", outcomes=BAD))
    never, tested = warehouse.runs.tests()
    assert never.last_good is None
    assert (tested.newest.job_status, tested.last_good) == ("failure", MONDAY)
    assert (tested.owner, tested.framework, tested.accelerator) == ("vision-team", "tf", "cpu")


def test_the_runs_and_metrics_of_a_test_in_a_time_span(warehouse: Warehouse) -> None:
    warehouse.load_all([record(day, {"a": day, "b": 1.0}, outcomes={"a": Outcome.PASS}) for day in range(5)])
    warehouse.load(record(1, {"a": 9.0}, test="other"))
    since, until = MONDAY + timedelta(days=1), MONDAY + timedelta(days=4)
    runs = warehouse.runs.of_test(TEST, since, until, limit=2)
    assert [run.uuid for run in runs] == [run_of(3).key, run_of(2).key]
    metrics = warehouse.metrics.of_test(TEST, ["a", "b"], runs[-1].timestamp, until)
    assert sorted((one.metric, one.value) for one in metrics) == [("a", 2), ("a", 3), ("b", 1), ("b", 1)]
    assert warehouse.metrics.names([TEST, "other"], since - WEEK, until) == ["a", "b"]
    assert warehouse.metrics.names([], since, until) == []


def test_a_run_is_found_by_its_key_and_by_its_names_in_airflow(warehouse: Warehouse) -> None:
    warehouse.load(record(0, metadata={"image_digest": "sha256:1"}))
    by_key, by_name = warehouse.runs.get(run_of(0).key), warehouse.runs.of_dag(TEST, "scheduled__0")
    assert by_key == by_name
    assert by_key is not None
    assert warehouse.runs.metadata(by_key.uuid) == {"image_digest": "sha256:1"}
    assert warehouse.runs.test_of_dag(TEST) == TEST
    assert warehouse.runs.get("none") is None
    assert warehouse.runs.of_dag(TEST, "none") is None
    assert warehouse.runs.test_of_dag("none") is None


def test_the_last_run_that_passed_before_a_run(warehouse: Warehouse) -> None:
    warehouse.load_all([record(0, outcomes=GOOD), record(1, outcomes=BAD), record(2, status=JobStatus.FAILURE)])
    last = warehouse.runs.last_passed(TEST, MONDAY + timedelta(days=2))
    assert last is not None
    assert last.run_key == run_of(0).key
    assert warehouse.runs.last_passed(TEST, MONDAY) is None


def test_runs_by_hand_are_not_those_of_the_schedule(warehouse: Warehouse) -> None:
    warehouse.load_all([record(0), record(1)])
    ends = {row.run_id: row.timestamp for row in warehouse.runs.newest(TEST)}
    assert warehouse.runs.last_scheduled(min(ends.values())) == {TEST: max(ends.values())}
    newest = warehouse.runs.newest(TEST)[0]
    for number, run_id in enumerate(("manual__1", "confirm__1__1", "backfill__1", "import__asv__1")):
        later = replace(newest, uuid=run_id, run_id=run_id, timestamp=newest.timestamp + timedelta(hours=number + 1))
        warehouse.load(RunRecord(later))
    assert warehouse.runs.last_scheduled(min(ends.values())) == {TEST: max(ends.values())}
    assert warehouse.runs.last_scheduled(max(ends.values()) + timedelta(seconds=1)) == {}


def test_a_run_of_an_older_system_has_the_name_of_its_test_for_a_dag(warehouse: Warehouse) -> None:
    run = record(0, outcomes=BAD)
    older = replace(run.job, dag_id=None, owner=None, verdict="fail", failure_reason="OOMKilled", goodput=80.0)
    warehouse.load(replace(run, job=older))
    warehouse.load(replace(record(1, outcomes=GOOD), job=replace(record(1, outcomes=GOOD).job, dag_id="another")))
    span = (MONDAY, MONDAY + WEEK)
    first = RunSummary(run.key, TEST, TEST, MONDAY, "success", "fail", "OOMKilled", 80.0)
    second = RunSummary(record(1).key, TEST, "another", MONDAY + timedelta(days=1), "success", "pass", None)
    assert warehouse.runs.between(*span, [TEST]) == [first, second]
    assert sorted(warehouse.runs.sums(*span)) == [
        RunSums(TEST, "another", 1, 1, 0, 0.0),
        RunSums(TEST, TEST, 1, 0, 1, 80.0),
    ]
    good = MONDAY + timedelta(days=1)
    assert warehouse.runs.tests() == [TestStatus(second, "vision-team", "tf", "cpu", good)]
    warehouse.database.change("DELETE FROM job_history WHERE dag_id = :dag", dag="another")
    assert warehouse.runs.tests() == [TestStatus(first, "", "tf", "cpu", None)]


def test_of_two_runs_that_end_at_once_the_later_key_is_the_newest(warehouse: Warehouse) -> None:
    runs = [replace(record(day).job, timestamp=MONDAY) for day in range(4)]
    warehouse.load_all([RunRecord(job) for job in runs])
    keys = sorted((job.uuid for job in runs), reverse=True)
    (test,) = warehouse.runs.tests()
    assert test.newest.run_key == keys[0]
    assert [run.uuid for run in warehouse.runs.newest(TEST)] == keys
    assert [run.uuid for run in warehouse.runs.newest(TEST, 2)] == keys[:2]


def test_trials_are_counted_and_otherwise_left_out(warehouse: Warehouse) -> None:
    warehouse.load_all([record(0), record(1, trial=("image",)), record(2, trial=("size",)), record(3, test="other")])
    runs = warehouse.runs
    assert runs.trials() == {TEST: 2}
    assert (runs.latest(TEST), runs.latest("none")) == (record(2, trial=("size",)).job, None)
    assert [run.uuid for run in runs.newest(TEST)] == [record(0).key]
    assert [run.uuid for run in runs.newest(TEST, trials=True)] == [record(day).key for day in (2, 1, 0)]
    assert (runs.oldest(TEST, 2), runs.oldest(TEST, 2, trials=True)) == (MONDAY, MONDAY + timedelta(days=1))
    assert (runs.oldest("none", 2), runs.oldest(TEST, 2, MONDAY)) == (None, None)
    assert (runs.tests_since(MONDAY), runs.tests_since(MONDAY + timedelta(days=1))) == (2, 1)
    assert runs.tests_since(MONDAY + WEEK) == 0
    assert runs.deployments() == ["local"]


def test_the_runs_that_a_schedule_started_are_counted_from_a_time_on(warehouse: Warehouse) -> None:
    warehouse.load_all([record(day) for day in range(4)])
    by_hand = replace(record(4).job, run_id="manual__1")
    warehouse.load_all([RunRecord(by_hand), RunRecord(replace(record(0, test="older").job, run_id=None))])
    moment, last = MONDAY + timedelta(days=2), by_hand.timestamp
    assert warehouse.runs.scheduled(moment) == {
        TEST: ScheduledRuns(MONDAY, last, 2),
        "older": ScheduledRuns(MONDAY, MONDAY, 0),
    }
    assert warehouse.runs.last_scheduled(MONDAY) == {TEST: MONDAY + timedelta(days=3), "older": MONDAY}


def test_a_run_is_read_at_its_place(warehouse: Warehouse) -> None:
    warehouse.load(record(0, metadata={"lr": "0.1"}))
    place = Place(run_of(0).key, TEST, MONDAY)
    runs = warehouse.runs
    assert (runs.place(place.run_key), runs.place("none")) == (place, None)
    assert runs.get(place) == runs.get(place.run_key) == record(0).job
    assert runs.get(place._replace(at=MONDAY + timedelta(days=2))) is None
    assert runs.metadata(place.run_key, place) == {"lr": "0.1"}
    assert (runs.metadata("none"), runs.metadata("none", place)) == ({}, {"lr": "0.1"})
    assert runs.metadata(place.run_key, place._replace(at=MONDAY + timedelta(days=2))) == {}


@pytest.mark.parametrize("bills", [False, True])
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_the_newest_runs_are_the_same_where_bytes_are_billed(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, *, bills: bool
) -> None:
    """A small query finds the dates of the runs there; without any, the large query is not sent."""
    warehouse.load_all([record(day) for day in range(5)])
    store, asked = warehouse.database.store, []
    monkeypatch.setattr(store, "bills_bytes", bills)
    monkeypatch.setattr(store, "horizon", MONDAY + timedelta(days=1))
    rows = store.rows
    monkeypatch.setattr(store, "rows", lambda query, values: asked.append(values) or rows(query, values))
    all_time = warehouse.runs.of_test(TEST, MONDAY + timedelta(days=1), MONDAY + WEEK, 2)
    assert [run.uuid for run in all_time] == [record(4).key, record(3).key]
    start = MONDAY + timedelta(days=3 if bills else 1)
    assert asked[-1]["since"] == start
    later = warehouse.runs.of_test(TEST, MONDAY + timedelta(days=2), MONDAY + WEEK, 2)
    assert (later, asked[-1]["since"]) == (all_time, MONDAY + timedelta(days=2))
    before = len(asked)
    assert warehouse.runs.of_test("none", MONDAY, MONDAY + WEEK, 2) == []
    assert len(asked) == before + 1


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_list_of_runs_has_fifty(warehouse: Warehouse) -> None:
    warehouse.load_all([RunRecord(record(day).job) for day in range(51)])
    assert len(warehouse.runs.newest(TEST)) == 50
