"""A folder of mail files: a channel for one machine, and the place for messages that a channel did not accept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.alerts.mail import as_mail
from ml_metrics.core.deadline import within
from ml_metrics.core.errors import StorageError, UndeliveredError
from ml_metrics.store import storage
from ml_metrics.store.markers import file_name

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message


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
