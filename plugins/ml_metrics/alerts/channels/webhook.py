"""Chats that take one JSON document at a secret address: Slack, Mattermost, Microsoft Teams and Google Chat."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar
from urllib.parse import parse_qsl, quote, quote_plus, unquote, unquote_plus, urlencode, urlsplit, urlunsplit

from ml_metrics.alerts.channels.channel import JsonService
from ml_metrics.alerts.message import Message, MessageKind
from ml_metrics.alerts.render import Escape, bullets, cut, fitting, printable, size, units, without_tags
from ml_metrics.store.markers import file_name

MIN_SECRET_LENGTH = 8
"""A shorter path, like `hook`, is not a secret."""
MIN_WORD_LENGTH = 16
"""A shorter part of letters alone, like `services`, is a word, not a secret."""


@dataclass(frozen=True, slots=True)
class Webhook(JsonService):
    """A webhook that accepts Slack's JSON: that of Slack or Mattermost, or your own service."""

    address: str = field(repr=False)
    name: str = "webhook"
    service: ClassVar[str] = "the webhook"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The address and its parts, which allow posting."""
        return secrets_of(self.address)

    def requests(self, message: Message) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
        return f"accepted by {self.service}", [(self.address, self.document(message))]

    def document(self, message: Message) -> dict[str, Any]:
        return slack_blocks(message)


@dataclass(frozen=True, slots=True)
class Teams(Webhook):
    """A workflow of Microsoft Teams ("When a Teams webhook request is received"), which posts a card."""

    name: str = "teams"
    service: ClassVar[str] = "Teams"

    def document(self, message: Message) -> dict[str, Any]:
        return adaptive_card(message)


@dataclass(frozen=True, slots=True)
class GoogleChat(Webhook):
    """A space of Google Chat, which shows a card in the thread of the test."""

    name: str = "google_chat"
    service: ClassVar[str] = "Google Chat"

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*secrets_of(self.address), *secrets_of(self._with()))))

    def requests(self, message: Message) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
        """Chat does not post a message whose `requestId` it knows again."""
        address = self._with(
            messageReplyOption="REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD", requestId=f"ml-metrics-{file_name(message.key)}"
        )
        return f"accepted by {self.service}", [(address, chat_card(message))]

    def _with(self, **more: str) -> str:
        parts = urlsplit(self.address)
        query = dict(parse_qsl(parts.query, keep_blank_values=True)) | more
        return urlunsplit(parts._replace(query=urlencode(query)))


def secrets_of(address: str) -> tuple[str, ...]:
    """The texts that allow posting to a webhook: the address, its path, its query and the keys in them."""
    rest = address.partition("://")[2]
    host, _, whole = rest.partition("/")
    login, _, host = host.rpartition("@")
    path, _, query = whole.partition("?")
    fields = [field.partition("=")[2] or field for field in re.split("[&;#]", query)]
    groups = [rest, whole, path, query, login]
    parts = [*login.split(":"), *host.split("."), *re.split("[/;#]", path), *fields]
    found = [one for one in groups if len(one) >= MIN_SECRET_LENGTH]
    words = re.compile("[A-Za-z]*|[0-9.-]*")
    found += [one for one in parts if len(one) >= (MIN_WORD_LENGTH if words.fullmatch(one) else MIN_SECRET_LENGTH)]
    return tuple(dict.fromkeys([address, *(form for one in found for form in _forms(one))]))


def _forms(part: str) -> list[str]:
    """A part of an address as a service may repeat it: as it is, decoded, encoded, and encoded once more."""
    plain = unquote(part)
    encoded = [quote(plain, safe=""), quote_plus(plain), quote(part, safe=""), quote(plain)]
    lower = [re.sub("%..", lambda code: code[0].lower(), one) for one in encoded]
    return [part, plain, unquote_plus(part), *encoded, *lower]


MAX_BLOCK_LENGTH = 2900
"""Slack rejects a block with more than 3,000 characters."""
MAX_WARNINGS_LENGTH = 900
"""The part of the second block for warnings."""
MENTION = re.compile(r"@(?=(?:all|channel|everyone|here)\b)", re.IGNORECASE)


def slack_blocks(message: Message) -> dict[str, Any]:
    """Headline, problems and links. Notifications, and Mattermost, show `text`."""
    warnings = bullets(message.warnings, limit=MAX_WARNINGS_LENGTH, escape=escaped, noun="warning")
    room = MAX_BLOCK_LENGTH - units("\n".join(warnings)) - 1
    reasons = [*bullets(message.reasons, limit=room, escape=escaped), *warnings]
    links = [
        f"<{fact.link.replace('|', '%7C')}|{cut(fact.name, 60, escape=escaped)}>"
        for fact in fitting(message.links, limit=MAX_BLOCK_LENGTH // 4, most=10)
    ]
    subject = cut(message.subject, MAX_BLOCK_LENGTH, escape=lambda text: escaped(text).replace("*", ""))
    sections = [f"*{subject}*", "\n".join(reasons), " · ".join(links)]
    blocks = [
        # verbatim: names that look like links, channels or people are not made into them
        {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}
        for text in sections
        if text
    ]
    # Mattermost formats it as Markdown
    plain = cut(message.subject, MAX_BLOCK_LENGTH, escape=_without_markdown)
    return {"text": plain, "blocks": blocks}


def escaped(text: str) -> str:
    """Text that Slack shows unchanged, without links and mentions of everybody."""
    return MENTION.sub("@\u200b", printable(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _without_markdown(text: str) -> str:
    return re.sub("@(?!\u200b)", "@\u200b", escaped(text)).replace("](", "] (")


MAX_SUBJECT = 1000
COLORS = {
    MessageKind.RECOVERED: "good",
    MessageKind.WARNING: "warning",
    MessageKind.OVERDUE: "warning",
    **dict.fromkeys((MessageKind.BROKEN, MessageKind.WORSE, MessageKind.MASS), "attention"),
}


def adaptive_card(message: Message) -> dict[str, Any]:
    def escape(text: str) -> str:
        """Without the functions of Adaptive Cards (`{{DATE(...)}}`) and the mentions of Teams (`<at>`)."""
        return re.sub(r"{(?={)", "{ ", printable(text)).replace("<at", "< at")

    def block(text: str, **style: str) -> dict[str, Any]:
        """A paragraph. Unlike in a `TextBlock`, Markdown is not formatted in a `TextRun`."""
        return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}

    subject = cut(message.subject, MAX_SUBJECT, escape=escape, measure=size)
    color = COLORS.get(message.kind, "default")
    lines = _lines(message, escape, reasons=9000, warnings=3000, sentence=1200)  # Teams accepts 28 KB in all
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": subject,
        "msteams": {"width": "Full"},
        "body": [block(subject, size="Medium", weight="Bolder", color=color), *map(block, lines)],
        "actions": [
            {"type": "Action.OpenUrl", "title": title, "url": link} for title, link in _buttons(message, escape)
        ],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def chat_card(message: Message) -> dict[str, Any]:
    """A message of Google Chat with one card. Notifications show `fallbackText`."""

    def escape(text: str) -> str:
        return html.escape(printable(text), quote=False)

    lines = _lines(message, escape, reasons=16_000, warnings=4000, sentence=1600)  # Chat accepts 32,000 bytes in all
    widgets: list[dict[str, Any]] = [{"textParagraph": {"text": line}} for line in lines]
    if buttons := _buttons(message, without_tags):
        shown = [{"text": title, "onClick": {"openLink": {"url": link}}} for title, link in buttons]
        widgets.append({"buttonList": {"buttons": shown}})
    title = cut(message.subject, MAX_SUBJECT, escape=without_tags, measure=size) or "ML Metrics"
    sections = {"sections": [{"widgets": widgets}]} if widgets else {}
    return {
        "fallbackText": title,
        "cardsV2": [{"cardId": "ml-metrics", "card": {"header": {"title": title}, **sections}}],
        "thread": {"threadKey": f"ml-metrics-{file_name(message.test or message.kind)}"},
    }


def _lines(message: Message, escape: Escape, *, reasons: int, warnings: int, sentence: int) -> list[str]:
    listed = partial(bullets, longest=sentence, escape=escape, measure=size)
    return [*listed(message.reasons, limit=reasons), *listed(message.warnings, limit=warnings, noun="warning")]


def _buttons(message: Message, escape: Escape) -> list[tuple[str, str]]:
    links = fitting(message.links, limit=6000, most=6, measure=size)  # Teams shows six buttons
    return [(cut(one.name, 200, escape=escape, measure=size) or "link", one.link) for one in links]
