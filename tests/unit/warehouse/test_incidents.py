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


def test_an_incident_is_assigned_to_the_person_who_was_named_last(warehouse: Warehouse) -> None:
    assert not warehouse.incidents.assign(TEST, "vera", by="otto")
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW, at=MONDAY)
    for person in ("vera", "otto"):
        assert warehouse.incidents.assign(TEST, person, by="a new user", at=MONDAY + WEEK)
    warehouse.incidents.report(TEST, "run 2", fingerprint="slow", reasons=LOW_AND_SLOW, at=MONDAY + WEEK / 2)
    incident = warehouse.incidents.find_open(TEST)
    assert incident is not None
    assert (incident.assigned_to, incident.assigned_by, incident.assigned_at) == ("otto", "a new user", MONDAY + WEEK)
    assert (incident.run_keys, incident.reasons) == (("run 1", "run 2"), tuple(LOW_AND_SLOW))
    # a recovery that was decided before somebody was named closes it nevertheless
    assert warehouse.incidents.close(TEST, "run 3", at=MONDAY + WEEK * 0.75)


def test_what_users_said_incidents_were(warehouse: Warehouse) -> None:
    for number, test in enumerate(("a", "b", "c", "old")):
        at = MONDAY + timedelta(minutes=number) - (WEEK if test == "old" else timedelta())
        warehouse.incidents.report(test, f"run of {test}", fingerprint="x", reasons=["x"], at=at)
    warehouse.incidents.close("a", "later")
    for test in ("a", "b", "old"):
        assert warehouse.incidents.assess(test, f"run of {test}", is_regression=True, by="vera")
    assert warehouse.incidents.assess("a", "run of a", is_regression=False, by="otto", note="noise")
    assert not warehouse.incidents.assess("a", "run of b", is_regression=False, by="otto")
    found = {one.test: (one.is_regression, one.by, one.note) for one in warehouse.incidents.assessed_since(MONDAY)}
    assert found == {"a": (False, "otto", "noise"), "b": (True, "vera", ""), "c": (None, "", "")}
    assert warehouse.incidents.assess("a", "run of a", is_regression=True, by="otto")
    assert [one.is_regression for one in warehouse.incidents.assessed_since(MONDAY)] == [True, True, None]
    assert warehouse.incidents.find_open("a") is None
