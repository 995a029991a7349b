"""The channel of a laptop, and where messages are kept that no other channel took: each a file for a mail program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics import storage
from ml_metrics.alerts.channels.channel import UndeliveredError
from ml_metrics.alerts.mail import as_mail, file_name
from ml_metrics.errors import StorageError

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message


@dataclass(frozen=True, slots=True)
class Outbox:
    """A folder of mails."""

    folder: str
    name: str = "outbox"
    secrets: tuple[str, ...] = ()

    def send(self, message: Message, timeout: float) -> str:  # noqa: ARG002  (a folder has none)
        """Write the mail, and return its path. The same message twice is one file."""
        path = storage.join(self.folder, f"{file_name(message.key)}.eml")
        try:
            storage.write_bytes(path, as_mail(message).as_bytes())
        except StorageError as error:
            raise UndeliveredError(f"the message `{message.subject}` could not be kept: {error}") from error
        return path
