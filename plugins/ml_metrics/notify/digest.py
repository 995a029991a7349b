"""Digests: one message for each list of recipients about everything that was held or not delivered."""

from __future__ import annotations

import hashlib
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import compose_digest
from ml_metrics.alerts.delivery import DeliveryState, deliver
from ml_metrics.alerts.message import HeldMessage
from ml_metrics.alerts.policy import A_SILENCE, A_WARNING, ACKNOWLEDGED
from ml_metrics.errors import MlMetricsError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.delivery import DeliveryResult
    from ml_metrics.alerts.message import Message
    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.warehouse import Delivery, Warehouse

log = logging.getLogger(__name__)

MAX_AGE = timedelta(days=30)
"""Older messages are dropped."""
MAX_WAIT, LATE = timedelta(days=1), timedelta(hours=2)
CAN_WAIT = {A_WARNING, A_SILENCE, ACKNOWLEDGED}
"""Reasons to hold a message for up to a day."""
PER_TEST_CHANNELS = ("github", "error_reporting")
"""Channels with an entry for each test, which get no digest."""


def send_due_digests(warehouse: Warehouse, mail: MailSettings, now: datetime) -> int:
    """Send each list of recipients its waiting messages if one of them is due. Returns the number of digests sent."""
    waiting = sorted(warehouse.deliveries.waiting(now - MAX_AGE), key=lambda one: (one.recipients, one.timestamp))
    sent = 0
    for recipients, group in groupby(waiting, key=lambda one: one.recipients):
        messages = list(group)
        if any(_is_due(one, now) for one in messages):
            sent += _send(messages, recipients, warehouse, mail, now)
    return sent


def send_late_digest(warehouse: Warehouse, mail: MailSettings, now: datetime) -> None:
    """Send digests that are hours late, in case the digest DAG is paused. Logs errors instead of raising them."""
    try:
        waiting = warehouse.deliveries.waiting(now - MAX_AGE)
        if any(one.timestamp <= now - LATE and _is_due(one, now) for one in waiting):
            send_due_digests(warehouse, mail, now)
    except MlMetricsError as error:
        log.warning("no digest could be sent: %s", error)


def send_summary(message: Message, mail: MailSettings) -> bool:
    """Deliver a message about several tests. True if a channel accepted it."""
    channels = [channel for channel in mail.channels if not is_per_test(channel)]
    results = deliver(message, channels, mail.outbox, mail.clock)
    return any(one.state is DeliveryState.DELIVERED for one in results)


def is_per_test(channel: Channel) -> bool:
    """Whether a channel has an entry for each test."""
    return channel.name.partition(":")[0] in PER_TEST_CHANNELS


def _is_due(one: Delivery, now: datetime) -> bool:
    return one.detail not in CAN_WAIT or one.timestamp <= now - MAX_WAIT


def _send(
    waiting: Sequence[Delivery], recipients: tuple[str, ...], warehouse: Warehouse, mail: MailSettings, now: datetime
) -> bool:
    """Send each channel the held messages and those that it did not accept. True if one of them accepted the digest.

    If a channel fails again, its messages keep waiting for that channel alone.
    """
    channels = [channel for channel in mail.channels if not is_per_test(channel)]
    names = {channel.name for channel in channels}
    for_all = [one for one in waiting if one.channel not in names]

    def send_to(channel: Channel) -> tuple[DeliveryResult, list[Delivery]] | None:
        own = [one for one in waiting if one.channel == channel.name]
        if not for_all and not own:
            return None
        message = _digest([*for_all, *own], recipients, mail)
        return deliver(message, [channel], mail.outbox, mail.clock)[0], own

    with ThreadPoolExecutor(max(1, len(channels))) as threads:
        results = [result for result in threads.map(send_to, channels) if result is not None]
    delivered = [own for result, own in results if result.state is DeliveryState.DELIVERED]
    for one in (*(for_all if delivered else ()), *(one for own in delivered for one in own)):
        warehouse.deliveries.record(replace(one, state="summarised", timestamp=now, detail="sent in a digest"))
    for result, _ in results:
        for one in for_all if result.state is DeliveryState.KEPT and delivered else ():
            state = str(DeliveryState.KEPT)
            kept = replace(one, channel=result.channel, state=state, timestamp=now, detail=result.detail)
            warehouse.deliveries.record(kept)
    return bool(delivered)


def _digest(waiting: Sequence[Delivery], recipients: tuple[str, ...], mail: MailSettings) -> Message:
    by_message = {one.message: one for one in waiting}
    key = hashlib.sha256("\n".join(sorted(by_message)).encode()).hexdigest()[:16]
    messages = [
        HeldMessage(one.test, one.subject, one.reasons, one.timestamp, _held_because(one))
        for one in by_message.values()
    ]
    return compose_digest(f"digest-{key}", messages, recipients, mail.sender, mail.dashboard_url)


def _held_because(one: Delivery) -> str:
    if one.state == DeliveryState.KEPT:
        return f"not delivered by {one.channel}: {one.detail}"
    return f"held back: {one.detail}"
