"""A message as an Internet mail."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime
from typing import TYPE_CHECKING

from ml_metrics.alerts.render import one_line

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message

SENDER = "ML Metrics <ml-metrics@localhost>"
DOMAIN = "ml-metrics.invalid"
"""The domain of message ids, which does not exist."""
SAFE_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
MAX_NAME_LENGTH = 120
LONG_LINES = policy.default.clone(max_line_length=200)
"""Keeps a subject on one line: where Python folds a header, it inserts a space."""


def file_name(key: str) -> str:
    """Return a message's key as a name that every file system, header and comment accepts.

    Two keys never have the same name: one that has to be changed or cut ends with its hash.
    """
    if SAFE_KEY.fullmatch(key) and "--" not in key and len(key) <= MAX_NAME_LENGTH:
        return key
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
    readable = re.sub(r"[^A-Za-z0-9.]+|-+", "-", key)[: MAX_NAME_LENGTH - 33].strip("-.")
    return f"{readable or 'message'}-{digest}"


def message_id(key: str) -> str:
    """Return the id of a mail, the same whenever it is sent: mail programs show one that comes twice once."""
    return f"<{file_name(key)}@{DOMAIN}>"


def as_mail(message: Message, sender: str = "") -> EmailMessage:
    """Return the mail with plain text, HTML and pictures. `sender` is the channel's default."""
    mail = EmailMessage(LONG_LINES)
    mail["Subject"] = message.subject
    mail["From"] = message.sender or sender or SENDER
    mail["To"] = ", ".join(message.recipients) or "undisclosed-recipients:;"
    mail["Date"] = format_datetime(datetime.now(UTC))
    # derived from the key: mail programs show a message that is sent again as the same one
    mail["Message-ID"] = message_id(message.key)
    mail["Auto-Submitted"] = "auto-generated"  # prevents automatic replies
    if message.test:
        mail["X-ML-Metrics-Test"] = one_line(message.test)  # for mail filters
    mail.set_content(_encodable(message.text), cte="quoted-printable")  # no server changes this encoding
    mail.add_alternative(_encodable(message.html), subtype="html", cte="quoted-printable")
    *_, page = mail.iter_parts()
    for picture in message.pictures:
        page.add_related(
            picture.png, "image", "png", cid=f"<{picture.name}>", disposition="inline", filename=f"{picture.name}.png"
        )
    return mail


def _encodable(text: str) -> str:
    """Return the text without halves of characters, which no encoding has."""
    return text.encode(errors="replace").decode()
