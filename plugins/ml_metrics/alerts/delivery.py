"""Delivers a message through every channel independently, with a few tries in a limited time. No message is lost."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from ml_metrics.alerts.channels.channel import UndeliveredError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.channels.outbox import Outbox
    from ml_metrics.alerts.message import Message

log = logging.getLogger(__name__)

DELIVERY_TIMEOUT_SECONDS = 30.0
"""The time for all tries of a message. Airflow's DAG processor, which may run this, allows 50 seconds."""
MAX_TRIES = 4
CHANNEL_TIMEOUT_SECONDS = 10.0
"""The time for one request to a channel."""
FIRST_PAUSE_SECONDS = 1.0


class DeliveryState(StrEnum):
    """The state of a message on a channel."""

    DELIVERED = "delivered"
    KEPT = "kept"
    """The channel did not accept the message, which is now in the outbox."""


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The result of a delivery on one channel."""

    channel: str
    state: DeliveryState
    tries: int
    detail: str
    """Where the message is, or why it was not delivered."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The time, which tests replace."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


def deliver(
    message: Message, channels: Sequence[Channel], outbox: Outbox, clock: Clock | None = None
) -> list[DeliveryResult]:
    """Send a message through all channels at once. If a channel does not accept it, it is saved in the outbox."""
    if not channels:
        return []
    clock = clock or Clock()
    deadline = clock.now() + DELIVERY_TIMEOUT_SECONDS
    with ThreadPoolExecutor(len(channels)) as threads:
        results = list(threads.map(lambda channel: _deliver_to(channel, message, clock, deadline), channels))
    if any(one.state is DeliveryState.KEPT for one in results):
        where = _save(message, outbox)
        results = [
            replace(one, detail=f"{one.detail}; {where}") if one.state is DeliveryState.KEPT else one for one in results
        ]
    for one in results:
        delivered = one.state is DeliveryState.DELIVERED
        state = "delivered" if delivered else "not delivered"
        level = logging.INFO if delivered else logging.ERROR
        log.log(level, "%s: %s by %s after %d tries: %s", message.subject, state, one.channel, one.tries, one.detail)
    return results


def _deliver_to(channel: Channel, message: Message, clock: Clock, deadline: float) -> DeliveryResult:
    pause = FIRST_PAUSE_SECONDS
    for tries in range(1, MAX_TRIES + 1):
        try:
            where = channel.send(message, max(0.1, min(CHANNEL_TIMEOUT_SECONDS, deadline - clock.now())))
        except UndeliveredError as error:
            reason = redacted(str(error), channel.secrets)
            message = replace(message, recipients=error.remaining or message.recipients)
            pause = max(pause, error.retry_after)
            if not error.transient or tries == MAX_TRIES or clock.now() + pause >= deadline:
                return DeliveryResult(channel.name, DeliveryState.KEPT, tries, reason)
            clock.wait(pause)
            pause *= 2
        except Exception as error:  # noqa: BLE001  (an error in one channel must not silence the others)
            reason = redacted(f"internal error: {type(error).__name__}: {error}", channel.secrets)
            return DeliveryResult(channel.name, DeliveryState.KEPT, tries, reason)
        else:
            return DeliveryResult(channel.name, DeliveryState.DELIVERED, tries, redacted(where, channel.secrets))
    raise AssertionError("the last try returns")  # pragma: no cover


def _save(message: Message, outbox: Outbox) -> str:
    try:
        return f"saved as {outbox.send(message, CHANNEL_TIMEOUT_SECONDS)}"
    except UndeliveredError as error:
        # the task log is the last place left
        log.error("%s\n%s", error, message.text)  # noqa: TRY400  (the error names the path)
        return "it could not be saved in the outbox either; this log has its text"


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return the text with every secret replaced by `***`."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
