"""Opsgenie, by its Alert API: an alert is created by a problem and closed by the recovery."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.channels.channel import CLOSES, incident_of, pages
from ml_metrics.alerts.message import MessageKind
from ml_metrics.alerts.render import cut, cut_lines, without_tags
from ml_metrics.core.deadline import Deadline, within
from ml_metrics.core.http import Client

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message


HOST = "https://api.opsgenie.com"
SERVICE = "Opsgenie"
SOURCE = "ML Metrics"
PRIORITIES = {
    MessageKind.MASS: "P1",
    MessageKind.BROKEN: "P2",
    MessageKind.WORSE: "P2",
    MessageKind.OVERDUE: "P3",
}
MAX_MESSAGE, MAX_DESCRIPTION, MAX_NOTE, MAX_ENTITY, MAX_DETAIL = 130, 15_000, 25_000, 512, 2_000
"""The documented limits, in characters; all details together may have 8,000."""


@dataclass(frozen=True, slots=True)
class Opsgenie:
    """An account with an API integration."""

    api_key: str = field(repr=False)
    host: str = HOST
    """Accounts in the European Union have another host."""
    name: str = "opsgenie"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key."""
        return (self.api_key,)

    def send(self, message: Message, timeout: float) -> str:
        """Create, note or close the alert. The same message twice is one alert; a note may be there twice."""
        if not pages(message):
            return f"nobody is paged: {message.kind}"
        return within(timeout, SERVICE, lambda deadline: self._update(message, deadline))

    def _update(self, message: Message, deadline: Deadline) -> str:
        client = Client(SERVICE, deadline, {"Authorization": f"GenieKey {self.api_key}"}, self.secrets)
        address, alias = f"{self.host}/v2/alerts", incident_of(message)
        if message.kind in CLOSES:
            client.send("POST", f"{address}/{alias}/close?identifierType=alias", note(message))
        else:
            client.send("POST", address, alert(message))
            if message.kind is MessageKind.WORSE:  # an open alert keeps its description
                client.send("POST", f"{address}/{alias}/notes?identifierType=alias", note(message))
        return f"accepted by {SERVICE} as {alias}"


def alert(message: Message) -> dict[str, Any]:
    """Return the alert, which Opsgenie adds to an open one with the same alias."""
    facts = {"test": message.test, "owner": message.owner, "run": message.run_key}
    details = {name: cut(value, MAX_DETAIL, escape=without_tags) for name, value in facts.items()}
    return {
        "message": cut(message.subject, MAX_MESSAGE, escape=without_tags) or SOURCE,
        "alias": incident_of(message),
        "description": without_tags(cut_lines(message.text.strip(), MAX_DESCRIPTION)),
        "tags": ["ml-metrics", str(message.kind)],
        "details": {name: value for name, value in details.items() if value.strip()},
        "entity": cut(message.test, MAX_ENTITY, escape=without_tags),
        "source": SOURCE,
        "priority": PRIORITIES[message.kind],
    }


def note(message: Message) -> dict[str, Any]:
    """Return the note for an alert that is open, or that is closed by it."""
    # Opsgenie shows HTML
    return {"source": SOURCE, "note": without_tags(cut_lines(f"{message.subject}\n\n{message.text.strip()}", MAX_NOTE))}
