"""PagerDuty, by its Events API v2: an incident is opened by a problem and resolved by the recovery."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.channels.channel import CLOSES, incident_of, pages
from ml_metrics.alerts.message import MessageKind
from ml_metrics.alerts.render import bullets, cut, fitting, printable
from ml_metrics.core.http import send_json

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message


HOST = "https://events.pagerduty.com"
SERVICE = "PagerDuty"
SEVERITIES = {
    MessageKind.MASS: "critical",
    MessageKind.BROKEN: "error",
    MessageKind.WORSE: "error",
    MessageKind.OVERDUE: "warning",
}
MAX_SUMMARY = 1024
MAX_NAME = 255
MAX_PROBLEMS, MAX_PROBLEMS_LENGTH = 100, 30_000
"""An event may have 512 KB."""
MAX_LINKS, MAX_LINKS_LENGTH = 10, 20_000


@dataclass(frozen=True, slots=True)
class PagerDuty:
    """A service of PagerDuty with an integration for the Events API v2."""

    routing_key: str = field(repr=False)
    """The integration key."""
    host: str = HOST
    """Accounts in the European Union have another host."""
    name: str = "pagerduty"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key."""
        return (self.routing_key,)

    def send(self, message: Message, timeout: float) -> str:
        """Open, update or resolve the incident. The same message twice is one incident."""
        if not pages(message):
            return f"nobody is paged: {message.kind}"
        body = {"routing_key": self.routing_key, **event(message)}
        address = f"{self.host}/v2/enqueue"
        send_json("POST", address, service=SERVICE, timeout=timeout, body=body, secrets=self.secrets)
        return f"accepted by {SERVICE} as {incident_of(message)}"


def event(message: Message) -> dict[str, Any]:
    """Return the event without its key."""
    identity = {"dedup_key": incident_of(message)}
    if message.kind in CLOSES:
        return {"event_action": "resolve", **identity}
    links = [
        {"href": fact.link, "text": cut(fact.name, MAX_NAME, escape=printable)}
        for fact in fitting(message.links, limit=MAX_LINKS_LENGTH, most=MAX_LINKS)
    ]
    details = {
        "owner": cut(message.owner, MAX_NAME, escape=printable),
        "run": cut(message.run_key, MAX_NAME, escape=printable),
        "problems": bullets(message.reasons, limit=MAX_PROBLEMS_LENGTH, most=MAX_PROBLEMS),
        "warnings": bullets(message.warnings, limit=MAX_PROBLEMS_LENGTH, most=MAX_PROBLEMS),
    }
    test = cut(message.test, MAX_NAME, escape=printable)
    body = {
        "event_action": "trigger",
        **identity,
        "client": "ML Metrics",
        "links": links,
        "payload": {
            "summary": cut(message.subject, MAX_SUMMARY, escape=printable) or "ML Metrics",
            "source": test or "ML Metrics",
            "severity": SEVERITIES[message.kind],
            "component": test,
            "group": cut(message.owner, MAX_NAME, escape=printable),
            "class": str(message.kind),
            "custom_details": {name: value for name, value in details.items() if value},
        },
    }
    return {**body, "client_url": links[0]["href"]} if links else body
