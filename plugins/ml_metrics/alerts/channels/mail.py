"""A message as an Internet mail, and a folder of such mails.

The folder is a channel for one machine, and the place for messages that a channel did not accept.
"""

from __future__ import annotations

import html
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime

from ml_metrics.alerts.message import Message
from ml_metrics.alerts.render import one_line
from ml_metrics.core.deadline import within
from ml_metrics.core.errors import StorageError, UndeliveredError
from ml_metrics.store import storage
from ml_metrics.store.markers import file_name

SENDER = "ML Metrics <ml-metrics@localhost>"
LONG_LINES = policy.default.clone(max_line_length=200)
"""Keeps a subject on one line: where Python folds a header, it inserts a space."""


def message_id(key: str) -> str:
    """The id of a mail, the same whenever it is sent: mail programs show one that comes twice once."""
    return f"<{file_name(key)}@ml-metrics.invalid>"


def as_mail(message: Message, sender: str = "") -> EmailMessage:
    """The mail with plain text, HTML and pictures. `sender` is the channel's default."""
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
    return text.encode(errors="replace").decode()


OVERHEAD = 8 << 10
"""Headers and boundaries."""
PLAIN = bytes(set(range(ord(" "), 127)) - set(b'="\\'))
"""The bytes that quoted-printable and JSON do not escape."""
GROWTH = 3
"""Quoted-printable writes any other byte as three."""
NOTE = "\n\n… the rest of this message is left out: it is larger than the mail service accepts\n"


def fitted(message: Message, limit: int) -> Message:
    """The message within `limit` bytes of encoded mail: if need be without its pictures, and then with less text."""
    if _size(message) <= limit:
        return message
    bare = replace(message, pictures=())
    if _size(bare) <= limit:
        return bare
    # half for the plain text, half for the page, in which an escaped character has up to six bytes
    room = max(0, limit - OVERHEAD - len(bare.subject) * GROWTH) // (2 * 6 * GROWTH) - len(NOTE.encode())
    beginning = message.text.encode(errors="replace")[: max(0, room)].decode(errors="ignore").rpartition("\n")[0]
    text = beginning + NOTE
    return replace(bare, text=text, html=f"<!DOCTYPE html><pre>{html.escape(text)}</pre>")


def _size(message: Message) -> int:
    """The greatest size that the encoded message may have."""
    found = OVERHEAD + sum(len(picture.png) * 3 // 2 + 1000 for picture in message.pictures)
    for text in (message.subject, message.text, message.html, *message.recipients):
        data = text.encode(errors="replace")
        escaped = len(data.translate(None, PLAIN))
        found += (len(data) - escaped + escaped * GROWTH) * 11 // 10 + 10  # with soft line breaks
    return found


@dataclass(frozen=True, slots=True)
class Outbox:
    """A folder of mail files."""

    folder: str
    name: str = "outbox"
    secrets: tuple[str, ...] = ()

    def send(self, message: Message, timeout: float) -> str:
        """Write the mail and return its path. The same message twice is one file."""
        return within(timeout, "the outbox", lambda _: self._write(message))

    def _write(self, message: Message) -> str:
        path = storage.join(self.folder, f"{file_name(message.key)}.eml")
        try:
            storage.write_bytes(path, as_mail(message).as_bytes())
        except StorageError as error:
            reason = f"the message `{message.subject}` could not be saved: {error}"
            raise UndeliveredError(reason, transient=True) from error
        return path
