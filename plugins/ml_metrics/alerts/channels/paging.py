"""Shared by the services that page a person: which messages open an incident, and which close it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.alerts.mail import file_name
from ml_metrics.alerts.message import MessageKind

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message

OPENS = frozenset({MessageKind.BROKEN, MessageKind.WORSE, MessageKind.OVERDUE, MessageKind.MASS})
CLOSES = frozenset({MessageKind.RECOVERED})
"""Nobody is paged for other messages: warnings, digests, heartbeats and trials can wait for the morning."""


def pages(message: Message) -> bool:
    """Whether the message opens or closes an incident."""
    return message.kind in OPENS | CLOSES


def incident_of(message: Message) -> str:
    """Return the identifier of the incident: at most 131 letters, digits, dots and dashes."""
    return f"ml-metrics-{file_name(message.incident or message.test or message.key)}"
