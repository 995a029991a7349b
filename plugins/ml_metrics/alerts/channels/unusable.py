"""A misconfigured channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.alerts.channels.channel import UndeliveredError

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message


@dataclass(frozen=True, slots=True)
class Unusable:
    """A misconfigured channel: its messages are kept, with the reason."""

    name: str
    reason: str
    secrets: tuple[str, ...] = ()

    def send(self, message: Message, timeout: float) -> str:  # noqa: ARG002  (the interface of every channel)
        """Raise `UndeliveredError`."""
        raise UndeliveredError(self.reason)
