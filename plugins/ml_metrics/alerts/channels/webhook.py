"""A webhook that accepts Slack's JSON: Slack, Mattermost, or your own service."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.channels.http import send_json
from ml_metrics.alerts.compose import printable

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message

MAX_BLOCK_LENGTH = 2900
"""Slack rejects a block with more than 3,000 characters."""
MAX_REASONS = 10
MIN_SECRET_LENGTH = 8
"""A shorter path, like `hook`, is not a secret."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook, whose address is a secret."""

    address: str = field(repr=False)
    name: str = "webhook"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The address and its path: both allow posting."""
        _, _, path = self.address.partition("://")[2].partition("/")
        return (self.address, path) if len(path) >= MIN_SECRET_LENGTH else (self.address,)

    def send(self, message: Message, timeout: float) -> str:
        """Post the message."""
        send_json("POST", self.address, service="the webhook", timeout=timeout, body=payload(message))
        return "accepted by the webhook"


def payload(message: Message) -> dict[str, Any]:
    """Return Slack blocks with headline, problems and links. Notifications show `text`."""
    reasons = [f"• {escaped(reason.sentence)}" for reason in message.reasons[:MAX_REASONS]]
    if len(message.reasons) > MAX_REASONS:
        reasons.append(f"• and {len(message.reasons) - MAX_REASONS} more")
    links = [f"<{fact.link.replace('|', '%7C')}|{escaped(fact.name)}>" for fact in message.links]
    reasons.extend(f"• {escaped(warning.sentence)}" for warning in message.warnings[:MAX_REASONS])
    if len(message.warnings) > MAX_REASONS:
        reasons.append(f"• and {len(message.warnings) - MAX_REASONS} more warnings")
    sections = [f"*{escaped(message.subject).replace('*', '')}*", "\n".join(reasons), " · ".join(links)]
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": cut(text)}} for text in sections if text]
    return {"text": escaped(message.subject), "blocks": blocks}


def escaped(text: str) -> str:
    """Return text that Slack shows unchanged, without links and mentions."""
    return printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def cut(text: str) -> str:
    """Return the text within Slack's limit, not cut inside an escaped character."""
    return text if len(text) <= MAX_BLOCK_LENGTH else text[:MAX_BLOCK_LENGTH].rpartition(" ")[0] + " …"
