"""Which channels a message goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.alerts.message import MessageKind
from ml_metrics.alerts.policy import CAN_WAIT
from ml_metrics.alerts.result import TRACKERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.alerts.channels.channel import Channel

PER_TEST_CHANNELS = ("github", "error_reporting", "pagerduty", "opsgenie")
"""Channels with an entry for each test: they get no digest, and no limit on messages."""
MAIL_CHANNELS = ("outbox", "smtp", "sendgrid")
"""Channels that reach the recipients of a message, and nobody else."""
FOR_RECIPIENTS = {MessageKind.TRIAL, MessageKind.COST, MessageKind.ANSWER}
"""Messages for the addresses that asked for them: no chat shows them, and they page nobody."""
ABOUT_SEVERAL_TESTS = {MessageKind.DIGEST, MessageKind.HEARTBEAT}


def channels_for(channels: Sequence[Channel], kind: MessageKind, held_because: str) -> list[Channel]:
    """Return the channels that a message is sent on now, whether or not it waits for the digest."""
    trackers = [one for one in channels if one.name.partition(":")[0] in TRACKERS]
    if kind is MessageKind.RESULT:
        return trackers
    if held_because in CAN_WAIT:
        return []
    channels = [one for one in channels if one not in trackers]
    if kind in FOR_RECIPIENTS:
        return [one for one in channels if one.name.partition(":")[0] in MAIL_CHANNELS]
    if kind in ABOUT_SEVERAL_TESTS:
        return [one for one in channels if not is_per_test(one)]
    return [one for one in channels if not held_because or is_per_test(one)]


def is_per_test(channel: Channel) -> bool:
    """Whether a channel has an entry for each test."""
    return channel.name.partition(":")[0] in PER_TEST_CHANNELS
