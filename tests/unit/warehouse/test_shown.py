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
    runs = warehouse.runs.between(MONDAY, MONDAY + WEEK)
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
    never, tested = warehouse.runs.tests()
    assert never.last_good is None
    assert (tested.newest.job_status, tested.last_good) == ("failure", MONDAY)
    assert (tested.owner, tested.framework, tested.accelerator) == ("vision-team", "tf", "cpu")


def test_only_what_is_broken_is_asked_for(warehouse: Warehouse) -> None:
    values = {"accuracy_final": 0.1, "loss_final": 2.0}
    outcomes = {**BAD, "loss_final": Outcome.PASS, "absent": Outcome.MISSING}
    warehouse.load(record(0, values, outcomes=outcomes))
    broken = warehouse.metrics.broken(MONDAY, MONDAY + WEEK)
    assert [(one.metric, one.outcome, one.value) for one in broken] == [
        ("absent", "missing", None),
        ("accuracy_final", "fail", 0.1),
    ]
    assert broken[1].lower == 0.5


def test_the_runs_and_metrics_of_a_test_in_a_span(warehouse: Warehouse) -> None:
    warehouse.load_all([record(day, {"a": day, "b": 1.0}, outcomes={"a": Outcome.PASS}) for day in range(5)])
    warehouse.load(record(1, {"a": 9.0}, test="other"))
    since, until = MONDAY + timedelta(days=1), MONDAY + timedelta(days=4)
    runs = warehouse.runs.of_test(TEST, since, until, limit=2)
    assert [run.uuid for run in runs] == [run_of(3).key, run_of(2).key]
    metrics = warehouse.metrics.of_test(TEST, runs[-1].timestamp, until)
    assert sorted((one.metric, one.value) for one in metrics) == [("a", 2), ("a", 3), ("b", 1), ("b", 1)]
    assert warehouse.metrics.names([TEST, "other"], since - WEEK, until) == ["a", "b"]
    assert warehouse.metrics.names([], since, until) == []


def test_values_of_several_tests_side_by_side(warehouse: Warehouse) -> None:
    for test in ("one", "two", "three"):
        warehouse.load(record(0, {"a": 1.0, "b": 2.0}, test=test))
    found = warehouse.metrics.of_tests(["one", "two"], ["b"], MONDAY, MONDAY + WEEK, limit=10)
    assert [(each.test, each.metric, each.value, each.timestamp) for each in found] == [
        ("one", "b", 2.0, MONDAY),
        ("two", "b", 2.0, MONDAY),
    ]
    assert warehouse.metrics.of_tests([], ["b"], MONDAY, MONDAY + WEEK, limit=10) == []


def test_a_run_is_found_by_its_key_and_by_airflows_names(warehouse: Warehouse) -> None:
    warehouse.load(record(0, metadata={"image_digest": "sha256:1"}))
    by_key, by_name = warehouse.runs.get(run_of(0).key), warehouse.runs.of_dag(TEST, "scheduled__0")
    assert by_key == by_name
    assert by_key is not None
    assert warehouse.runs.metadata(by_key.uuid) == {"image_digest": "sha256:1"}
    assert warehouse.runs.test_of_dag(TEST) == TEST
    assert warehouse.runs.get("none") is None
    assert warehouse.runs.of_dag(TEST, "none") is None
    assert warehouse.runs.test_of_dag("none") is None


def test_the_last_good_run_before_a_run(warehouse: Warehouse) -> None:
    warehouse.load_all([record(0, outcomes=GOOD), record(1, outcomes=BAD), record(2, status=JobStatus.FAILURE)])
    last = warehouse.runs.last_good(TEST, MONDAY + timedelta(days=2))
    assert last is not None
    assert last.uuid == run_of(0).key
    assert warehouse.runs.last_good(TEST, MONDAY) is None


def test_open_incidents_and_who_knows_of_them(warehouse: Warehouse) -> None:
    for test in ("known", "unknown", "mended"):
        warehouse.incidents.report(test, f"run-of-{test}", fingerprint="x", reasons=["broken"], at=MONDAY)
    warehouse.incidents.acknowledge("known", by="vera", note="a bad disk", at=MONDAY + WEEK)
    warehouse.incidents.close("mended", "later")
    incidents = warehouse.incidents.all_open()
    assert set(incidents) == {"known", "unknown"}
    assert (incidents["known"].acknowledged_by, incidents["known"].note) == ("vera", "a bad disk")
    assert (incidents["known"].opened_at, incidents["unknown"].acknowledged_by) == (MONDAY, None)


def test_the_newest_word_about_a_quarantine_holds(warehouse: Warehouse) -> None:
    warehouse.quarantines.set(TEST, until=MONDAY + WEEK, reason="a bad disk", by="vera", at=MONDAY)
    assert warehouse.quarantines.newest()[TEST].holds(MONDAY + timedelta(days=6))
    assert not warehouse.quarantines.newest()[TEST].holds(MONDAY + WEEK)
    later = MONDAY + timedelta(days=1)
    warehouse.quarantines.set(TEST, until=later, reason="a new disk", by="bob", at=later)
    assert not warehouse.quarantines.newest()[TEST].holds(later)
    assert warehouse.quarantines.newest()[TEST].by == "bob"
