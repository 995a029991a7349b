"""A webhook that takes Slack's JSON: Slack itself, Mattermost, or a program of your own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.channels.http import ask
from ml_metrics.alerts.compose import printable

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message

LONGEST = 2900
"""Slack refuses a block whose text is longer than 3,000 letters."""
REASONS = 10
SECRET = 8
"""A shorter path is a word, and no secret: `hook`."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that is a secret."""

    address: str = field(repr=False)
    name: str = "webhook"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The address and its path: whoever knows them can write there."""
        _, _, path = self.address.partition("://")[2].partition("/")
        return (self.address, path) if len(path) >= SECRET else (self.address,)

    def send(self, message: Message, timeout: float) -> str:
        """Post the message."""
        ask("POST", self.address, service="the webhook", timeout=timeout, body=payload(message))
        return "the webhook took it"


def payload(message: Message) -> dict[str, Any]:
    """Slack's blocks: the headline, the reasons, the links. `text` is what a notification shows."""
    reasons = [f"• {escaped(reason.sentence)}" for reason in message.reasons[:REASONS]]
    if len(message.reasons) > REASONS:
        reasons.append(f"• and {len(message.reasons) - REASONS} more")
    links = [f"<{fact.link.replace('|', '%7C')}|{escaped(fact.name)}>" for fact in message.links]
    sections = [f"*{escaped(message.subject).replace('*', '')}*", "\n".join(reasons), " · ".join(links)]
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": cut(text)}} for text in sections if text]
    return {"text": escaped(message.subject), "blocks": blocks}


def escaped(text: str) -> str:
    """Words that Slack shows as they are: no link, no mention, no `@channel`."""
    return printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def cut(text: str) -> str:
    """The text as far as Slack takes it, not in the middle of an escaped letter."""
    return text if len(text) <= LONGEST else text[:LONGEST].rpartition(" ")[0] + " …"
