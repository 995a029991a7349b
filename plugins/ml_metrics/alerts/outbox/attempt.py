"""The result of an attempt to send a message: its state, what each channel answered, and when to try again."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from threading import Lock, Thread

from ml_metrics.alerts.channels.channel import Channel
from ml_metrics.alerts.message import Message
from ml_metrics.alerts.outbox.documents import Accepted, MessageFolder
from ml_metrics.core.errors import FailureLogged, UndeliveredError
from ml_metrics.core.text import logger_of, redacted
from ml_metrics.core.values import as_utc
from ml_metrics.warehouse import (
    HOLD_OFF,
    IN_DIGEST,
    LATEST_ATTEMPT,
    ChannelResult,
    ChannelState,
    MessageState,
    StoredMessage,
)

log = logger_of(__name__)

MARGIN_SECONDS = 1.0
"""How much longer than its limit a channel may take to notice it."""
FIRST_PAUSE = timedelta(minutes=1)
MAX_PAUSE = timedelta(minutes=4, seconds=30)
"""After a temporary error: less than the period of the sender, so that its next pass tries again."""
MAX_LONG_PAUSE = timedelta(hours=1)
"""After an error that lasts until someone changes something, where the channel requests a pause, or where it takes the
whole message and does not answer."""
DAY = timedelta(days=1)
GIVEN_UP_AFTER = timedelta(days=5)
"""The age at which a message that a channel still does not accept is dead: an outage may last a long weekend."""
FEWEST_ATTEMPTS = 3
"""The least number of tries of a message, even of an old one."""


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The result of one attempt on one channel."""

    channel: str
    delivered: bool
    detail: str
    """Where the message is, or why it was not delivered."""
    temporary: bool = False
    """Whether the same attempt may succeed later, without any change of the configuration."""
    retry_after: float = 0.0
    """The seconds that the service asks to wait."""
    unconfirmed: bool = False
    """Whether the channel has the whole message and did not answer: it may have accepted it."""
    remaining: tuple[str, ...] = ()
    """The recipients that the server rejected, if it accepted the message for others."""

    @property
    def accepted(self) -> bool:
        """Whether the channel has the message, for some recipients at least."""
        return self.delivered or bool(self.remaining)


@dataclass(slots=True)
class SentRecord:
    """Which channels have accepted a message: kept in its folder, so that no sender uses one of them again."""

    folder: MessageFolder | None = None
    """None if the message has no document."""
    name: str = ""
    accepted: dict[str, Accepted] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def left(self, channels: Sequence[Channel]) -> list[Channel]:
        return [one for one in channels if one.name not in self.accepted or self.accepted[one.name].remaining]

    def add(self, result: DeliveryResult) -> None:
        """Record that a channel accepted the message. Channels call this from their threads."""
        with self._lock:
            self.accepted[result.channel] = Accepted(result.detail, result.remaining)
            if self.folder is not None:
                self.folder.record_sent(self.name, self.accepted)


def attempt(
    message: Message, channels: Sequence[Channel], timeout: float, record: SentRecord | None = None
) -> list[DeliveryResult]:
    """Send a message once on each channel that has not accepted it, all at the same time.

    It returns when all have answered or `timeout` is over. Whoever has accepted it is recorded at once.
    """
    record = record or SentRecord()
    left, results = record.left(channels), dict[str, DeliveryResult]()

    def perform(channel: Channel) -> None:
        accepted = record.accepted.get(channel.name)
        result = _sent(channel, replace(message, recipients=accepted.remaining) if accepted else message, timeout)
        if result.accepted:
            with FailureLogged(log.warning, f"the delivery by {channel.name} cannot be recorded"):
                record.add(result)
        results[channel.name] = result

    # the threads do not keep the process alive: a server may never answer
    threads = [Thread(target=perform, args=(channel,), daemon=True) for channel in left]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + timeout + MARGIN_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    answered = dict(results)
    late = "no answer in time"
    found = [
        answered.get(one.name) or DeliveryResult(one.name, delivered=False, detail=late, temporary=True) for one in left
    ]
    for result in found:
        level = logging.INFO if result.delivered else logging.ERROR
        state = "delivered" if result.delivered else "not delivered"
        log.log(level, "%s: %s by %s: %s", message.subject, state, result.channel, result.detail)
    return found


