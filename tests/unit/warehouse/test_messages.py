"""Messages, on every engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ml_metrics.warehouse import HOLD_OFF, IN_DIGEST, LATEST_ATTEMPT, ChannelResult, MessageState, StoredMessage
from ml_metrics.warehouse.messages import LEASE
from unit.warehouse.records import TEST

if TYPE_CHECKING:
    from ml_metrics.warehouse import Warehouse

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
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


def test_a_message_that_a_digest_reported_meanwhile_is_not_held_again(warehouse: Warehouse) -> None:
    warehouse.messages.add(replace(DECIDED, held_because="the hourly limit"))
    now = warehouse.messages.moment() + HOLD_OFF
    (stored,) = warehouse.messages.due(now)
    warehouse.messages.take(stored, "a", now)
    warehouse.messages.summarise([DECIDED.message])
    assert warehouse.messages.finish(DECIDED.message, "a", MessageState.HELD, {})
    (ended,) = warehouse.messages.since(NOON)
    assert ended.state == MessageState.SUMMARISED


def test_what_a_message_is_at_first() -> None:
    """No attempt was made, it is nobody's, and no channel has it."""
    assert (DECIDED.state, DECIDED.attempts, DECIDED.next_attempt.timestamp()) == ("pending", 0, 0)
    assert (DECIDED.lease, DECIDED.lease_until.timestamp(), DECIDED.channels) == ("", 0, {})
    assert (ChannelResult("failed").attempts, ChannelResult("failed").is_delivered) == (0, False)
    assert ChannelResult("delivered").is_delivered


def test_a_message_may_be_sent_a_minute_after_it_was_decided_and_is_taken_for_two(warehouse: Warehouse) -> None:
    before = warehouse.messages.moment()
    warehouse.messages.add(DECIDED)
    (stored,) = warehouse.messages.since(NOON)
    due = stored.next_attempt
    assert before + 60 * SECOND <= due <= warehouse.messages.moment() + 60 * SECOND
    assert (warehouse.messages.due(due - SECOND), warehouse.messages.due(due)) == ([], [stored])
    # two hours ahead is the farthest that a right clock writes
    assert warehouse.messages.due(due - 7200 * SECOND) == []
    assert warehouse.messages.due(due - 7201 * SECOND) == [stored]
    assert warehouse.messages.take(stored, "a", due)
    (taken,) = warehouse.messages.since(NOON)
    assert taken == replace(stored, lease="a", attempts=1, lease_until=due + 120 * SECOND)


@pytest.mark.parametrize(
    ("seconds", "is_ended"), [(119, False), (120, True), (121, True), (120 - 7200, False), (120 - 7201, True)]
)
def test_a_lease_ends_after_its_time_or_if_its_end_is_too_far_ahead(
    warehouse: Warehouse, seconds: int, *, is_ended: bool
) -> None:
    stored, now = added(warehouse)
    warehouse.messages.take(stored, "a", now)
    (taken,) = warehouse.messages.since(NOON)
    assert warehouse.messages.revoke(taken, now + seconds * SECOND) == is_ended
    (found,) = warehouse.messages.since(NOON)
    assert (found.lease == "") == is_ended
    assert found.next_attempt == (now + (seconds + 60) * SECOND if is_ended else stored.next_attempt)


def test_messages_are_found_by_state_time_test_and_key(warehouse: Warehouse) -> None:
    """Oldest first where they are to be sent, newest first where they are shown, then by key."""
    states = {"b": "pending", "a": "pending", "c": "held", "d": "dead", "e": "sent"}
    for number, (name, state) in enumerate(states.items()):
        at = NOON + max(0, number - 1) * DAY
        held = "a warning" if name == "c" else ""
        test = "another" if name == "b" else TEST
        one = replace(DECIDED, message=name, test=test, timestamp=at, state=MessageState(state), held_because=held)
        assert warehouse.messages.add(replace(one, occasion="good" if name == "e" else "broken"))
    messages, later = warehouse.messages, warehouse.messages.moment() + HOLD_OFF

    def names(found: list[StoredMessage]) -> str:
        return "".join(one.message for one in found)

    assert (names(messages.due(later)), names(messages.due(later, 1))) == ("ab", "a")
    assert (names(messages.waiting(NOON)), names(messages.waiting(NOON + SECOND))) == ("abc", "c")
    assert (names(messages.held(NOON)), names(messages.held(NOON + DAY + SECOND))) == ("c", "")
    assert (names(messages.pending_of(TEST)), names(messages.pending_of("another"))) == ("a", "b")
    assert (names(messages.since(NOON)), names(messages.since(NOON, TEST)), names(messages.since(NOON, limit=2))) == (
        "edcab",
        "edca",
        "ed",
    )
    assert (names(messages.of_occasion("broken", NOON)), names(messages.of_occasion("good", NOON))) == ("dcab", "e")
    assert messages.of_occasion("good", NOON + 3 * DAY + SECOND) == []
    assert messages.by_key(["a", "z", "e"], NOON).keys() == {"a", "e"}
    assert messages.by_key(["a", "z", "e"], NOON + SECOND).keys() == {"e"}
    assert (messages.by_key([], NOON), messages.existing([])) == ({}, set())
    assert messages.existing(["z", "b"]) == {"b"}
    assert messages.count("vision-team", "another", NOON) == (4, 1)
    assert messages.count("vision-team", TEST, NOON + 3 * DAY) == (1, 1)


def test_a_message_that_was_given_up_is_found_by_its_end_for_a_month(warehouse: Warehouse) -> None:
    """Its end is its last attempt; a message that was decided a month before that is not looked for."""
    for name, days in (("young", 30), ("old", 31)):
        warehouse.messages.add(replace(DECIDED, message=name, timestamp=NOON - days * DAY))
        assert warehouse.messages.finish(name, "", MessageState.DEAD, {}, NOON)
    assert [one.message for one in warehouse.messages.dead(NOON)] == ["young"]
    assert [one.message for one in warehouse.messages.dead(NOON - DAY)] == ["old", "young"]
    assert warehouse.messages.dead(NOON + SECOND) == []
    assert {one.attempts for one in warehouse.messages.dead(NOON - DAY)} == {1}


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_pass_takes_five_hundred_messages_and_a_list_shows_a_hundred(warehouse: Warehouse) -> None:
    stored, later = added(warehouse)
    table = warehouse.database.store.rows("SELECT name FROM pragma_table_info('messages')", {})
    copied = ", ".join("'m' || n" if row["name"] == "message" else row["name"] for row in table)
    numbers = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 600)"
    warehouse.database.change(f"INSERT INTO messages {numbers} SELECT {copied} FROM messages, numbers")
    assert len(warehouse.messages.due(later)) == 500
    assert len(warehouse.messages.since(NOON)) == 100
    assert stored in warehouse.messages.since(NOON, limit=1000)


def test_a_message_is_held_only_as_it_was_read(warehouse: Warehouse) -> None:
    stored, now = added(warehouse)
    assert warehouse.messages.hold(stored, "the hourly limit")
    assert not warehouse.messages.hold(stored, "a warning")
    (held,) = warehouse.messages.held(NOON)
    assert (held.held_because, held.state) == ("the hourly limit", MessageState.PENDING)
    assert warehouse.messages.take(held, "a", now)
    assert warehouse.messages.finish(held.message, "a", MessageState.HELD, {})
    (ended,) = warehouse.messages.held(NOON)
    assert (ended.state, ended.next_attempt.timestamp(), ended.attempts) == (MessageState.HELD, 0, 1)
