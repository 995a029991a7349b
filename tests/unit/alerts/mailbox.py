"""The mails in the outbox of a deployment."""

from __future__ import annotations

from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

from ml_metrics.core.settings import Settings


def mails() -> list[EmailMessage]:
    """Oldest first."""
    found = sorted(Path(Settings.load().outbox).glob("*.eml"), key=lambda path: path.stat().st_mtime_ns)
    return [message_from_bytes(path.read_bytes(), policy=policy.default) for path in found]


def subjects() -> list[str]:
    return [mail["Subject"] for mail in mails()]


def text_of(mail: EmailMessage, kind: str = "plain") -> str:
    body = mail.get_body((kind,))
    assert body is not None
    return " ".join(str(body.get_content()).split())
