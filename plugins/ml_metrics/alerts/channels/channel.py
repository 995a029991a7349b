"""The interface of a channel, and the error that it raises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ml_metrics.core.errors import UndeliveredError

if TYPE_CHECKING:
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


@dataclass(frozen=True, slots=True)
class Unusable:
    """A misconfigured channel: its messages are kept, with the reason."""

    name: str
    reason: str
    secrets: tuple[str, ...] = ()

    def send(self, message: Message, timeout: float) -> str:  # noqa: ARG002  (the interface of every channel)
        raise UndeliveredError(self.reason)
