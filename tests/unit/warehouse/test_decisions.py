"""Accepted levels and quarantines, on every engine."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ml_metrics.warehouse import QuarantineRow
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


def test_the_levels_of_a_test_are_in_the_order_of_their_runs(warehouse: Warehouse) -> None:
    warehouse.load_all([record(day, {"a": float(day), "b": 9.0}) for day in range(3)])
    warehouse.load(record(3, {"a": 3.0}, trial=("image",)))
    add, before = warehouse.acceptances.add, datetime.now(UTC)
    for day, metric in ((1, "b"), (2, "a"), (1, "a")):
        assert add(run_of(day).key, metric, reason="why", by="vera")
    assert not add(run_of(3).key, "a", reason="a trial", by="vera")
    found = warehouse.acceptances.of_test(TEST)
    assert [(one.metric, one.value, one.run_key) for one in found] == [
        ("a", 1.0, run_of(1).key),
        ("b", 9.0, run_of(1).key),
        ("a", 2.0, run_of(2).key),
    ]
    assert all(before <= one.accepted_at <= datetime.now(UTC) for one in found)


@pytest.mark.parametrize(
    ("seconds", "day", "holds"),
    [(-1, date(2026, 3, 1), False), (0, date(2026, 3, 1), False), (1, date(2026, 3, 2), True)],
)
def test_a_quarantine_holds_until_its_end_and_its_last_day_has_a_part_of_it(
    seconds: int, day: date, *, holds: bool
) -> None:
    midnight = MONDAY.replace(hour=0)
    one = QuarantineRow(TEST, MONDAY - WEEK, midnight + timedelta(seconds=seconds), "", "")
    assert (one.last_day, one.holds(midnight)) == (day, holds)


def test_each_test_has_its_newest_quarantine(warehouse: Warehouse) -> None:
    """Two at the same moment are a tick apart, whatever deployment set them, and the later one counts."""
    quarantines = warehouse.quarantines
    assert quarantines.newest() == {}
    first = quarantines.set(TEST, until=MONDAY + WEEK, reason="a bad disk", by="vera", at=MONDAY)
    assert first == QuarantineRow(TEST, MONDAY, MONDAY + WEEK, "a bad disk", "vera")
    second = quarantines.set(TEST, until=MONDAY, reason="", by="otto", at=MONDAY)
    third = quarantines.set(TEST, until=MONDAY, reason="", by="nina", at=MONDAY)
    tick = timedelta(microseconds=1)
    assert (second.at, third.at, second.by) == (MONDAY + tick, MONDAY + 2 * tick, "otto")
    before = datetime.now(UTC)
    other = quarantines.set("another", until=MONDAY, reason="", by="vera")
    assert before <= other.at <= datetime.now(UTC)
    assert quarantines.newest() == {TEST: third, "another": other}
