"""The interface of a channel, and the error that it raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ml_metrics.errors import AlertError
from ml_metrics.values import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.alerts.message import Message


class Channel(Protocol):
    """A way to deliver messages."""

    @property
    def name(self) -> str:
        """The name in settings, logs and the warehouse."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must never appear in a log or a message."""

    def send(self, message: Message, timeout: float) -> str:
        """Deliver a message and return where it is. Raises `UndeliveredError`.

        It returns or raises within about `timeout` + 1 seconds, however slow the other side is.
        """


class UndeliveredError(AlertError):
    """A channel did not accept a message.

    Args:
        reason: a text without secrets. It may quote the service, so it is made printable.
        transient: whether another try may succeed.
        retry_after: the pause in seconds that the channel requests.
        remaining: the recipients that were rejected if others were accepted; empty for all.
        unconfirmed: whether the channel has the whole message and did not answer, so that it may have accepted it.
    """

    def __init__(
        self,
        reason: str,
        *,
        transient: bool = False,
        retry_after: float = 0.0,
        remaining: tuple[str, ...] = (),
        unconfirmed: bool = False,
    ) -> None:
        super().__init__(printable(reason))
        self.transient = transient
        self.retry_after = retry_after
        self.remaining = remaining
        self.unconfirmed = unconfirmed


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return what a service said as printable text, with every secret replaced by `***`."""
    text = printable(text)
    for secret in sorted(map(printable, filter(None, secrets)), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
