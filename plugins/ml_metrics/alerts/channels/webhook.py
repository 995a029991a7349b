"""A webhook that accepts Slack's JSON: Slack, Mattermost, or your own service."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from ml_metrics.alerts.render import bullets, cut, fitting, printable, units
from ml_metrics.core.http import send_json

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message


MAX_BLOCK_LENGTH = 2900
"""Slack rejects a block with more than 3,000 characters."""
MAX_WARNINGS_LENGTH = 900
"""The part of the second block for warnings."""
MAX_LINKS, MAX_LINK_NAME = 10, 60
MIN_SECRET_LENGTH = 8
"""A shorter path, like `hook`, is not a secret."""
MIN_WORD_LENGTH = 16
"""A shorter part of letters alone, like `services`, is a word, not a secret."""
MENTION = re.compile(r"@(?=(?:all|channel|everyone|here)\b)", re.IGNORECASE)


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
    rest = address.partition("://")[2]
    host, _, whole = rest.partition("/")
    login, _, host = host.rpartition("@")
    path, _, query = whole.partition("?")
    fields = [field.partition("=")[2] or field for field in re.split("[&;#]", query)]
    groups = [rest, whole, path, query, login]
    parts = [*login.split(":"), *host.split("."), *re.split("[/;#]", path), *fields]
    found = [one for one in groups if len(one) >= MIN_SECRET_LENGTH] + [one for one in parts if _is_key(one)]
    return tuple(dict.fromkeys([address, *(form for one in found for form in _forms(one))]))


def _is_key(part: str) -> bool:
    return len(part) >= (MIN_WORD_LENGTH if re.fullmatch("[A-Za-z]*|[0-9.-]*", part) else MIN_SECRET_LENGTH)


def _forms(part: str) -> list[str]:
    """Return a part of an address as a service may repeat it: as it is, decoded, encoded, and encoded once more."""
    plain = unquote(part)
    encoded = [quote(plain, safe=""), quote_plus(plain), quote(part, safe=""), quote(plain)]
    lower = [re.sub("%..", lambda code: code[0].lower(), one) for one in encoded]
    return [part, plain, unquote_plus(part), *encoded, *lower]


def payload(message: Message) -> dict[str, Any]:
    """Return Slack blocks with headline, problems and links. Notifications, and Mattermost, show `text`."""
    warnings = bullets(message.warnings, limit=MAX_WARNINGS_LENGTH, escape=escaped, more="more warnings")
    room = MAX_BLOCK_LENGTH - units("\n".join(warnings)) - 1
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
    """Return text that Slack shows unchanged, without links and mentions of everybody."""
    return MENTION.sub("@\u200b", printable(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _without_mentions(text: str) -> str:
    """Return text without the mentions and links of Mattermost, which formats it as Markdown."""
    return re.sub("@(?!\u200b)", "@\u200b", escaped(text)).replace("](", "] (")
