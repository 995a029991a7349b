"""Getting a message through: several tries inside a bound, every channel by itself, and no message is lost."""

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

PATIENCE = 30.0
"""Seconds for all tries of a message. Where a worker was killed, Airflow's DAG processor sends it, and has 50."""
TRIES = 4
ANSWER = 10.0
"""Seconds that a channel has for its answer."""
FIRST_PAUSE = 1.0


class State(StrEnum):
    """What became of a message on a channel."""

    DELIVERED = "delivered"
    KEPT = "kept"
    """The channel did not take it: it is in the outbox."""


@dataclass(frozen=True, slots=True)
class Attempted:
    """How it went with one channel."""

    channel: str
    state: State
    tries: int
    detail: str
    """Where the message is, or why it was not taken."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, which tests make pass faster."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


def deliver(message: Message, channels: Sequence[Channel], keep: Outbox, clock: Clock | None = None) -> list[Attempted]:
    """Send a message through every channel at once. What a channel does not take is kept in the outbox."""
    if not channels:
        return []
    tell_time = clock or Clock()
    deadline = tell_time.now() + PATIENCE
    with ThreadPoolExecutor(len(channels)) as side_by_side:
        done = list(side_by_side.map(lambda channel: _through(channel, message, tell_time, deadline), channels))
    if any(one.state is State.KEPT for one in done):
        where = _keep(message, keep)
        done = [replace(one, detail=f"{one.detail}{where}") if one.state is State.KEPT else one for one in done]
    for one in done:
        tell = log.info if one.state is State.DELIVERED else log.error
        tell("%s: %s by %s after %d tries: %s", message.subject, one.state, one.channel, one.tries, one.detail)
    return done


def _through(channel: Channel, message: Message, clock: Clock, deadline: float) -> Attempted:
    pause = FIRST_PAUSE
    for tries in range(1, TRIES + 1):
        try:
            where = channel.send(message, max(0.1, min(ANSWER, deadline - clock.now())))
        except UndeliveredError as error:
            why = redacted(str(error), channel.secrets)
            message = replace(message, recipients=error.remaining or message.recipients)
            pause = max(pause, error.retry_after)
            if not error.passing or tries == TRIES or clock.now() + pause >= deadline:
                return Attempted(channel.name, State.KEPT, tries, why)
            clock.wait(pause)
            pause *= 2
        except Exception as error:  # noqa: BLE001  (a mistake in one channel may not silence the others)
            why = redacted(f"a mistake of ours: {type(error).__name__}: {error}", channel.secrets)
            return Attempted(channel.name, State.KEPT, tries, why)
        else:
            return Attempted(channel.name, State.DELIVERED, tries, redacted(where, channel.secrets))
    raise AssertionError("the last try returns")  # pragma: no cover


def _keep(message: Message, outbox: Outbox) -> str:
    try:
        return f"; kept as {outbox.send(message, ANSWER)}"
    except UndeliveredError as error:
        # the task's log is the last place that is left
        log.error("%s\n%s", error, message.text)  # noqa: TRY400  (where it failed is in the message)
        return "; it could not be kept in the outbox either, and stands in the log"


def redacted(text: str, secrets: Iterable[str]) -> str:
    """A text without secrets, whoever put them there."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
