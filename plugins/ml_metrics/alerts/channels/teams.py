"""Microsoft Teams, by the webhook of a workflow ("When a Teams webhook request is received"): an Adaptive Card."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.channels.webhook import post, secrets_of
from ml_metrics.alerts.message import MessageKind
from ml_metrics.alerts.render import bullets, cut, fitting, printable, size

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message


COLORS = {MessageKind.RECOVERED: "good", MessageKind.WARNING: "warning", MessageKind.OVERDUE: "warning"}
BAD = frozenset({MessageKind.BROKEN, MessageKind.WORSE, MessageKind.MASS})
MAX_SUBJECT, MAX_REASONS, MAX_WARNINGS, MAX_LINKS_SIZE = 1000, 9000, 3000, 6000
"""In bytes: Teams accepts 28 KB in all."""
MAX_SENTENCE = 1200
MAX_LINKS, MAX_LINK_NAME = 6, 200
"""Teams shows six buttons."""


@dataclass(frozen=True, slots=True)
class Teams:
    """A workflow that posts into a channel or chat. Its address is a secret."""

    address: str = field(repr=False)
    name: str = "teams"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The address and its parts, which allow posting."""
        return secrets_of(self.address)

    def send(self, message: Message, timeout: float) -> str:
        """Post the message as a card."""
        return post(self.address, payload(message), "Teams", timeout)


def payload(message: Message) -> dict[str, Any]:
    """Return a message with one Adaptive Card."""
    subject = cut(message.subject, MAX_SUBJECT, escape=_shown, measure=size)
    color = "attention" if message.kind in BAD else COLORS.get(message.kind, "default")
    listed = partial(bullets, longest=MAX_SENTENCE, escape=_shown, measure=size)
    lines = [
        *listed(message.reasons, limit=MAX_REASONS),
        *listed(message.warnings, limit=MAX_WARNINGS, more="more warnings"),
    ]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": subject,
        "msteams": {"width": "Full"},
        "body": [
            _block(subject, size="Medium", weight="Bolder", color=color),
            *(_block(line) for line in lines),
        ],
        "actions": [
            {
                "type": "Action.OpenUrl",
                "title": cut(fact.name, MAX_LINK_NAME, escape=_shown, measure=size) or "link",
                "url": fact.link,
            }
            for fact in fitting(message.links, limit=MAX_LINKS_SIZE, most=MAX_LINKS, measure=size)
        ],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _block(text: str, **style: str) -> dict[str, Any]:
    """Return a paragraph. Unlike in a `TextBlock`, Markdown is not formatted in a `TextRun`."""
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}


def _shown(text: str) -> str:
    """Return text without the functions of Adaptive Cards (`{{DATE(...)}}`) and the mentions of Teams (`<at>`)."""
    return printable(text).replace("{{", "{ {").replace("<at", "< at")
