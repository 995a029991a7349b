"""Digests: one message about everything that was held back, for each group of people."""

from __future__ import annotations

import hashlib
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from ml_metrics.alerts.delivery import State, deliver
from ml_metrics.alerts.digest import Entry, compose_digest
from ml_metrics.errors import MlMetricsError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.delivery import Attempted
    from ml_metrics.alerts.message import Message
    from ml_metrics.notify.mail_settings import Post
    from ml_metrics.warehouse import Delivery, Warehouse

log = logging.getLogger(__name__)

MEMORY = timedelta(days=30)
"""What has waited for longer is of no use to anybody."""
A_DAY, LATE = timedelta(days=1), timedelta(hours=2)
MILD = {"a warning", "somebody knows of it"}
"""Why something waits that may wait for a day."""
SINGLE = ("github", "error_reporting")
"""Channels whose entries are about one test each: a digest has no place there."""


def send_due_digests(warehouse: Warehouse, post: Post, now: datetime) -> int:
    """Tell each group of people what waits for them. What may wait for a day does, unless something else is due."""
    waiting = sorted(warehouse.deliveries.waiting(now - MEMORY), key=lambda one: (one.recipients, one.timestamp))
    sent = 0
    for recipients, group in groupby(waiting, key=lambda one: one.recipients):
        entries = list(group)
        if any(_is_due(one, now) for one in entries):
            sent += _send(entries, recipients, warehouse, post, now)
    return sent


def send_late_digest(warehouse: Warehouse, post: Post, now: datetime) -> None:
    """Send what the DAG of digests should have sent long ago: it may be paused. Never fails the one who calls."""
    try:
        late = [
            one
            for one in warehouse.deliveries.waiting(now - MEMORY)
            if one.timestamp <= now - LATE and _is_due(one, now)
        ]
        if late:
            send_due_digests(warehouse, post, now)
    except MlMetricsError as error:
        log.warning("no digest could be sent: %s", error)


def send_to_groups(message: Message, post: Post) -> bool:
    """Deliver a message about several tests. True if a channel took it."""
    channels = [channel for channel in post.channels if not is_single(channel)]
    return any(one.state is State.DELIVERED for one in deliver(message, channels, post.outbox, post.clock))


def is_single(channel: Channel) -> bool:
    """Whether a channel keeps an entry for each test."""
    return channel.name.partition(":")[0] in SINGLE


def _is_due(one: Delivery, now: datetime) -> bool:
    return one.detail not in MILD or one.timestamp <= now - A_DAY


def _send(
    waiting: Sequence[Delivery], recipients: tuple[str, ...], warehouse: Warehouse, post: Post, now: datetime
) -> bool:
    """Tell each channel what was held back and what that channel did not take. True if one of them took it.

    What a channel does not take this time either goes on waiting, for that channel alone.
    """
    channels = [channel for channel in post.channels if not is_single(channel)]
    names = {channel.name for channel in channels}
    for_all = [one for one in waiting if one.channel not in names]

    def to(channel: Channel) -> tuple[Attempted, list[Delivery]] | None:
        its_own = [one for one in waiting if one.channel == channel.name]
        if not for_all and not its_own:
            return None
        message = _digest([*for_all, *its_own], recipients, post)
        return deliver(message, [channel], post.outbox, post.clock)[0], its_own

    with ThreadPoolExecutor(max(1, len(channels))) as side_by_side:
        answers = [answer for answer in side_by_side.map(to, channels) if answer is not None]
    told = [its_own for done, its_own in answers if done.state is State.DELIVERED]
    for one in (*(for_all if told else ()), *(one for its_own in told for one in its_own)):
        warehouse.deliveries.record(replace(one, state="summarised", timestamp=now, detail="told in a digest"))
    for done, _ in answers:
        for one in for_all if done.state is State.KEPT and told else ():
            kept = replace(one, channel=done.channel, state=str(State.KEPT), timestamp=now, detail=done.detail)
            warehouse.deliveries.record(kept)
    return bool(told)


def _digest(waiting: Sequence[Delivery], recipients: tuple[str, ...], post: Post) -> Message:
    by_message = {one.message: one for one in waiting}
    key = hashlib.sha256("\n".join(sorted(by_message)).encode()).hexdigest()[:16]
    entries = [Entry(one.test, one.subject, one.reasons, one.timestamp, _why(one)) for one in by_message.values()]
    return compose_digest(f"digest-{key}", entries, recipients, post.sender, post.dashboard_url)


def _why(one: Delivery) -> str:
    return f"{one.channel} did not take it: {one.detail}" if one.state == State.KEPT else f"held back: {one.detail}"
