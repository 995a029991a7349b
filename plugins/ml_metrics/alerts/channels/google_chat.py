"""Google Chat, by the incoming webhook of a space: a card in the thread of the test."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ml_metrics.alerts.channels.webhook import post, secrets_of
from ml_metrics.alerts.render import bullets, cut, fitting, printable, size, without_tags
from ml_metrics.store.markers import file_name

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message


MAX_SUBJECT, MAX_REASONS, MAX_WARNINGS, MAX_LINKS_SIZE = 1000, 12_000, 4000, 6000
"""In bytes: Chat accepts 32,000 in all."""
MAX_SENTENCE = 1600
MAX_LINKS, MAX_LINK_NAME = 6, 200


@dataclass(frozen=True, slots=True)
class GoogleChat:
    """The webhook of a space. Its address is a secret."""

    address: str = field(repr=False)
    name: str = "google_chat"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The address and its parts, which allow posting."""
        return secrets_of(self.address)

    def send(self, message: Message, timeout: float) -> str:
        """Post the message. Chat does not post one whose `requestId` it knows again."""
        parts = urlsplit(self.address)
        added = {
            "messageReplyOption": "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD",
            "requestId": f"ml-metrics-{file_name(message.key)}",
        }
        query = {**dict(parse_qsl(parts.query, keep_blank_values=True)), **added}
        return post(urlunsplit(parts._replace(query=urlencode(query))), payload(message), "Google Chat", timeout)


def payload(message: Message) -> dict[str, Any]:
    """Return a message with one card. Notifications show `fallbackText`."""
    listed = partial(bullets, longest=MAX_SENTENCE, escape=_in_card, measure=size)
    lines = [
        *listed(message.reasons, limit=MAX_REASONS),
        *listed(message.warnings, limit=MAX_WARNINGS, more="more warnings"),
    ]
    buttons = [
        {
            "text": cut(fact.name, MAX_LINK_NAME, escape=without_tags, measure=size) or "link",
            "onClick": {"openLink": {"url": fact.link}},
        }
        for fact in fitting(message.links, limit=MAX_LINKS_SIZE, most=MAX_LINKS, measure=size)
    ]
    widgets: list[dict[str, Any]] = [{"textParagraph": {"text": line}} for line in lines]
    if buttons:
        widgets.append({"buttonList": {"buttons": buttons}})
    title = cut(message.subject, MAX_SUBJECT, escape=without_tags, measure=size) or "ML Metrics"
    card: dict[str, Any] = {"header": {"title": title}}
    if widgets:
        card["sections"] = [{"widgets": widgets}]
    return {
        "fallbackText": title,
        "cardsV2": [{"cardId": "ml-metrics", "card": card}],
        "thread": {"threadKey": f"ml-metrics-{file_name(message.test or message.kind)}"},
    }


def _in_card(text: str) -> str:
    """Return text for a paragraph of a card, which formats HTML."""
    return html.escape(printable(text), quote=False)
