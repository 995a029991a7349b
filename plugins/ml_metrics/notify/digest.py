"""Digests: one message for each list of recipients about everything that was held."""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import compose_digest
from ml_metrics.alerts.message import HeldMessage
from ml_metrics.alerts.policy import CAN_WAIT, PART_OF
from ml_metrics.notify.outgoing import post
from ml_metrics.notify.send import hurry
from ml_metrics.values import short_hash

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ml_metrics.alerts.message import Message
    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.warehouse import StoredMessage, Warehouse

MAX_AGE = timedelta(days=30)
"""Older messages are dropped."""
MAX_WAIT = timedelta(days=1)
LATEST_UPDATE = timedelta(hours=1)
"""When a message that no update has reported is in the digest."""


def send_due_digests(warehouse: Warehouse, mail: MailSettings, now: datetime) -> int:
    """Send each list of recipients its held messages if one of them is due. Returns the number of digests."""
    waiting = [one for one in warehouse.messages.held(now - MAX_AGE) if not _waits_for_update(one, now)]
    held = sorted(waiting, key=lambda one: (one.recipients, one.timestamp))
    sent = 0
    for recipients, group in groupby(held, key=lambda one: one.recipients):
        messages = list(group)
        if any(_is_due(one, now) for one in messages):
            keys = tuple(one.message for one in messages)
            send_summary(_digest(messages, recipients, mail), mail, warehouse, summarises=keys)
            sent += 1
    return sent


def send_summary(
    message: Message, mail: MailSettings, warehouse: Warehouse, *, summarises: tuple[str, ...] = ()
) -> None:
    """Write a message about several tests, and send it at once. `summarises` are the held messages that it reports."""
    hurry(post(message, mail=mail, warehouse=warehouse, summarises=summarises), mail, warehouse)


def _waits_for_update(one: StoredMessage, now: datetime) -> bool:
    """Whether the next update of an incident reports a message, so that a digest need not."""
    return one.held_because.startswith(PART_OF) and one.timestamp > now - LATEST_UPDATE


def _is_due(one: StoredMessage, now: datetime) -> bool:
    return one.held_because not in CAN_WAIT or one.timestamp <= now - MAX_WAIT


def _digest(held: Sequence[StoredMessage], recipients: tuple[str, ...], mail: MailSettings) -> Message:
    key = short_hash("\n".join(sorted(one.message for one in held)))
    messages = [
        HeldMessage(one.test, one.subject, one.reasons, one.timestamp, f"held back: {one.held_because}") for one in held
    ]
    return compose_digest(f"digest-{key}", messages, recipients, mail.sender, mail.dashboard_url)
