from __future__ import annotations

from typing import TYPE_CHECKING

from unit.warehouse.records import TEST

if TYPE_CHECKING:
    from ml_metrics.warehouse import Warehouse

LOW, LOW_AND_SLOW = ["accuracy is low"], ["accuracy is low", "it is slow"]


def test_an_incident_is_opened_once(warehouse: Warehouse) -> None:
    assert warehouse.incidents.find_open(TEST) is None
    assert warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    assert not warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    alert = warehouse.incidents.find_open(TEST)
    assert alert is not None
    assert (alert.opened_by, alert.fingerprint, alert.reasons, alert.run_keys) == (
        "run 1",
        "low",
        tuple(LOW),
        ("run 1",),
    )


def test_the_next_run_that_is_as_broken_is_no_news(warehouse: Warehouse) -> None:
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    assert not warehouse.incidents.report(TEST, "run 2", fingerprint="low", reasons=LOW)


def test_a_run_that_is_broken_in_another_way_changes_the_incident(warehouse: Warehouse) -> None:
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    assert warehouse.incidents.report(TEST, "run 2", fingerprint="low and slow", reasons=LOW_AND_SLOW)
    alert = warehouse.incidents.find_open(TEST)
    assert alert is not None
    assert (alert.opened_by, alert.reasons, alert.run_keys) == ("run 1", tuple(LOW_AND_SLOW), ("run 1", "run 2"))


def test_a_run_that_is_told_again_does_not_turn_the_incident_back(warehouse: Warehouse) -> None:
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    warehouse.incidents.report(TEST, "run 2", fingerprint="low and slow", reasons=LOW_AND_SLOW)
    assert not warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    alert = warehouse.incidents.find_open(TEST)
    assert alert is not None
    assert alert.fingerprint == "low and slow"


def test_an_incident_is_closed_once(warehouse: Warehouse) -> None:
    assert not warehouse.incidents.close(TEST, "run 0")
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    assert warehouse.incidents.close(TEST, "run 2")
    assert warehouse.incidents.find_open(TEST) is None
    assert not warehouse.incidents.close(TEST, "run 2")


def test_a_cleared_run_does_not_open_its_closed_incident_again(warehouse: Warehouse) -> None:
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    warehouse.incidents.close(TEST, "run 2")
    assert not warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    assert warehouse.incidents.find_open(TEST) is None


def test_what_breaks_again_is_another_incident(warehouse: Warehouse) -> None:
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    warehouse.incidents.close(TEST, "run 2")
    assert warehouse.incidents.report(TEST, "run 3", fingerprint="low", reasons=LOW)
    alert = warehouse.incidents.find_open(TEST)
    assert alert is not None
    assert alert.opened_by == "run 3"


def test_tests_do_not_share_incidents(warehouse: Warehouse) -> None:
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=LOW)
    assert warehouse.incidents.find_open("another test") is None
    assert warehouse.incidents.report("another test", "run 9", fingerprint="low", reasons=LOW)
    assert warehouse.incidents.close("another test", "run 10")
    assert warehouse.incidents.find_open(TEST) is not None
