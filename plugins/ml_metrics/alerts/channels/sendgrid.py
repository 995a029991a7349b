"""SendGrid, through its own client."""

from __future__ import annotations

import base64
import logging
from dataclasses import dataclass, field
from email.utils import parseaddr
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.channels.channel import UndeliveredError
from ml_metrics.alerts.channels.http import rejected, unreachable

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message

HOST = "https://api.sendgrid.com"
SERVICE = "SendGrid"


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
        """The key."""
        return (self.api_key,)

    def send(self, message: Message, timeout: float) -> str:
        """Send the mail. SendGrid answers before delivery and logs rejected recipients itself."""
        from python_http_client.exceptions import HTTPError
        from sendgrid import SendGridAPIClient

        sender = message.sender or self.sender
        if not message.recipients:
            raise UndeliveredError("there are no recipients: set the test's `emails` or the default recipients")
        if not sender:
            raise UndeliveredError("there is no sender: set the connection's `from_email` or the test's `sender`")
        # at DEBUG the client logs its headers, which contain the key
        logging.getLogger("python_http_client").setLevel(logging.INFO)
        service = SendGridAPIClient(api_key=self.api_key, host=self.host)
        service.client.timeout = timeout
        try:
            response = service.client.mail.send.post(request_body=request(message, sender))
        except HTTPError as error:
            raise rejected(SERVICE, error.status_code, dict(error.headers or {}), error.body or b"") from None
        except (OSError, ValueError) as error:
            raise unreachable(SERVICE, error) from None
        return f"accepted by {SERVICE} as {response.headers.get('X-Message-Id', 'a message without id')}"


def request(message: Message, sender: str) -> dict[str, Any]:
    """Return the body for `POST /v3/mail/send`. SendGrid rejects a request that repeats an address."""
    name, address = parseaddr(sender)
    body = {
        "personalizations": [{"to": [{"email": each} for each in dict.fromkeys(message.recipients)]}],
        "from": {"email": address, **({"name": name} if name else {})},
        "subject": message.subject,
        "content": [{"type": "text/plain", "value": message.text}, {"type": "text/html", "value": message.html}],
        "categories": ["ml-metrics", str(message.kind)],
        # no rewritten links and no tracking pixel
        "tracking_settings": {"click_tracking": {"enable": False}, "open_tracking": {"enable": False}},
    }
    pictures = [
        {
            "content": base64.b64encode(picture.png).decode(),
            "type": "image/png",
            "filename": f"{picture.name}.png",
            "disposition": "inline",
            "content_id": picture.name,
        }
        for picture in message.pictures
    ]
    return {**body, "attachments": pictures} if pictures else body
