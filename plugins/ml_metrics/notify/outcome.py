"""The result of an attempt to send a message: its state, what each channel answered, and when to try again."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ml_metrics.notify.retry import GIVEN_UP_AFTER, pause_after
from ml_metrics.values import as_utc
from ml_metrics.warehouse import ChannelResult, ChannelState, MessageState
from ml_metrics.warehouse.messages import HOLD_OFF, IN_DIGEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.delivery import DeliveryResult
    from ml_metrics.notify.send import SentRecord
    from ml_metrics.warehouse import StoredMessage, Warehouse

FEWEST_ATTEMPTS = 3
"""The least number of tries of a message, even of an old one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state of a message after an attempt."""

    state: MessageState
    channels: Mapping[str, ChannelResult]
    next_attempt: datetime

    def document(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        channels = {name: asdict(one) for name, one in self.channels.items()}
        return {"state": str(self.state), "channels": channels, "next_attempt": self.next_attempt.isoformat()}


def from_document(content: Mapping[str, Any]) -> Outcome:
    """Return the outcome of a document. Raises `ValueError`, `TypeError` or `KeyError` if it is none."""
    channels = {str(name): ChannelResult(**one) for name, one in dict(content["channels"]).items()}
    return Outcome(MessageState(content["state"]), channels, as_utc(datetime.fromisoformat(content["next_attempt"])))


def outcome_of(
    stored: StoredMessage,
    channels: Sequence[Channel],
    record: SentRecord,
    results: Sequence[DeliveryResult],
    now: datetime,
) -> Outcome:
    """Return the state of a message, and the time of its next try.

    Args:
        stored: the row, as it was before the attempt.
        channels: all channels that the message is sent on.
        record: which of them have accepted it, from this process or another.
        results: what they answered now; one that was not tried is missing.
        now: the warehouse's time.
    """
    merged = _with_pauses(stored, results, now)
    left = {one.name for one in record.left(channels)}
    for one in channels:
        if one.name not in left and not has_arrived(merged, one):
            attempts = merged[one.name].attempts if one.name in merged else 0
            detail = record.accepted[one.name].detail
            merged[one.name] = ChannelResult(ChannelState.DELIVERED, attempts, detail, _text(now))
    undelivered = [one.name for one in channels if not has_arrived(merged, one)]
    if not undelivered:
        return Outcome(_end_state(stored.held_because), merged, now)
    if _is_given_up(stored, now):
        untried = ChannelResult(ChannelState.DEAD, at=_text(now))
        dead = {name: replace(merged.get(name, untried), state=ChannelState.DEAD) for name in undelivered}
        return Outcome(MessageState.DEAD, {**merged, **dead}, now)
    times = [datetime.fromisoformat(merged[name].not_before) for name in undelivered if name in merged]
    waiting = [time for time in times if time > now]
    return Outcome(MessageState.PENDING, merged, min(waiting) if len(waiting) == len(undelivered) else now)


def record_own(key: str, outcome: Outcome, warehouse: Warehouse) -> bool:
    """Record the attempt of the process that wrote a message. False if it has no row, or a sender has taken it.

    Repeating this counts nothing twice. Senders take over once the last threads of that process have ended.
    """
    free = max(outcome.next_attempt, warehouse.messages.moment() + HOLD_OFF)
    return warehouse.messages.finish(key, "", outcome.state, outcome.channels, free)


def later(stored: StoredMessage, now: datetime) -> Outcome:
    """Return the outcome for a message whose folder cannot be read now."""
    pause = pause_after(stored.attempts, transient=True, age=now - stored.timestamp)
    return Outcome(MessageState.PENDING, stored.channels, now + pause)


def has_arrived(results: Mapping[str, ChannelResult], channel: Channel) -> bool:
    """Whether a channel has accepted a message."""
    return channel.name in results and results[channel.name].is_delivered


def _end_state(held_because: str) -> MessageState:
    """Return the state of a message that has arrived on the channels that it is sent on now."""
    if not held_because:
        return MessageState.SENT
    return MessageState.SUMMARISED if held_because == IN_DIGEST else MessageState.HELD


def _merged(earlier: Mapping[str, ChannelResult], results: Sequence[DeliveryResult]) -> dict[str, ChannelResult]:
    at = datetime.now(UTC).isoformat()
    new = {
        one.channel: ChannelResult(
            state=ChannelState.DELIVERED if one.delivered else ChannelState.FAILED,
            attempts=(earlier[one.channel].attempts if one.channel in earlier else 0) + 1,
            detail=one.detail,
            at=at,
        )
        for one in results
    }
    return {**earlier, **new}


def _is_given_up(stored: StoredMessage, now: datetime) -> bool:
    """Whether a message has been tried for as long as messages are.

    A row that was added later, because the warehouse was down or a clock was wrong, may be older when it is first
    tried. Until then, `next_attempt` is a minute after it was added.
    """
    if now - stored.timestamp < GIVEN_UP_AFTER:
        return False
    if stored.attempts == 0:
        return now - stored.next_attempt >= GIVEN_UP_AFTER - HOLD_OFF
    return stored.attempts >= FEWEST_ATTEMPTS


def _with_pauses(stored: StoredMessage, results: Sequence[DeliveryResult], now: datetime) -> dict[str, ChannelResult]:
    merged, age = _merged(stored.channels, results), now - stored.timestamp
    for one in results:
        if not one.delivered:
            # if the channel accepted the message, each further attempt sends another copy
            transient = one.temporary and not one.unconfirmed
            attempts = merged[one.channel].attempts
            pause = pause_after(attempts, transient=transient, retry_after=one.retry_after, age=age)
            merged[one.channel] = replace(merged[one.channel], not_before=_text(now + pause))
    return merged


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
