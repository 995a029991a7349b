"""A message in the form that mail programs and mail servers share."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import one_line

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message

SENDER = "ML Metrics <ml-metrics@localhost>"
DOMAIN = "ml-metrics.invalid"
"""For message ids. It leads nowhere."""
LINES = policy.default.clone(max_line_length=200)
"""A subject of ours stays on one line: where Python folds it, it puts a space before its first word."""


def file_name(key: str) -> str:
    """The key of a message as a name that every file system and every header takes."""
    return re.sub(r"[^A-Za-z0-9.-]", "-", key)[:120].lstrip(".") or "message"


def as_mail(message: Message, sender: str = "") -> EmailMessage:
    """The mail: plain text, the same as HTML, and the HTML's pictures. `sender` is the channel's own."""
    mail = EmailMessage(LINES)
    mail["Subject"] = message.subject
    mail["From"] = message.sender or sender or SENDER
    mail["To"] = ", ".join(message.recipients) or "undisclosed-recipients:;"
    mail["Date"] = format_datetime(datetime.now(UTC))
    mail["Message-ID"] = f"<{file_name(message.key)}@{DOMAIN}>"
    mail["Auto-Submitted"] = "auto-generated"  # so that no holiday answers come back
    if message.test:
        mail["X-ML-Metrics-Test"] = one_line(message.test)  # by which people sort their mail
    mail.set_content(message.text, cte="quoted-printable")  # which any server passes on as it is
    mail.add_alternative(message.html, subtype="html", cte="quoted-printable")
    *_, page = mail.iter_parts()
    for picture in message.pictures:
        page.add_related(
            picture.png, "image", "png", cid=f"<{picture.name}>", disposition="inline", filename=f"{picture.name}.png"
        )
    return mail
