"""Accepted levels and quarantines, on every engine."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from unit.warehouse.records import MONDAY, TEST, record, run_of

if TYPE_CHECKING:
    from ml_metrics.warehouse import Warehouse

WEEK = timedelta(days=7)


def test_an_acceptance_has_its_author_time_reason_and_run(warehouse: Warehouse) -> None:
    warehouse.load_all([record(0), record(1, {"accuracy_final": 0.5, "loss_final": 1.0})])
    assert warehouse.acceptances.add(
        run_of(1).key, "accuracy_final", reason="smaller model", by="a new user", at=MONDAY
    )
    (accepted,) = warehouse.acceptances.of_test(TEST)
    assert (accepted.test, accepted.metric, accepted.run_key) == (TEST, "accuracy_final", run_of(1).key)
    assert (accepted.reason, accepted.accepted_by, accepted.accepted_at) == ("smaller model", "a new user", MONDAY)
    assert (accepted.value, accepted.timestamp) == (0.5, record(1).job.timestamp)


def test_a_level_is_accepted_once(warehouse: Warehouse) -> None:
    warehouse.load(record(0))
    assert warehouse.acceptances.add(run_of(0).key, "accuracy_final", reason="first", by="a new user")
    assert not warehouse.acceptances.add(run_of(0).key, "accuracy_final", reason="second", by="another")
    assert [accepted.reason for accepted in warehouse.acceptances.of_test(TEST)] == ["first"]


def test_an_unmeasured_metric_cannot_be_accepted(warehouse: Warehouse) -> None:
    warehouse.load(record(0))
    assert not warehouse.acceptances.add(run_of(0).key, "no_such_metric", reason="why", by="a new user")
    assert not warehouse.acceptances.add("no such run", "accuracy_final", reason="why", by="a new user")
    assert warehouse.acceptances.of_test(TEST) == []


def test_a_reloaded_run_keeps_its_acceptance(warehouse: Warehouse) -> None:
    warehouse.load(record(0))
    warehouse.acceptances.add(run_of(0).key, "accuracy_final", reason="why", by="a new user")
    warehouse.load(record(0, {"accuracy_final": 0.1}))
    assert len(warehouse.acceptances.of_test(TEST)) == 1


def test_the_newest_quarantine_applies(warehouse: Warehouse) -> None:
    warehouse.quarantines.set(TEST, until=MONDAY + WEEK, reason="a bad disk", by="vera", at=MONDAY)
    assert warehouse.quarantines.newest()[TEST].holds(MONDAY + timedelta(days=6))
    assert not warehouse.quarantines.newest()[TEST].holds(MONDAY + WEEK)
    later = MONDAY + timedelta(days=1)
    warehouse.quarantines.set(TEST, until=later, reason="a new disk", by="bob", at=later)
    assert not warehouse.quarantines.newest()[TEST].holds(later)
    assert warehouse.quarantines.newest()[TEST].by == "bob"
