"""PagerDuty and Opsgenie: an incident is opened by a problem and closed by the recovery."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from ml_metrics.alerts.channels.channel import JsonService
from ml_metrics.alerts.message import Message, MessageKind
from ml_metrics.alerts.render import bullets, cut, cut_lines, fitting, printable, without_tags
from ml_metrics.store.markers import file_name

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
MAX_NAME = 255
MAX_PROBLEMS_LENGTH = 30_000
"""An event of PagerDuty may have 512 KB."""
MAX_MESSAGE, MAX_DESCRIPTION, MAX_NOTE, MAX_ENTITY, MAX_DETAIL = 130, 15_000, 25_000, 512, 2_000
"""The documented limits of Opsgenie, in characters; all details together may have 8,000."""


def incident_of(message: Message) -> str:
    """The identifier of the incident: at most 131 letters, digits, dots and dashes."""
    return f"ml-metrics-{file_name(message.incident or message.test or message.key)}"


@dataclass(frozen=True, slots=True)
class _Pager(JsonService):
    """A service that has one incident, however often it gets the same message."""

    key: str = field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.key,)

    def requests(self, message: Message) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
        if message.kind not in URGENCY and message.kind is not CLOSES:
            return f"nobody is paged: {message.kind}", []
        return f"accepted by {self.service} as {incident_of(message)}", self.changes(message)

    def changes(self, message: Message) -> list[tuple[str, dict[str, Any]]]:
        """The documents that open, update or close the incident."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PagerDuty(_Pager):
    """A service of PagerDuty with an integration for the Events API v2."""

    host: str = PAGERDUTY_HOST
    name: str = "pagerduty"
    service: ClassVar[str] = "PagerDuty"

    def changes(self, message: Message) -> list[tuple[str, dict[str, Any]]]:
        return [(f"{self.host}/v2/enqueue", {"routing_key": self.key, **event(message)})]


def event(message: Message) -> dict[str, Any]:
    if message.kind is CLOSES:
        return {"event_action": "resolve", "dedup_key": incident_of(message)}
    links = [
        {"href": fact.link, "text": cut(fact.name, MAX_NAME, escape=printable)}
        for fact in fitting(message.links, limit=20_000, most=10)
    ]
    test, owner, run = (cut(one, MAX_NAME, escape=printable) for one in (message.test, message.owner, message.run_key))
    details = {
        "owner": owner,
        "run": run,
        "problems": bullets(message.reasons, limit=MAX_PROBLEMS_LENGTH, most=100),
        "warnings": bullets(message.warnings, limit=MAX_PROBLEMS_LENGTH, most=100),
    }
    return {
        "event_action": "trigger",
        "dedup_key": incident_of(message),
        "client": SOURCE,
        "links": links,
        "payload": {
            "summary": cut(message.subject, 1024, escape=printable) or SOURCE,
            "source": test or SOURCE,
            "severity": URGENCY[message.kind][0],
            "component": test,
            "group": owner,
            "class": str(message.kind),
            "custom_details": {name: value for name, value in details.items() if value},
        },
        **({"client_url": links[0]["href"]} if links else {}),
    }


@dataclass(frozen=True, slots=True)
class Opsgenie(_Pager):
    """An account of Opsgenie with an integration for its Alert API. A note may be there twice."""

    host: str = OPSGENIE_HOST
    name: str = "opsgenie"
    service: ClassVar[str] = "Opsgenie"

    def credentials(self) -> tuple[dict[str, str], tuple[str, ...]]:
        return {"Authorization": f"GenieKey {self.key}"}, self.secrets

    def changes(self, message: Message) -> list[tuple[str, dict[str, Any]]]:
        address = f"{self.host}/v2/alerts"
        own = f"{address}/{incident_of(message)}"
        if message.kind is CLOSES:
            return [(f"{own}/close?identifierType=alias", note(message))]
        created = [(address, alert(message))]
        # an open alert keeps its description
        noted = [(f"{own}/notes?identifierType=alias", note(message))]
        return [*created, *noted] if message.kind is MessageKind.WORSE else created


def alert(message: Message) -> dict[str, Any]:
    """The alert, which Opsgenie adds to an open one with the same alias."""
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
    # Opsgenie shows HTML
    return {"source": SOURCE, "note": without_tags(cut_lines(f"{message.subject}\n\n{message.text.strip()}", MAX_NOTE))}
