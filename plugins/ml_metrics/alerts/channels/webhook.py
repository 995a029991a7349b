"""A webhook that accepts Slack's JSON: Slack, Mattermost, or your own service."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from ml_metrics.alerts.channels.http import send_json
from ml_metrics.alerts.channels.shorten import bullets, cut, fitting
from ml_metrics.alerts.render import printable

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message

MAX_BLOCK_LENGTH = 2900
"""Slack rejects a block with more than 3,000 characters."""
MAX_WARNINGS_LENGTH = 900
"""The part of the second block for warnings."""
MAX_LINKS, MAX_LINK_NAME = 10, 60
MIN_SECRET_LENGTH = 8
"""A shorter path, like `hook`, is not a secret."""
MIN_KEY_LENGTH = 16
"""A shorter part, like a version, is not a secret."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook, whose address is a secret."""

    address: str = field(repr=False)
    name: str = "webhook"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The address and its path: both allow posting."""
        return secrets_of(self.address)

    def send(self, message: Message, timeout: float) -> str:
        """Post the message."""
        return post(self.address, payload(message), "the webhook", timeout)


def post(address: str, body: Any, service: str, timeout: float) -> str:
    """Post JSON to an address that is a secret itself."""
    send_json("POST", address, service=service, timeout=timeout, body=body, secrets=secrets_of(address))
    return f"accepted by {service}"


def secrets_of(address: str) -> tuple[str, ...]:
    """Return the texts that allow posting to a webhook: the address, its path, its query and the keys in them."""
    whole = address.partition("://")[2].partition("/")[2]
    path, _, query = whole.partition("?")
    paths = [part for part in (whole, path, query) if len(part) >= MIN_SECRET_LENGTH]
    keys = [
        part for part in (*path.split("/"), *(value for _, value in parse_qsl(query))) if len(part) >= MIN_KEY_LENGTH
    ]
    return tuple(dict.fromkeys((address, *paths, *keys)))


def payload(message: Message) -> dict[str, Any]:
    """Return Slack blocks with headline, problems and links. Notifications, and Mattermost, show `text`."""
    warnings = bullets(message.warnings, limit=MAX_WARNINGS_LENGTH, escape=escaped, more="more warnings")
    room = MAX_BLOCK_LENGTH - len("\n".join(warnings)) - 1
    reasons = [*bullets(message.reasons, limit=room, escape=escaped), *warnings]
    links = [
        f"<{fact.link.replace('|', '%7C')}|{cut(fact.name, MAX_LINK_NAME, escape=escaped)}>"
        for fact in fitting(message.links, limit=MAX_BLOCK_LENGTH // 4, most=MAX_LINKS)
    ]
    subject = cut(message.subject, MAX_BLOCK_LENGTH, escape=lambda text: escaped(text).replace("*", ""))
    sections = [f"*{subject}*", "\n".join(reasons), " · ".join(links)]
    blocks = [
        # verbatim: names that look like links, channels or people are not made into them
        {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}
        for text in sections
        if text
    ]
    return {"text": cut(message.subject, MAX_BLOCK_LENGTH, escape=_without_mentions), "blocks": blocks}


def escaped(text: str) -> str:
    """Return text that Slack shows unchanged, without links and mentions."""
    return printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _without_mentions(text: str) -> str:
    """Return text without the mentions and links of Mattermost, which formats it as Markdown."""
    return escaped(text).replace("@", "@\u200b").replace("](", "] (")
