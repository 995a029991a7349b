"""The result of an attempt to send a message: its state, what each channel answered, and when to try again."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.outbox.documents import Accepted
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.core.text import logger_of, redacted
from ml_metrics.core.values import as_utc
from ml_metrics.warehouse import HOLD_OFF, IN_DIGEST, LATEST_ATTEMPT, ChannelResult, ChannelState, MessageState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.message import Message
    from ml_metrics.alerts.outbox.documents import MessageFolder
    from ml_metrics.warehouse import StoredMessage, Warehouse


log = logger_of(__name__)

MARGIN_SECONDS = 1.0
"""How much longer than its limit a channel may take to notice it."""


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


def attempt(
    message: Message,
    channels: Sequence[Channel],
    timeout: float,
    *,
    remaining: Mapping[str, tuple[str, ...]] | None = None,
    on_accepted: Callable[[DeliveryResult], None] = lambda _: None,
) -> list[DeliveryResult]:
    """Send a message once on each channel, all at the same time, and return when all have answered or the time is over.

    `timeout` is for everything. `remaining`: by channel, the recipients that it has not accepted the message for, if it
    has for others. `on_accepted` is called as soon as a channel has accepted the message, in that channel's thread.
    """
    left = remaining or {}
    tries = [
        _Try(channel, replace(message, recipients=left.get(channel.name) or message.recipients), timeout, on_accepted)
        for channel in channels
    ]
    deadline = time.monotonic() + timeout + MARGIN_SECONDS
    for one in tries:
        one.thread.join(max(0.0, deadline - time.monotonic()))
    late = "no answer in time"
    results = [one.result or DeliveryResult(one.name, delivered=False, detail=late, temporary=True) for one in tries]
    for result in results:
        level = logging.INFO if result.delivered else logging.ERROR
        state = "delivered" if result.delivered else "not delivered"
        log.log(level, "%s: %s by %s: %s", message.subject, state, result.channel, result.detail)
    return results


class _Try:
    """An attempt on one channel, in a thread that does not keep the process alive: a server may never answer."""

    def __init__(
        self, channel: Channel, message: Message, timeout: float, on_accepted: Callable[[DeliveryResult], None]
    ) -> None:
        self.name = channel.name
        self.result: DeliveryResult | None = None
        self._channel, self._message, self._timeout, self._on_accepted = channel, message, timeout, on_accepted
        self.thread = Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        result = self._send()
        if result.accepted:
            try:
                self._on_accepted(result)
            except Exception as error:  # noqa: BLE001  (the message is delivered all the same)
                log.warning("the delivery by %s cannot be recorded: %s", result.channel, error)
        self.result = result

    def _send(self) -> DeliveryResult:
        secrets = self._channel.secrets
        try:
            where = self._channel.send(self._message, self._timeout)
        except UndeliveredError as error:
            accepted_by_some = set(error.remaining) < set(self._message.recipients)
            return DeliveryResult(
                self.name,
                delivered=False,
                detail=redacted(str(error), secrets),
                temporary=error.transient,
                retry_after=error.retry_after,
                unconfirmed=error.unconfirmed,
                remaining=error.remaining if accepted_by_some else (),
            )
        except Exception as error:  # noqa: BLE001  (an error in one channel must not silence the others)
            detail = redacted(f"internal error: {type(error).__name__}: {error}", secrets)
            return DeliveryResult(self.name, delivered=False, detail=detail)
        return DeliveryResult(self.name, delivered=True, detail=redacted(where, secrets))


FIRST_PAUSE = timedelta(minutes=1)
MAX_PAUSE = timedelta(minutes=4, seconds=30)
"""After a temporary error: less than the period of the sender, so that its next pass tries again."""
MAX_LONG_PAUSE = timedelta(hours=1)
"""After an error that lasts until someone changes something, where the channel requests a pause, or where it takes the
whole message and does not answer."""
DAY = timedelta(days=1)
MAX_PAUSE_OF_OLD = timedelta(minutes=30)
"""After a temporary error, for a message of more than a day."""
GIVEN_UP_AFTER = timedelta(days=5)
"""The age at which a message that a channel still does not accept is dead: an outage may last a long weekend."""


def pause_after(
    attempts: int, *, transient: bool, retry_after: float = 0.0, age: timedelta = timedelta(0)
) -> timedelta:
    """Return the pause after the n-th failed attempt on a channel, for a message of some age."""
    doubled: timedelta = FIRST_PAUSE * 2 ** min(max(0, attempts - 1), 10)
    requested = timedelta(seconds=min(max(0.0, retry_after), MAX_LONG_PAUSE.total_seconds()))
    longest = (MAX_PAUSE if age < DAY else MAX_PAUSE_OF_OLD) if transient else MAX_LONG_PAUSE
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


FEWEST_ATTEMPTS = 3
"""The least number of tries of a message, even of an old one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state of a message after an attempt."""

    state: MessageState
    channels: Mapping[str, ChannelResult]
    next_attempt: datetime

    def document(self) -> dict[str, Any]:
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

    `stored` is the row as it was before the attempt; `record` tells which channels have accepted the message, from
    this process or another, and `results` what they answered now: one that was not tried is missing. `now` is the
    time of the warehouse.
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


@dataclass(slots=True)
class SentRecord:
    """Which channels have accepted a message: kept in its folder, so that no sender uses one of them again."""

    folder: MessageFolder | None
    """None if the message has no document."""
    name: str
    accepted: dict[str, Accepted] = field(default_factory=dict)
    is_saved: bool = True
    """Whether the folder holds all of it; else the row should."""
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def load(cls, folder: MessageFolder | None, name: str) -> SentRecord:
        return cls(folder, name, folder.sent(name) if folder else {})

    def left(self, channels: Sequence[Channel]) -> list[Channel]:
        """Return the channels that have not accepted the message for all recipients."""
        return [one for one in channels if one.name not in self.accepted or self.accepted[one.name].remaining]

    def remaining(self) -> dict[str, tuple[str, ...]]:
        """Return, for channels that accepted the message for some recipients only, the other recipients."""
        return {name: one.remaining for name, one in self.accepted.items() if one.remaining}

    def add(self, result: DeliveryResult) -> None:
        """Record that a channel accepted the message. Channels call this from their threads."""
        with self._lock:
            self.accepted[result.channel] = Accepted(result.detail, result.remaining)
            self.is_saved = False
            if self.folder is not None:
                self.folder.record_sent(self.name, self.accepted)
                self.is_saved = True