def _sent(channel: Channel, message: Message, timeout: float) -> DeliveryResult:
    name, secrets = channel.name, channel.secrets
    try:
        where = channel.send(message, timeout)
    except UndeliveredError as error:
        return DeliveryResult(
            name,
            delivered=False,
            detail=redacted(str(error), secrets),
            temporary=error.transient,
            retry_after=error.retry_after,
            unconfirmed=error.unconfirmed,
            remaining=error.remaining if set(error.remaining) < set(message.recipients) else (),
        )
    except Exception as error:  # noqa: BLE001  (an error in one channel must not silence the others)
        detail = redacted(f"internal error: {type(error).__name__}: {error}", secrets)
        return DeliveryResult(name, delivered=False, detail=detail)
    return DeliveryResult(name, delivered=True, detail=redacted(where, secrets))


def pause_after(
    attempts: int, *, transient: bool, retry_after: float = 0.0, age: timedelta = timedelta(0)
) -> timedelta:
    """The pause after the n-th failed attempt on a channel, for a message of some age."""
    doubled: timedelta = FIRST_PAUSE * 2 ** min(max(0, attempts - 1), 10)
    requested = timedelta(seconds=min(max(0.0, retry_after), MAX_LONG_PAUSE.total_seconds()))
    longest = (MAX_PAUSE if age < DAY else timedelta(minutes=30)) if transient else MAX_LONG_PAUSE
    return max(min(doubled, longest), requested)


def is_due(result: ChannelResult | None, now: datetime) -> bool:
    """Whether a channel may be tried now. A time that only a wrong clock can have written does not count."""
    if result is None or not result.not_before:
        return True
    try:
        not_before = as_utc(datetime.fromisoformat(result.not_before))
    except ValueError:
        return True
    return not now < not_before <= now + LATEST_ATTEMPT


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state of a message after an attempt."""

    state: MessageState
    channels: Mapping[str, ChannelResult]
    next_attempt: datetime


def outcome_of(
    stored: StoredMessage,
    channels: Sequence[Channel],
    record: SentRecord,
    results: Sequence[DeliveryResult],
    now: datetime,
) -> Outcome:
    """The state of a message, and the time of its next try.

    `stored` is the row as it was before the attempt; `record` tells which channels have accepted the message, from
    this process or another, and `results` what they answered now: one that was not tried is missing. `now` is the
    time of the warehouse.
    """
    merged = dict(stored.channels)
    for one in results:
        attempts, not_before = _attempts(merged, one.channel) + 1, ""
        if not one.delivered:
            # if the channel accepted the message, each further attempt sends another copy
            transient = one.temporary and not one.unconfirmed
            age = now - stored.timestamp
            not_before = _text(now + pause_after(attempts, transient=transient, retry_after=one.retry_after, age=age))
        state = ChannelState.DELIVERED if one.delivered else ChannelState.FAILED
        merged[one.channel] = ChannelResult(state, attempts, one.detail, _text(datetime.now(UTC)), not_before)
    left = {one.name for one in record.left(channels)}
    for channel in channels:
        if channel.name not in left and not has_arrived(merged, channel):
            detail = record.accepted[channel.name].detail
            before = _attempts(merged, channel.name)
            merged[channel.name] = ChannelResult(ChannelState.DELIVERED, before, detail, _text(now))
    undelivered = [channel.name for channel in channels if not has_arrived(merged, channel)]
    if not undelivered:
        held = stored.held_because
        end = MessageState.SUMMARISED if held == IN_DIGEST else MessageState.HELD if held else MessageState.SENT
        return Outcome(end, merged, now)
    if _is_given_up(stored, now):
        untried = ChannelResult(ChannelState.DEAD, at=_text(now))
        dead = {name: replace(merged.get(name, untried), state=ChannelState.DEAD) for name in undelivered}
        return Outcome(MessageState.DEAD, {**merged, **dead}, now)
    times = [datetime.fromisoformat(merged[name].not_before) for name in undelivered if name in merged]
    waiting = [time for time in times if time > now]
    return Outcome(MessageState.PENDING, merged, min(waiting) if len(waiting) == len(undelivered) else now)


def has_arrived(results: Mapping[str, ChannelResult], channel: Channel) -> bool:
    return channel.name in results and results[channel.name].is_delivered


def _attempts(results: Mapping[str, ChannelResult], channel: str) -> int:
    return results[channel].attempts if channel in results else 0


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


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
