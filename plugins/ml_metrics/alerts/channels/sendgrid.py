"""SendGrid: its package makes the request, and our client sends it, since its own follows redirects with the key."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from email.utils import parseaddr
from typing import Any

from ml_metrics.alerts.channels.mail import fitted, message_id
from ml_metrics.alerts.message import Message
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.core.http import send_json

HOST = "https://api.sendgrid.com"
SERVICE = "SendGrid"
MAX_BYTES = 20 << 20
"""SendGrid accepts 30 MB with all attachments, and many mail servers 25 MB."""


@dataclass(frozen=True, slots=True)
class SendGrid:
    """An account at SendGrid."""

    api_key: str = field(repr=False)
    sender: str = ""
    """The sender of mails that have none: an address that SendGrid has verified."""
    host: str = HOST
    """Accounts in the European Union have another host."""
    name: str = "sendgrid"

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.api_key,)

    def send(self, message: Message, timeout: float) -> str:
        """Send the mail. SendGrid answers before delivery and logs rejected recipients itself."""
        sender = message.sender or self.sender
        if not message.recipients:
            raise UndeliveredError("there are no recipients: set the test's `emails` or the default recipients")
        if not sender:
            raise UndeliveredError("there is no sender: set the connection's `from_email` or the test's `sender`")
        answer = send_json(
            "POST",
            f"{self.host}/v3/mail/send",
            service=SERVICE,
            timeout=timeout,
            body=request(fitted(message, MAX_BYTES), sender),
            headers={"Authorization": f"Bearer {self.api_key}"},
            secrets=self.secrets,
        )
        return f"accepted by {SERVICE} as {answer.headers.get('x-message-id', 'a message without id')}"


def request(message: Message, sender: str) -> dict[str, Any]:
    """The body for `POST /v3/mail/send`. SendGrid rejects a request that repeats an address."""
    from sendgrid.helpers import mail as parts

    name, address = parseaddr(sender)
    to = parts.Personalization()
    for recipient in dict.fromkeys(message.recipients):
        to.add_to(parts.To(recipient))
    body = parts.Mail()
    body.from_email = parts.From(address, name or None)
    body.subject = message.subject
    body.add_personalization(to)
    body.add_content(parts.Content("text/plain", message.text))
    body.add_content(parts.Content("text/html", message.html))
    body.add_header(parts.Header("Message-ID", message_id(message.key)))
    for category in ("ml-metrics", str(message.kind)):
        body.add_category(parts.Category(category))
    # no rewritten links and no tracking pixel
    body.tracking_settings = parts.TrackingSettings(
        click_tracking=parts.ClickTracking(enable=False), open_tracking=parts.OpenTracking(enable=False)
    )
    for picture in message.pictures:
        attached = parts.Attachment(
            parts.FileContent(base64.b64encode(picture.png).decode()),
            parts.FileName(f"{picture.name}.png"),
            parts.FileType("image/png"),
            parts.Disposition("inline"),
            parts.ContentId(picture.name),
        )
        body.add_attachment(attached)
    return dict(body.get())
