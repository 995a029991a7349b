"""Messages and their senders, on every engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.warehouse import ChannelResult, MessageState, SenderPass, SendersState, StoredMessage
from ml_metrics.warehouse.messages import HOLD_OFF, IN_DIGEST, LATEST_ATTEMPT, LEASE
from unit.warehouse.records import TEST

if TYPE_CHECKING:
    from ml_metrics.warehouse import Warehouse

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
DECIDED = StoredMessage(
    message="run 1-001-broken-ab",
    run_key="run 1",
    test=TEST,
    owner="vision-team",
    occasion="broken",
    content_hash="ab",
    timestamp=NOON,
    recipients=("a@example.com", "b@example.com"),
    subject="it broke",
    reasons=("accuracy is low",),
    document="runs/1/_ml_metrics/messages/001-broken-ab.json",
)


def added(warehouse: Warehouse, message: StoredMessage = DECIDED) -> tuple[StoredMessage, datetime]:
    """Add a message, and return it with a time at which it may be sent."""
    assert warehouse.messages.add(message)
    later = warehouse.messages.moment() + HOLD_OFF
    return next(one for one in warehouse.messages.due(later) if one.message == message.message), later


def test_a_message_is_added_once_with_all_its_fields(warehouse: Warehouse) -> None:
    stored, _ = added(warehouse)
    assert stored == replace(DECIDED, deployment="local", next_attempt=stored.next_attempt)
    assert not warehouse.messages.add(DECIDED)
    assert warehouse.messages.existing([DECIDED.message, "another"]) == {DECIDED.message}
    assert warehouse.messages.since(NOON, TEST) == [stored]
    assert warehouse.messages.since(NOON, "another test") == []
    assert warehouse.messages.since(NOON + timedelta(seconds=1)) == []


def test_a_new_message_is_left_to_the_process_that_decided_it(warehouse: Warehouse) -> None:
    warehouse.messages.add(DECIDED)
    moment = warehouse.messages.moment()
    assert warehouse.messages.due(moment) == []
    assert len(warehouse.messages.due(moment + HOLD_OFF)) == 1
    # written with a clock that was far ahead
    assert len(warehouse.messages.due(moment - LATEST_ATTEMPT)) == 1


def test_only_one_sender_takes_a_message_and_records_its_end(warehouse: Warehouse) -> None:
    stored, now = added(warehouse)
    assert warehouse.messages.take(stored, "a", now)
    assert not warehouse.messages.take(stored, "b", now)
    (taken,) = warehouse.messages.due(now)
    assert (taken.lease, taken.attempts) == ("a", 1)
    sent = {"smtp": ChannelResult("delivered", 1, "accepted", NOON.isoformat())}
    assert not warehouse.messages.finish(stored.message, "b", MessageState.SENT, sent)
    assert warehouse.messages.finish(stored.message, "a", MessageState.SENT, sent)
    assert not warehouse.messages.finish(stored.message, "a", MessageState.SENT, {})
    (ended,) = warehouse.messages.since(NOON)
    assert (ended.state, ended.channels, ended.lease) == (MessageState.SENT, sent, "")
    assert warehouse.messages.due(now + LATEST_ATTEMPT) == []


def test_the_lease_of_a_vanished_sender_is_ended_before_another_takes_the_message(warehouse: Warehouse) -> None:
    stored, now = added(warehouse)
    warehouse.messages.take(stored, "a", now)
    (taken,) = warehouse.messages.due(now)
    assert not warehouse.messages.revoke(taken, now + LEASE / 2)
    late = now + LEASE
    assert not warehouse.messages.take(taken, "b", late)
    assert warehouse.messages.revoke(taken, late)
    assert not warehouse.messages.revoke(taken, late)
    assert not warehouse.messages.finish(stored.message, "a", MessageState.SENT, {})
    assert warehouse.messages.due(late) == []
    (free,) = warehouse.messages.due(late + HOLD_OFF)
    assert warehouse.messages.take(free, "b", late + HOLD_OFF)


def test_a_lease_that_was_written_with_a_wrong_clock_ends_too(warehouse: Warehouse) -> None:
    stored, now = added(warehouse)
    warehouse.messages.take(stored, "a", now + timedelta(days=1))
    (taken,) = warehouse.messages.due(now)
    assert warehouse.messages.revoke(taken, now)


def test_held_messages_wait_until_they_are_in_a_digest(warehouse: Warehouse) -> None:
    for number, held in enumerate(("", "a warning", "the hourly limit")):
        state = MessageState.HELD if held == "a warning" else MessageState.PENDING
        warehouse.messages.add(replace(DECIDED, message=f"m{number}", held_because=held, state=state))
    assert [one.message for one in warehouse.messages.held(NOON)] == ["m1", "m2"]
    assert warehouse.messages.count("vision-team", DECIDED.test, NOON) == (1, 1)
    assert warehouse.messages.count("vision-team", "another", NOON) == (1, 0)
    assert warehouse.messages.count("another-team", DECIDED.test, NOON) == (0, 0)
    warehouse.messages.summarise(["m1", "m2"])
    warehouse.messages.summarise([])
    assert warehouse.messages.held(NOON) == []
    states = {one.message: (one.state, one.held_because) for one in warehouse.messages.since(NOON)}
    assert states["m1"] == (MessageState.SUMMARISED, IN_DIGEST)
    assert states["m2"] == (MessageState.PENDING, IN_DIGEST)
    assert states["m0"] == (MessageState.PENDING, "")


def test_the_last_pass_of_each_sender_is_recorded(warehouse: Warehouse) -> None:
    assert warehouse.senders.newest() is None
    for minute, sender in enumerate(("ml_messages", "run", "ml_messages")):
        newest = SenderPass(sender, NOON + timedelta(minutes=minute), sent=minute, pending=1, detail="slow")
        warehouse.senders.record(newest)
        assert warehouse.senders.newest() == newest


def test_a_message_that_a_digest_reported_meanwhile_is_not_held_again(warehouse: Warehouse) -> None:
    warehouse.messages.add(replace(DECIDED, held_because="the hourly limit"))
    now = warehouse.messages.moment() + HOLD_OFF
    (stored,) = warehouse.messages.due(now)
    warehouse.messages.take(stored, "a", now)
    warehouse.messages.summarise([DECIDED.message])
    assert warehouse.messages.finish(DECIDED.message, "a", MessageState.HELD, {})
    (ended,) = warehouse.messages.since(NOON)
    assert ended.state == MessageState.SUMMARISED


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
