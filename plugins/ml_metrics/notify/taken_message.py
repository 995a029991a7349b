"""One message of the warehouse: its content, the channels that it is still due on, and the result of an attempt."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ml_metrics.alerts.channels.channel import UndeliveredError
from ml_metrics.alerts.compose import compose_notice
from ml_metrics.alerts.message import MessageKind, Notice
from ml_metrics.alerts.message_folder import MessageFolder
from ml_metrics.alerts.outgoing import from_document
from ml_metrics.alerts.routing import channels_for
from ml_metrics.documents import SUFFIX
from ml_metrics.errors import FileMissingError, UnreadableInputError
from ml_metrics.log_lines import logger_of
from ml_metrics.notify.retry import GIVEN_UP_AFTER, MAX_PAUSE, is_due, pause_after
from ml_metrics.notify.send import SentRecord, end_state, merged_results
from ml_metrics.warehouse import ChannelResult, ChannelState, MessageState
from ml_metrics.warehouse.messages import HOLD_OFF

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.delivery import DeliveryResult
    from ml_metrics.alerts.message import Message
    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.warehouse import StoredMessage

log = logger_of(__name__)

OUTBOX_SECONDS = 10.0
FEWEST_ATTEMPTS = 3
"""The least number of tries of a message, even of an old one."""


def channels_of(stored: StoredMessage, mail: MailSettings) -> list[Channel]:
    """Return the channels that a message is sent on, whether or not they have accepted it."""
    return channels_for(mail.channels, _kind(stored), stored.held_because)


def open_channels(stored: StoredMessage, mail: MailSettings, now: datetime) -> list[Channel]:
    """Return the channels that have not accepted a message and may be tried now, as far as its row knows."""
    return [
        one
        for one in channels_of(stored, mail)
        if not _has_arrived(stored.channels, one) and is_due(stored.channels.get(one.name), now)
    ]


def read_message(stored: StoredMessage) -> tuple[Message, SentRecord]:
    """Return a message with the record of its deliveries. Raises `StorageError` if its folder cannot be read now.

    A message whose document is gone or damaged is composed again, from what its row holds.
    """
    if not stored.document:
        return _of_content(stored), SentRecord(None, stored.message)
    path, _, name = stored.document.rpartition("/")
    folder, name = MessageFolder(path), name.removesuffix(SUFFIX)
    try:
        message = folder.read(name).message
    except (FileMissingError, UnreadableInputError) as error:
        log.warning("%s: the message is composed from its row: %s", stored.subject, error)
        message = minimal_message(stored)
    try:
        return message, SentRecord.load(folder, name)
    except UnreadableInputError as error:
        log.warning("%s: its earlier deliveries are unknown: %s", stored.subject, error)
        return message, SentRecord(folder, name)


def minimal_message(stored: StoredMessage) -> Message:
    """Return a message with the subject and the sentences of its row."""
    notice = Notice(
        headline=stored.subject.removeprefix("[ML Metrics] "),
        sentences=stored.reasons,
        test=stored.test,
        run_key=stored.run_key,
        owner=stored.owner,
    )
    return compose_notice(stored.message, _kind(stored), notice, stored.recipients)


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
    """Return the state of a message, and the time of its next try.

    Args:
        stored: the row, as it was before the attempt.
        channels: all channels that the message is sent on.
        record: which of them have accepted it, from this process or another.
        results: what they answered now; one that was not tried is missing.
        now: the warehouse's time.
    """
    merged = _with_pauses(merged_results(stored.channels, results), results, now)
    left = {one.name for one in record.left(channels)}
    for one in channels:
        if one.name not in left and not _has_arrived(merged, one):
            attempts = merged[one.name].attempts if one.name in merged else 0
            detail = record.accepted[one.name].detail
            merged[one.name] = ChannelResult(ChannelState.DELIVERED, attempts, detail, _text(now))
    undelivered = [one.name for one in channels if not _has_arrived(merged, one)]
    if not undelivered:
        return Outcome(end_state(stored.held_because), merged, now)
    if _is_given_up(stored, now):
        untried = ChannelResult(ChannelState.DEAD, at=_text(now))
        dead = {name: replace(merged.get(name, untried), state=ChannelState.DEAD) for name in undelivered}
        return Outcome(MessageState.DEAD, {**merged, **dead}, now)
    times = [datetime.fromisoformat(merged[name].not_before) for name in undelivered if name in merged]
    waiting = [time for time in times if time > now]
    return Outcome(MessageState.PENDING, merged, min(waiting) if len(waiting) == len(undelivered) else now)


def later(stored: StoredMessage, now: datetime) -> Outcome:
    """Return the outcome for a message whose folder cannot be read now."""
    return Outcome(
        MessageState.PENDING, stored.channels, now + min(pause_after(stored.attempts, transient=True), MAX_PAUSE)
    )


def bury(stored: StoredMessage, message: Message, channels: Mapping[str, ChannelResult], mail: MailSettings) -> None:
    """Save a message that some channels have not accepted for a day in the outbox folder, and log an error."""
    try:
        place = f"saved as {mail.outbox.send(message, OUTBOX_SECONDS)}"
    except UndeliveredError as error:
        place = f"it could not be saved either ({error}); its text is:\n{message.text}"
    dead = "; ".join(
        f"{name}: {one.detail}" for name, one in sorted(channels.items()) if one.state == ChannelState.DEAD
    )
    log.error("%s: could not be sent for a day: %s; %s", stored.subject, dead, place)


def _is_given_up(stored: StoredMessage, now: datetime) -> bool:
    """Whether a message has been tried for a day.

    A row that was added later, because the warehouse was down or a clock was wrong, may be older when it is first
    tried. Until then, `next_attempt` is a minute after it was added.
    """
    if now - stored.timestamp < GIVEN_UP_AFTER:
        return False
    if stored.attempts == 0:
        return now - stored.next_attempt >= GIVEN_UP_AFTER - HOLD_OFF
    return stored.attempts >= FEWEST_ATTEMPTS


def _with_pauses(
    merged: dict[str, ChannelResult], results: Sequence[DeliveryResult], now: datetime
) -> dict[str, ChannelResult]:
    for one in results:
        if not one.delivered:
            # if the channel accepted the message, each further attempt sends another copy
            transient = one.temporary and not one.unconfirmed
            pause = pause_after(merged[one.channel].attempts, transient=transient, retry_after=one.retry_after)
            merged[one.channel] = replace(merged[one.channel], not_before=_text(now + pause))
    return merged


def _of_content(stored: StoredMessage) -> Message:
    try:
        return from_document(json.loads(stored.content), f"the row of {stored.message}").message
    except (ValueError, AttributeError, UnreadableInputError) as error:
        log.warning("%s: the message is composed from its row: %s", stored.subject, error)
        return minimal_message(stored)


def _kind(stored: StoredMessage) -> MessageKind:
    try:
        return MessageKind(stored.occasion)
    except ValueError:  # of a newer version
        return MessageKind.BROKEN


def _has_arrived(results: Mapping[str, ChannelResult], channel: Channel) -> bool:
    return channel.name in results and results[channel.name].is_delivered


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
