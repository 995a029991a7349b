"""One message of the warehouse: its content, and the channels that it is still due on."""

from __future__ import annotations

import json
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
from ml_metrics.notify.outcome import has_arrived
from ml_metrics.notify.retry import GIVEN_UP_AFTER, is_due
from ml_metrics.notify.send import SentRecord
from ml_metrics.warehouse import ChannelState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.message import Message
    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.warehouse import ChannelResult, StoredMessage

log = logger_of(__name__)

OUTBOX_SECONDS = 10.0


def channels_of(stored: StoredMessage, mail: MailSettings) -> list[Channel]:
    """Return the channels that a message is sent on, whether or not they have accepted it."""
    return channels_for(mail.channels, _kind(stored), stored.held_because)


def open_channels(stored: StoredMessage, mail: MailSettings, now: datetime) -> list[Channel]:
    """Return the channels that have not accepted a message and may be tried now, as far as its row knows."""
    return [
        one
        for one in channels_of(stored, mail)
        if not has_arrived(stored.channels, one) and is_due(stored.channels.get(one.name), now)
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


def bury(stored: StoredMessage, message: Message, channels: Mapping[str, ChannelResult], mail: MailSettings) -> None:
    """Save a message that some channels have not accepted in time in the outbox folder, and log an error."""
    try:
        place = f"saved as {mail.outbox.send(message, OUTBOX_SECONDS)}"
    except UndeliveredError as error:
        place = f"it could not be saved either ({error}); its text is:\n{message.text}"
    dead = "; ".join(
        f"{name}: {one.detail}" for name, one in sorted(channels.items()) if one.state == ChannelState.DEAD
    )
    log.error("%s: could not be sent for %s days: %s; %s", stored.subject, GIVEN_UP_AFTER.days, dead, place)


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
