"""What a channel must be able to do, and how it says that it could not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ml_metrics.errors import AlertError

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message


class Channel(Protocol):
    """One way to people."""

    @property
    def name(self) -> str:
        """By which settings, logs and the warehouse call it."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be seen in a log or a message."""

    def send(self, message: Message, timeout: float) -> str:
        """Deliver a message within about `timeout` seconds, and say where it is now. Raises `UndeliveredError`."""


class UndeliveredError(AlertError):
    """A channel did not take a message.

    Args:
        why: in words that hold no secret.
        passing: whether another try may help.
        retry_after: how many seconds the channel asks us to wait.
        remaining: the recipients that have not got it, where others have; empty for all.
    """

    def __init__(
        self, why: str, *, passing: bool = False, retry_after: float = 0.0, remaining: tuple[str, ...] = ()
    ) -> None:
        super().__init__(why)
        self.passing = passing
        self.retry_after = retry_after
        self.remaining = remaining
