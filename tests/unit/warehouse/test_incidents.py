"""Incidents, on every engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from unit.warehouse.records import MONDAY, TEST

if TYPE_CHECKING:
    from ml_metrics.warehouse import Warehouse

LOW, LOW_AND_SLOW = ["accuracy is low"], ["accuracy is low", "it is slow"]
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
WEEK = timedelta(days=7)


def test_an_incident_is_opened_once(warehouse: Warehouse) -> None:
    assert warehouse.incidents.find_open(TEST) is None
    assert warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    assert not warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    incident = warehouse.incidents.find_open(TEST)
    assert incident is not None
    assert (incident.opened_by, incident.fingerprint, incident.reasons, incident.run_keys) == (
        "run 1",
        "low",
        tuple(LOW),
        ("run 1",),
    )


def test_a_run_with_the_same_fingerprint_adds_nothing(warehouse: Warehouse) -> None:
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    assert not warehouse.incidents.report(TEST, "run 2", fingerprint="low", reasons=LOW)


def test_a_run_with_another_fingerprint_changes_the_incident(warehouse: Warehouse) -> None:
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    assert warehouse.incidents.report(TEST, "run 2", fingerprint="low and slow", reasons=LOW_AND_SLOW)
    incident = warehouse.incidents.find_open(TEST)
    assert incident is not None
    assert (incident.opened_by, incident.reasons, incident.run_keys) == (
        "run 1",
        tuple(LOW_AND_SLOW),
        ("run 1", "run 2"),
    )


def test_reporting_an_earlier_run_again_does_not_revert_the_incident(warehouse: Warehouse) -> None:
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    warehouse.incidents.report(TEST, "run 2", fingerprint="low and slow", reasons=LOW_AND_SLOW)
    assert not warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    incident = warehouse.incidents.find_open(TEST)
    assert incident is not None
    assert incident.fingerprint == "low and slow"


def test_an_incident_is_closed_once(warehouse: Warehouse) -> None:
    assert not warehouse.incidents.close(TEST, "run 0")
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    assert warehouse.incidents.close(TEST, "run 2")
    assert warehouse.incidents.find_open(TEST) is None
    assert not warehouse.incidents.close(TEST, "run 2")


def test_a_cleared_run_does_not_reopen_its_incident(warehouse: Warehouse) -> None:
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    warehouse.incidents.close(TEST, "run 2")
    assert not warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    assert warehouse.incidents.find_open(TEST) is None


def test_a_test_that_breaks_again_has_a_new_incident(warehouse: Warehouse) -> None:
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    warehouse.incidents.close(TEST, "run 2")
    assert warehouse.incidents.report(TEST, "run 3", fingerprint="low", reasons=LOW)
    incident = warehouse.incidents.find_open(TEST)
    assert incident is not None
    assert incident.opened_by == "run 3"


def test_tests_do_not_share_incidents(warehouse: Warehouse) -> None:
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    assert warehouse.incidents.find_open("another test") is None
    assert warehouse.incidents.report("another test", "run 9", fingerprint="low", reasons=LOW)
    assert warehouse.incidents.close("another test", "run 10")
    assert warehouse.incidents.find_open(TEST) is not None


def test_an_incident_is_acknowledged_once_and_stays_open(warehouse: Warehouse) -> None:
    assert not warehouse.incidents.acknowledge(TEST, by="a new user")
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=["accuracy is low"])
    assert warehouse.incidents.acknowledge(TEST, by="a new user", note="a bad disk", at=NOON)
    assert not warehouse.incidents.acknowledge(TEST, by="somebody else")
    (incident,) = warehouse.incidents.all_open().values()
    assert (incident.acknowledged_by, incident.acknowledged_at, incident.note) == ("a new user", NOON, "a bad disk")
    assert (incident.reasons, incident.run_keys) == (("accuracy is low",), ("run 1",))


def test_an_incident_has_every_reported_reason(warehouse: Warehouse) -> None:
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=["low"])
    warehouse.incidents.report(TEST, "run 1", fingerprint="slow", reasons=["slow"])
    incident = warehouse.incidents.find_open(TEST)
    assert incident is not None
    assert (incident.reasons, incident.reported) == (("slow",), ("low", "slow"))


def test_open_incidents_and_their_acknowledgements(warehouse: Warehouse) -> None:
    for test in ("known", "unknown", "mended"):
        warehouse.incidents.report(test, f"run-of-{test}", fingerprint="x", reasons=["broken"], at=MONDAY)
    warehouse.incidents.acknowledge("known", by="vera", note="a bad disk", at=MONDAY + WEEK)
    warehouse.incidents.close("mended", "later")
    incidents = warehouse.incidents.all_open()
    assert set(incidents) == {"known", "unknown"}
    assert (incidents["known"].acknowledged_by, incidents["known"].note) == ("vera", "a bad disk")
    assert (incidents["known"].opened_at, incidents["unknown"].acknowledged_by) == (MONDAY, None)
