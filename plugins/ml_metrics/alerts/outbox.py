"""The channel of a laptop: each message is a file that a mail program opens."""

from __future__ import annotations

from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics import storage
from ml_metrics.errors import AlertError, StorageError

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message

SENDER = "ML Metrics <ml-metrics@localhost>"


def send(message: Message, outbox: str) -> str:
    """Write a message into the outbox folder, and return its path. The same message twice is one file."""
    path = Path(outbox, f"{message.key}.eml")
    try:
        storage.write_bytes(str(path), as_mail(message, SENDER).as_bytes())
    except StorageError as error:
        raise AlertError(f"the message about `{message.subject}` could not be kept: {error}") from error
    return str(path)


def as_mail(message: Message, sender: str) -> EmailMessage:
    """The message in the form that mail programs and servers share."""
    mail = EmailMessage()
    mail["Subject"] = message.subject
    mail["From"] = sender
    mail["To"] = ", ".join(message.recipients) or "undisclosed-recipients:;"
    mail["Date"] = format_datetime(datetime.now(UTC))
    mail["Message-ID"] = f"<{message.key}@ml-metrics>"
    mail.set_content(message.text)
    mail.add_alternative(message.html, subtype="html")
    return mail
