"""One attempt to send a message, on all its channels at the same time."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from threading import Thread
from typing import TYPE_CHECKING

from ml_metrics.alerts.channels.channel import UndeliveredError, redacted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.message import Message
from ml_metrics.log_lines import logger_of

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
    """Send a message once on each channel, and return when all have answered or the time is over.

    Args:
        message: the message.
        channels: the channels, which are used at the same time.
        timeout: the seconds for everything.
        remaining: by channel, the recipients that it has not accepted the message for, if it has for others.
        on_accepted: is called as soon as a channel has accepted the message, in that channel's thread.
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
