"""SendGrid, through its own client."""

from __future__ import annotations

import base64
import logging
from dataclasses import dataclass, field
from email.utils import parseaddr
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.channels.channel import UndeliveredError
from ml_metrics.alerts.channels.http import no_answer, refusal

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message

HOST = "https://api.sendgrid.com"
SERVICE = "SendGrid"


@dataclass(frozen=True, slots=True)
class SendGrid:
    """An account at SendGrid."""

    api_key: str = field(repr=False)
    sender: str = ""
    """Who mails come from that name no sender: an address that SendGrid has verified."""
    host: str = HOST
    """Another for an account in the European Union."""
    name: str = "sendgrid"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key."""
        return (self.api_key,)

    def send(self, message: Message, timeout: float) -> str:
        """Hand the mail to SendGrid. It answers before it tries the recipients: their refusals are in its own log."""
        from python_http_client.exceptions import HTTPError
        from sendgrid import SendGridAPIClient

        sender = message.sender or self.sender
        if not message.recipients:
            raise UndeliveredError("the test names no `emails`, and there is no address for tests that name none")
        if not sender:
            raise UndeliveredError("nobody to send from: set the connection's `from_email` or the test's `sender`")
        # at the level DEBUG, the client writes its headers, and the key is in them
        logging.getLogger("python_http_client").setLevel(logging.INFO)
        service = SendGridAPIClient(api_key=self.api_key, host=self.host)
        service.client.timeout = timeout
        try:
            answer = service.client.mail.send.post(request_body=request(message, sender))
        except HTTPError as error:
            raise refusal(SERVICE, error.status_code, dict(error.headers or {}), error.body or b"") from None
        except (OSError, ValueError) as error:
            raise no_answer(SERVICE, error) from None
        return f"{SERVICE} took it as {answer.headers.get('X-Message-Id', 'a message without a name')}"


def request(message: Message, sender: str) -> dict[str, Any]:
    """The body of `POST /v3/mail/send`. Each address once, or SendGrid refuses the whole."""
    name, address = parseaddr(sender)
    body = {
        "personalizations": [{"to": [{"email": each} for each in dict.fromkeys(message.recipients)]}],
        "from": {"email": address, **({"name": name} if name else {})},
        "subject": message.subject,
        "content": [{"type": "text/plain", "value": message.text}, {"type": "text/html", "value": message.html}],
        "categories": ["ml-metrics", str(message.occasion)],
        # links stay as they are, and nobody is watched: these mails are for machines' owners
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
