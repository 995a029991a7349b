"""What is known of an incident, field by field, and both sides of each time that decides about it, on every engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ml_metrics.warehouse import Assessment, Incident
from ml_metrics.warehouse.incidents import ClosedIncident
from unit.warehouse.records import MONDAY, TEST

if TYPE_CHECKING:
    from ml_metrics.warehouse import Warehouse

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
TICK, MINUTE, WEEK = timedelta(microseconds=1), timedelta(minutes=1), timedelta(days=7)
LOW, LOW_AND_SLOW = ["accuracy is low"], ["accuracy is low", "it is slow"]
OPENED = Incident(
    test=TEST,
    opened_by="message 1",
    opened_at=NOON,
    fingerprint="low",
    reasons=("it is low",),
    run_keys=("run 1",),
    reported=("it is low",),
    changed_at=NOON,
)


def report(warehouse: Warehouse, run: int, minute: float | None, *reasons: str, **more: Any) -> bool:
    """Report that a test is broken, by the message with the number of the run."""
    at = None if minute is None else NOON + minute * MINUTE
    given = {"test": TEST, "fingerprint": "low", "incident": f"message {run}", "at": at, **more}
    return warehouse.incidents.report(run_key=f"run {run}", reasons=list(reasons or ("it is low",)), **given)


def test_an_incident_from_its_first_alert_to_its_last(warehouse: Warehouse) -> None:
    assert report(warehouse, 1, 0)
    assert warehouse.incidents.find_open(TEST) == OPENED
    assert report(warehouse, 2, 5, "it is low", "it is slow", fingerprint="slow", cause="a bad disk", cost="7 EUR")
    changed = replace(
        OPENED,
        fingerprint="slow",
        reasons=("it is low", "it is slow"),
        run_keys=("run 1", "run 2"),
        reported=("it is low", "it is slow"),
        cause="a bad disk",
        caused_at=NOON + 5 * MINUTE,
        cost="7 EUR",
        changed_at=NOON + 5 * MINUTE,
    )
    assert warehouse.incidents.find_open(TEST) == changed
    # an alert that knows of neither leaves the cause and the cost
    assert report(warehouse, 3, 6, "it is late", fingerprint="late")
    later = replace(
        changed,
        fingerprint="late",
        reasons=("it is late",),
        run_keys=("run 1", "run 2", "run 3"),
        reported=("it is low", "it is slow", "it is late"),
        caused_at=NOON + 6 * MINUTE,
        changed_at=NOON + 6 * MINUTE,
    )
    assert warehouse.incidents.find_open(TEST) == later
    assert report(warehouse, 4, 7, "it is dear", fingerprint="dear", cause="a bad node", cost="8 EUR")
    found = warehouse.incidents.find_open(TEST)
    assert found is not None
    assert (found.cause, found.cost, found.caused_at) == ("a bad node", "8 EUR", NOON + 7 * MINUTE)
    assert warehouse.incidents.all_open() == {TEST: found}


def test_what_users_say_of_an_incident(warehouse: Warehouse) -> None:
    report(warehouse, 1, 0)
    incidents = warehouse.incidents
    assert incidents.acknowledge(TEST, by="vera", at=NOON + MINUTE)
    assert incidents.assign(TEST, "otto", by="vera", at=NOON + 2 * MINUTE)
    assert incidents.assess(TEST, "message 1", is_regression=False, by="otto", at=NOON + 3 * MINUTE)
    said = replace(
        OPENED,
        acknowledged_by="vera",
        acknowledged_at=NOON + MINUTE,
        assigned_to="otto",
        assigned_by="vera",
        assigned_at=NOON + 2 * MINUTE,
        is_regression=False,
        assessed_by="otto",
    )
    assert incidents.find_open(TEST) == said
    assert incidents.assign(TEST, "", by="otto", at=NOON + 4 * MINUTE)
    assert incidents.assess(TEST, "message 1", is_regression=True, by="vera", at=NOON + 4 * MINUTE)
    nobody = {"assigned_to": "", "assigned_by": "otto", "assigned_at": NOON + 4 * MINUTE}
    assert incidents.find_open(TEST) == replace(said, **nobody, is_regression=True, assessed_by="vera")
    # of what was said, the newest word counts, whatever was recorded last
    assert not incidents.assign(TEST, "vera", by="vera", at=NOON + 3 * MINUTE)
    assert not incidents.assess(TEST, "message 2", is_regression=True, by="vera")
    assert not incidents.assign("another test", "vera", by="vera")
    assert incidents.find_open(TEST) == replace(said, **nobody, is_regression=True, assessed_by="vera")


def test_the_document_of_an_incident_has_its_older_names() -> None:
    document = OPENED.document()
    assert (document["told_about"], document["told"], document["test"]) == (("run 1",), ("it is low",), TEST)
    assert not {"run_keys", "reported"} & document.keys()
    assert document["opened_at"] == NOON


@pytest.mark.parametrize(
    ("run", "minute", "reason", "changes"),
    [
        (1, 0, ("it is low", "low"), False),
        (1, None, ("it is low", "other"), False),
        (1, None, ("it is slow", "low"), False),
        (1, None, ("it is slow", "slow"), True),
        (2, None, ("it is low", "low"), False),
        (2, None, ("it is low", "other"), True),
        (2, 0, ("it is low", "low"), False),
        (2, 1, ("it is low", "low"), True),
        (1, 1, ("it is low", "low"), True),
        (2, -1, ("it is slow", "slow"), True),
    ],
)
def test_an_alert_changes_an_incident_if_it_is_later_or_says_more(
    warehouse: Warehouse, run: int, minute: float | None, reason: tuple[str, str], *, changes: bool
) -> None:
    """A reason comes with the fingerprint of all current problems."""
    report(warehouse, 1, 0)
    assert report(warehouse, run, minute, reason[0], fingerprint=reason[1]) == changes
    found = warehouse.incidents.find_open(TEST)
    assert found is not None
    assert (found == OPENED) != changes


def test_an_alert_without_a_message_is_known_by_its_run(warehouse: Warehouse) -> None:
    before = datetime.now(UTC)
    assert warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=["it is low"])
    found = warehouse.incidents.find_open(TEST)
    assert found is not None
    assert found.opened_by == "run 1"
    assert before <= found.opened_at <= datetime.now(UTC)


def test_a_further_alert_of_one_run_keeps_what_it_reported_before(warehouse: Warehouse) -> None:
    report(warehouse, 1, 0)
    report(warehouse, 2, 1, "b", fingerprint="b", cause="a bad disk", cost="7 EUR")
    assert report(warehouse, 2, 3, "c", fingerprint="c")
    found = warehouse.incidents.find_open(TEST)
    assert found is not None
    assert (found.reasons, found.reported) == (("c", "it is low", "b"), ("it is low", "c", "b"))
    assert (found.fingerprint, found.run_keys, found.changed_at) == ("c", ("run 1", "run 2"), NOON + 3 * MINUTE)
    assert (found.cause, found.cost) == ("a bad disk", "7 EUR")


@pytest.mark.parametrize(("minute", "closes"), [(4.9, False), (5, True), (6, True)])
def test_a_recovery_closes_what_was_reported_until_then(warehouse: Warehouse, minute: float, *, closes: bool) -> None:
    report(warehouse, 1, 0)
    report(warehouse, 2, 5, "it is slow", fingerprint="slow")
    assert warehouse.incidents.close(TEST, "run 3", at=NOON + minute * MINUTE) == closes
    assert (warehouse.incidents.find_open(TEST) is None) == closes


@pytest.mark.parametrize(("minute", "opens"), [(4, False), (5, False), (6, True)])
def test_an_alert_that_was_decided_before_a_recovery_opens_nothing(
    warehouse: Warehouse, minute: float, *, opens: bool
) -> None:
    report(warehouse, 1, 0)
    warehouse.incidents.close(TEST, "run 2", at=NOON + 5 * MINUTE)
    assert report(warehouse, 3, minute) == opens
    assert (warehouse.incidents.find_open(TEST) is not None) == opens


def test_a_recovery_that_was_reported_again_counts_from_then_on(warehouse: Warehouse) -> None:
    report(warehouse, 1, 0)
    incidents = warehouse.incidents
    incidents.close(TEST, "run 2", incident="message 1", at=NOON + 5 * MINUTE)
    assert not incidents.close(TEST, "run 4", incident="message 1", at=NOON + 8 * MINUTE)
    assert not report(warehouse, 3, 7)
    assert incidents.last_closed(TEST) == "message 1"
    assert report(warehouse, 5, 9)
    assert incidents.close(TEST, "run 6")
    assert incidents.last_closed(TEST) == "message 5"
    assert incidents.last_closed("another test") == ""


def test_incidents_since_a_moment(warehouse: Warehouse) -> None:
    incidents = warehouse.incidents
    for number, test in enumerate(("a", "b", "c")):
        report(warehouse, number, number, test=test, cause="a bad disk")
        incidents.close(test, f"good {test}", at=NOON + (10 - number) * MINUTE)
    report(warehouse, 3, 11, test="a", cause="a bad disk")
    incidents.assess("b", "message 1", is_regression=True, by="vera", at=NOON + 12 * MINUTE)
    moment = NOON + MINUTE
    assert incidents.opened_since(NOON) == {"a": NOON, "b": moment, "c": NOON + 2 * MINUTE}
    assert incidents.opened_since(moment + TICK) == {"a": NOON + 11 * MINUTE, "c": NOON + 2 * MINUTE}
    assert incidents.tests_of_cause("a bad disk", NOON + 2 * MINUTE) == {"a", "c"}
    assert incidents.tests_of_cause("a bad node", NOON) == set()
    assert incidents.closed_since(NOON + 9 * MINUTE) == [
        ClosedIncident("a", "good a", NOON + 10 * MINUTE, ("it is low",), "message 0"),
        ClosedIncident("b", "good b", NOON + 9 * MINUTE, ("it is low",), "message 1"),
    ]
    assert incidents.closed_since(NOON + 10 * MINUTE + TICK) == []
    assert incidents.assessed_since(moment) == [
        Assessment("a", "message 3", NOON + 11 * MINUTE),
        Assessment("b", "message 1", moment, is_regression=True, by="vera"),
        Assessment("c", "message 2", NOON + 2 * MINUTE),
    ]
    assert [one.test for one in incidents.assessed_since(moment + TICK)] == ["a", "c"], "b was opened before"


def test_the_newest_member_of_a_cause_comes_first(warehouse: Warehouse) -> None:
    for run, (test, minute) in enumerate((("b", 1), ("a", 1), ("c", 0), ("d", 2))):
        report(warehouse, run, minute, test=test, cause="a bad node" if test == "d" else "a bad disk")
    report(warehouse, 9, 5, "it is slow", test="d", fingerprint="slow", cause="a bad disk")
    report(warehouse, 8, 6, "it is slow", test="c", fingerprint="slow", cause="a bad node")
    assert [(one.test, one.caused_at) for one in warehouse.incidents.of_cause("a bad disk")] == [
        ("d", NOON + 5 * MINUTE),
        ("b", NOON + MINUTE),
        ("a", NOON + MINUTE),
    ]
    assert [one.test for one in warehouse.incidents.of_cause("a bad node")] == ["c"]


def test_a_cleared_run_does_not_reopen_its_incident(warehouse: Warehouse) -> None:
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    warehouse.incidents.close(TEST, "run 2")
    assert not warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    assert warehouse.incidents.find_open(TEST) is None


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
