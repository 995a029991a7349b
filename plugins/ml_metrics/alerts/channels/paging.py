"""PagerDuty and Opsgenie: an incident is opened by a problem and closed by the recovery."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.message import MessageKind
from ml_metrics.alerts.render import bullets, cut, cut_lines, fitting, printable, without_tags
from ml_metrics.core.deadline import within
from ml_metrics.core.http import Client, send_json
from ml_metrics.store.markers import file_name

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message
    from ml_metrics.core.deadline import Deadline


URGENCY = {
    MessageKind.MASS: ("critical", "P1"),
    MessageKind.BROKEN: ("error", "P2"),
    MessageKind.WORSE: ("error", "P2"),
    MessageKind.OVERDUE: ("warning", "P3"),
}
"""The messages that open an incident: the severity in PagerDuty, and the priority in Opsgenie."""
CLOSES = MessageKind.RECOVERED
"""Nobody is paged for other messages: warnings, digests, heartbeats and trials can wait for the morning."""
PAGERDUTY_HOST, OPSGENIE_HOST = "https://events.pagerduty.com", "https://api.opsgenie.com"
"""Accounts in the European Union have other hosts."""
SOURCE = "ML Metrics"


def incident_of(message: Message) -> str:
    """Return the identifier of the incident: at most 131 letters, digits, dots and dashes."""
    return f"ml-metrics-{file_name(message.incident or message.test or message.key)}"


def _pages(message: Message) -> bool:
    return message.kind in URGENCY or message.kind is CLOSES


@dataclass(frozen=True, slots=True)
class PagerDuty:
    """A service of PagerDuty with an integration for the Events API v2."""

    routing_key: str = field(repr=False)
    """The integration key."""
    host: str = PAGERDUTY_HOST
    name: str = "pagerduty"

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.routing_key,)

    def send(self, message: Message, timeout: float) -> str:
        """Open, update or resolve the incident. The same message twice is one incident."""
        if not _pages(message):
            return f"nobody is paged: {message.kind}"
        body = {"routing_key": self.routing_key, **event(message)}
        address = f"{self.host}/v2/enqueue"
        send_json("POST", address, service="PagerDuty", timeout=timeout, body=body, secrets=self.secrets)
        return f"accepted by PagerDuty as {incident_of(message)}"


MAX_SUMMARY, MAX_NAME = 1024, 255
MAX_PROBLEMS, MAX_PROBLEMS_LENGTH = 100, 30_000
"""An event may have 512 KB."""
MAX_LINKS, MAX_LINKS_LENGTH = 10, 20_000


def event(message: Message) -> dict[str, Any]:
    """Return the event for PagerDuty, without its key."""
    identity = {"dedup_key": incident_of(message)}
    if message.kind is CLOSES:
        return {"event_action": "resolve", **identity}
    links = [
        {"href": fact.link, "text": cut(fact.name, MAX_NAME, escape=printable)}
        for fact in fitting(message.links, limit=MAX_LINKS_LENGTH, most=MAX_LINKS)
    ]
    test, owner, run = (cut(one, MAX_NAME, escape=printable) for one in (message.test, message.owner, message.run_key))
    details = {
        "owner": owner,
        "run": run,
        "problems": bullets(message.reasons, limit=MAX_PROBLEMS_LENGTH, most=MAX_PROBLEMS),
        "warnings": bullets(message.warnings, limit=MAX_PROBLEMS_LENGTH, most=MAX_PROBLEMS),
    }
    body = {
        "event_action": "trigger",
        **identity,
        "client": SOURCE,
        "links": links,
        "payload": {
            "summary": cut(message.subject, MAX_SUMMARY, escape=printable) or SOURCE,
            "source": test or SOURCE,
            "severity": URGENCY[message.kind][0],
            "component": test,
            "group": owner,
            "class": str(message.kind),
            "custom_details": {name: value for name, value in details.items() if value},
        },
    }
    return {**body, "client_url": links[0]["href"]} if links else body


@dataclass(frozen=True, slots=True)
class Opsgenie:
    """An account of Opsgenie with an integration for its Alert API."""

    api_key: str = field(repr=False)
    host: str = OPSGENIE_HOST
    name: str = "opsgenie"

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.api_key,)

    def send(self, message: Message, timeout: float) -> str:
        """Create, note or close the alert. The same message twice is one alert; a note may be there twice."""
        if not _pages(message):
            return f"nobody is paged: {message.kind}"
        return within(timeout, "Opsgenie", lambda deadline: self._update(message, deadline))

    def _update(self, message: Message, deadline: Deadline) -> str:
        client = Client("Opsgenie", deadline, {"Authorization": f"GenieKey {self.api_key}"}, self.secrets)
        address, alias = f"{self.host}/v2/alerts", incident_of(message)
        if message.kind is CLOSES:
            client.send("POST", f"{address}/{alias}/close?identifierType=alias", note(message))
        else:
            client.send("POST", address, alert(message))
            if message.kind is MessageKind.WORSE:  # an open alert keeps its description
                client.send("POST", f"{address}/{alias}/notes?identifierType=alias", note(message))
        return f"accepted by Opsgenie as {alias}"


MAX_MESSAGE, MAX_DESCRIPTION, MAX_NOTE, MAX_ENTITY, MAX_DETAIL = 130, 15_000, 25_000, 512, 2_000
"""The documented limits of Opsgenie, in characters; all details together may have 8,000."""


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
        "priority": URGENCY[message.kind][1],
    }


def note(message: Message) -> dict[str, Any]:
    """Return the note for an alert that is open, or that is closed by it."""
    # Opsgenie shows HTML
    return {"source": SOURCE, "note": without_tags(cut_lines(f"{message.subject}\n\n{message.text.strip()}", MAX_NOTE))}
