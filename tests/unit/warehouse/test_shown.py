"""What pages ask, on every engine."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.model import JobStatus, Outcome
from unit.warehouse.records import MONDAY, TEST, record, run_of

if TYPE_CHECKING:
    from ml_metrics.warehouse import Warehouse

WEEK = timedelta(days=7)
BAD = {"accuracy_final": Outcome.FAIL}
GOOD = {"accuracy_final": Outcome.PASS}


def test_a_span_of_time_holds_every_run_of_every_test_that_stopped_in_it(warehouse: Warehouse) -> None:
    warehouse.load_all([record(day, outcomes=GOOD) for day in (-1, 0, 3, 7)])
    warehouse.load(record(2, test="other", status=JobStatus.TIMEOUT))
    runs = warehouse.runs_between(MONDAY, MONDAY + WEEK)
    assert [(run.test, run.run_key) for run in runs] == [
        (TEST, run_of(0).key),
        ("other", run_of(2, "other").key),
        (TEST, run_of(3).key),
    ]
    assert runs[1].job_status == "timeout"
    assert runs[0].at == MONDAY


def test_a_test_stands_as_its_newest_run_does_and_remembers_when_it_was_well(warehouse: Warehouse) -> None:
    warehouse.load_all([record(0, outcomes=GOOD), record(1, outcomes=BAD), record(2, status=JobStatus.FAILURE)])
    warehouse.load(record(1, test="never-well", outcomes=BAD))
    never, tested = warehouse.standings()
    assert never.last_good is None
    assert (tested.newest.job_status, tested.last_good) == ("failure", MONDAY)
    assert (tested.owner, tested.framework, tested.accelerator) == ("vision-team", "tf", "cpu")


def test_only_what_is_broken_is_asked_for(warehouse: Warehouse) -> None:
    values = {"accuracy_final": 0.1, "loss_final": 2.0}
    outcomes = {**BAD, "loss_final": Outcome.PASS, "absent": Outcome.MISSING}
    warehouse.load(record(0, values, outcomes=outcomes))
    broken = warehouse.broken_between(MONDAY, MONDAY + WEEK)
    assert [(one.metric, one.verdict, one.value) for one in broken] == [
        ("absent", "missing", None),
        ("accuracy_final", "fail", 0.1),
    ]
    assert broken[1].lower == 0.5


def test_the_runs_and_metrics_of_a_test_in_a_span(warehouse: Warehouse) -> None:
    warehouse.load_all([record(day, {"a": day, "b": 1.0}, outcomes={"a": Outcome.PASS}) for day in range(5)])
    warehouse.load(record(1, {"a": 9.0}, test="other"))
    since, until = MONDAY + timedelta(days=1), MONDAY + timedelta(days=4)
    runs = warehouse.runs_of(TEST, since, until, limit=2)
    assert [run.uuid for run in runs] == [run_of(3).key, run_of(2).key]
    metrics = warehouse.metrics_between(TEST, runs[-1].timestamp, until)
    assert sorted((one.metric, one.value) for one in metrics) == [("a", 2), ("a", 3), ("b", 1), ("b", 1)]
    assert warehouse.metric_names([TEST, "other"], since - WEEK, until) == ["a", "b"]
    assert warehouse.metric_names([], since, until) == []


def test_values_of_several_tests_side_by_side(warehouse: Warehouse) -> None:
    for test in ("one", "two", "three"):
        warehouse.load(record(0, {"a": 1.0, "b": 2.0}, test=test))
    found = warehouse.compared(["one", "two"], ["b"], MONDAY, MONDAY + WEEK, limit=10)
    assert [(each.test, each.metric, each.value, each.at) for each in found] == [
        ("one", "b", 2.0, MONDAY),
        ("two", "b", 2.0, MONDAY),
    ]
    assert warehouse.compared([], ["b"], MONDAY, MONDAY + WEEK, limit=10) == []


def test_a_run_is_found_by_its_key_and_by_airflows_names(warehouse: Warehouse) -> None:
    warehouse.load(record(0, metadata={"image_digest": "sha256:1"}))
    by_key, by_name = warehouse.run(run_of(0).key), warehouse.run_of_dag(TEST, "scheduled__0")
    assert by_key == by_name
    assert by_key is not None
    assert warehouse.metadata_of(by_key.uuid) == {"image_digest": "sha256:1"}
    assert warehouse.test_of_dag(TEST) == TEST
    assert warehouse.run("none") is None
    assert warehouse.run_of_dag(TEST, "none") is None
    assert warehouse.test_of_dag("none") is None


def test_the_last_good_run_before_a_run(warehouse: Warehouse) -> None:
    warehouse.load_all([record(0, outcomes=GOOD), record(1, outcomes=BAD), record(2, status=JobStatus.FAILURE)])
    last = warehouse.last_good_run(TEST, MONDAY + timedelta(days=2))
    assert last is not None
    assert last.uuid == run_of(0).key
    assert warehouse.last_good_run(TEST, MONDAY) is None


def test_open_incidents_and_who_knows_of_them(warehouse: Warehouse) -> None:
    for test in ("known", "unknown", "mended"):
        warehouse.record_alert(test, f"run-of-{test}", fingerprint="x", reasons=["broken"], at=MONDAY)
    warehouse.acknowledge("known", by="vera", note="a bad disk", at=MONDAY + WEEK)
    warehouse.close_alert("mended", "later")
    incidents = warehouse.open_incidents()
    assert set(incidents) == {"known", "unknown"}
    assert (incidents["known"].acknowledged_by, incidents["known"].note) == ("vera", "a bad disk")
    assert (incidents["known"].opened_at, incidents["unknown"].acknowledged_by) == (MONDAY, None)


def test_the_newest_word_about_a_quarantine_holds(warehouse: Warehouse) -> None:
    warehouse.quarantine(TEST, until=MONDAY + WEEK, reason="a bad disk", by="vera", at=MONDAY)
    assert warehouse.quarantines()[TEST].holds(MONDAY + timedelta(days=6))
    assert not warehouse.quarantines()[TEST].holds(MONDAY + WEEK)
    later = MONDAY + timedelta(days=1)
    warehouse.quarantine(TEST, until=later, reason="a new disk", by="bob", at=later)
    assert not warehouse.quarantines()[TEST].holds(later)
    assert warehouse.quarantines()[TEST].by == "bob"
