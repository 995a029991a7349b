"""Sends a message that was written, and records on which channels it arrived."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ml_metrics.alerts.outbox.outcome import MARGIN_SECONDS, SentRecord, attempt, outcome_of, record_own
from ml_metrics.alerts.outbox.post import row_of
from ml_metrics.alerts.policy import channels_for
from ml_metrics.core.deadline import in_time
from ml_metrics.core.errors import MlMetricsError, StorageError
from ml_metrics.core.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.message import Message
    from ml_metrics.alerts.outbox.outcome import DeliveryResult, Outcome
    from ml_metrics.alerts.outbox.post import Posted
    from ml_metrics.alerts.settings import MailSettings
    from ml_metrics.warehouse import Warehouse


log = logger_of(__name__)

HURRY_SECONDS = 10.0
"""The time for sending one message at once, and for recording that."""
CHANNEL_SECONDS = 7.0
"""The time for the channels within `HURRY_SECONDS`."""
OWN_SECONDS = 45.0
"""How long after writing a message a process may start to send it: senders leave it alone for a minute."""


def addressed(message: Message, mail: MailSettings) -> Message:
    """Return a message with the default addresses in place of those that were not known when it was decided.

    They are secrets, and may have been unreadable then, or not set.
    """
    return replace(message, recipients=message.recipients or mail.recipients, sender=message.sender or mail.sender)


def send_on(message: Message, channels: Sequence[Channel], record: SentRecord, timeout: float) -> list[DeliveryResult]:
    """Send a message once on each channel that has not accepted it."""
    left = record.left(channels)
    return attempt(message, left, timeout, remaining=record.remaining(), on_accepted=record.add)


def hurry(
    posted: Posted,
    mail: MailSettings,
    warehouse: Warehouse | None,
    seconds: float = HURRY_SECONDS,
) -> bool:
    """Send a message at once, in the process that wrote it. True if no sender needs to send it.

    Whatever fails or hangs is left to the senders.
    """
    ends = time.monotonic() + seconds
    time_for_channels = min(CHANNEL_SECONDS, seconds) - MARGIN_SECONDS
    if not posted.mine or time.monotonic() - posted.at > OWN_SECONDS or time_for_channels <= 0:
        log.info("%s: senders send it", posted.outgoing.message.subject)
        return False
    message = addressed(posted.outgoing.message, mail)
    channels = channels_for(mail.channels, message.kind, posted.outgoing.held_because)
    record = SentRecord(posted.folder if posted.in_folder else None, posted.name)
    results = send_on(message, channels, record, time_for_channels)
    row = row_of(posted.outgoing)

    def outcome(now: datetime) -> Outcome:
        return outcome_of(replace(row, next_attempt=now), channels, record, results, now)

    _record_attempt(posted, mail, warehouse, outcome, ends)
    return all(one.delivered for one in results)


def _record_attempt(
    posted: Posted,
    mail: MailSettings,
    warehouse: Warehouse | None,
    outcome: Callable[[datetime], Outcome],
    ends: float,
) -> None:
    """Record the attempt of this process in the row; else beside the message, from where a sender takes it over."""
    key, subject = posted.outgoing.message.key, posted.outgoing.message.subject
    try:
        if warehouse is not None:
            found = in_time(
                lambda: record_own(key, outcome(warehouse.messages.moment()), warehouse),
                ends - time.monotonic(),
                "the warehouse",
            )
            if found:
                return
    except MlMetricsError as error:
        log.warning("%s: a sender will record its delivery: %s", subject, error)
    if posted.in_folder:
        try:
            posted.folder.record_attempt(posted.name, outcome(datetime.now(UTC)).document())
            mail.markers.add(key, messages=posted.folder.path, document=posted.name)
        except StorageError as error:
            log.warning("%s: this attempt is not counted: %s", subject, error)
