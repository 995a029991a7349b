"""The passes of senders, and whether one runs, on every engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.warehouse import MessageState, SenderPass, SendersState
from unit.warehouse.test_messages import DECIDED, NOON, SECOND

if TYPE_CHECKING:
    from ml_metrics.warehouse import Warehouse


def test_the_last_pass_of_each_sender_is_recorded(warehouse: Warehouse) -> None:
    assert warehouse.senders.newest() is None
    for minute, sender in enumerate(("ml_messages", "run", "ml_messages")):
        newest = SenderPass(sender, NOON + timedelta(minutes=minute), sent=minute, pending=1, detail="slow")
        warehouse.senders.record(newest)
        assert warehouse.senders.newest() == newest


def test_whether_a_sender_runs(warehouse: Warehouse) -> None:
    now = datetime.now(UTC)
    assert warehouse.senders.state(now) == SendersState(None)
    assert warehouse.senders.state(now).silent_since(now) is None
    for number, state in enumerate((MessageState.PENDING, MessageState.PENDING, MessageState.DEAD, MessageState.SENT)):
        at = now - timedelta(hours=number + 1)
        warehouse.messages.add(replace(DECIDED, message=f"m{number}", state=state, timestamp=at))
    state = warehouse.senders.state(now)
    assert (state.last_pass, state.pending, state.dead) == (None, 2, 1)
    assert state.silent_since(now) == state.oldest == now - timedelta(hours=2)
    assert warehouse.senders.state(now + timedelta(days=8)).dead == 0
    assert [one.message for one in warehouse.messages.dead(now - timedelta(days=1))] == ["m2"]
    assert warehouse.messages.dead(now + timedelta(days=1)) == []
    warehouse.senders.record(SenderPass("run", now - timedelta(minutes=14)))
    warehouse.senders.record(SenderPass("ml_messages", now + timedelta(days=1)))  # with a clock that was ahead
    state = warehouse.senders.state(now)
    assert state.last_pass == now - timedelta(minutes=14)
    assert state.silent_since(now) is None
    assert state.silent_since(now + timedelta(minutes=1)) == state.last_pass


def test_what_is_unknown_of_a_pass_is_nothing() -> None:
    assert (SenderPass("run", NOON).sent, SenderPass("run", NOON).pending) == (0, 0)
    assert (SendersState(None).pending, SendersState(None).dead) == (0, 0)


def test_the_last_pass_is_one_that_a_right_clock_can_have_written(warehouse: Warehouse) -> None:
    """Clocks may differ by five minutes; for a quarter of an hour without a pass, a sender is only late."""
    ahead, minute = NOON + timedelta(minutes=5), timedelta(minutes=1)
    warehouse.senders.record(SenderPass("run", NOON))
    warehouse.senders.record(SenderPass("ml_messages", ahead))
    assert warehouse.senders.state(NOON).last_pass == ahead
    assert warehouse.senders.state(NOON - SECOND).last_pass == NOON
    state = warehouse.senders.state(NOON)
    assert state.silent_since(ahead + 15 * minute - SECOND) is None
    assert state.silent_since(ahead + 15 * minute) == ahead


def test_a_message_that_was_given_up_counts_for_a_week(warehouse: Warehouse) -> None:
    for name, state in (("a", MessageState.DEAD), ("b", MessageState.SENT)):
        warehouse.messages.add(replace(DECIDED, message=name))
        assert warehouse.messages.finish(name, "", state, {}, NOON)
    week = timedelta(days=7)
    assert warehouse.senders.state(NOON + week) == SendersState(None, 0, None, 1)
    assert warehouse.senders.state(NOON + week + SECOND) == SendersState(None, 0, None, 0)
