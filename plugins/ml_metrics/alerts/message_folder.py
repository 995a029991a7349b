"""Where message documents are: in the folder of their run, or in one of the deployment for messages without a run.

A document is written once, before its message is sent, by exactly one process: that process may send it at once.
Beside it, `<name>.sent.json` holds which channels have accepted the message, and `<name>.attempt.sent.json` the attempt
of that process if the warehouse was down.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics import storage
from ml_metrics.alerts.mail import file_name
from ml_metrics.alerts.message import MessageKind
from ml_metrics.alerts.outgoing import from_document
from ml_metrics.documents import DOCUMENTS, SUFFIX, Documents, root_of
from ml_metrics.errors import FileMissingError, UnreadableInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.alerts.outgoing import Outgoing

MESSAGES = "messages"
SENT = ".sent"
"""The end of the name of the record of deliveries."""
ATTEMPT = f".attempt{SENT}"
"""The end of the name of the record of its writer's attempt. It ends so that older versions do not take it for a
message."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A channel has accepted a message."""

    detail: str
    """What it answered."""
    remaining: tuple[str, ...] = ()
    """The recipients for whom it did not accept the message; empty if it did for all."""


@dataclass(frozen=True, slots=True)
class MessageFolder:
    """A folder of message documents."""

    path: str

    @classmethod
    def of_run(cls, run_folder: str) -> MessageFolder:
        """Return the folder of the messages about one run."""
        return cls(storage.join(run_folder, DOCUMENTS, MESSAGES))

    @classmethod
    def of_deployment(cls, storage_root: str, deployment: str) -> MessageFolder:
        """Return the folder of the messages that are not about one run."""
        return cls(storage.join(storage_root, DOCUMENTS, MESSAGES, file_name(deployment)))

    def names(self) -> list[str]:
        """Return the names of the messages that this deployment wrote, oldest first."""
        documents = self._documents
        return [one for one in documents.names() if not one.endswith(SENT) and documents.exists(one)]

    def document_path(self, name: str) -> str:
        """Return the path of a document."""
        return storage.join(self.path, f"{name}{SUFFIX}")

    def exists(self, name: str) -> bool:
        """Whether there is a document with this name."""
        return self._documents.exists(name)

    def create(self, name: str, outgoing: Outgoing) -> bool:
        """Write a document, unless it exists. True in the one process that has written it."""
        return self._documents.create(name, outgoing.document())

    def read(self, name: str) -> Outgoing:
        """Return the message of a document."""
        return from_document(self._documents.read(name), self.document_path(name))

    def sent(self, name: str) -> dict[str, Accepted]:
        """Return the answers of the channels that have accepted a message, by channel."""
        path = self.document_path(f"{name}{SENT}")
        try:
            sent = self._documents.read(f"{name}{SENT}")
            return {channel: Accepted(one["detail"], tuple(one["remaining"])) for channel, one in sent.items()}
        except FileMissingError:
            return {}
        except (KeyError, TypeError) as error:
            raise UnreadableInputError(
                f"{path}: is damaged, or of another version of ML Metrics: {error!r}. Remove it, and the message is "
                "sent again on every channel"
            ) from error

    def record_sent(self, name: str, channels: Mapping[str, Accepted]) -> None:
        """Record which channels have accepted a message. Only the process that sends it may call this."""
        self._documents.write(f"{name}{SENT}", {channel: asdict(one) for channel, one in channels.items()})

    def attempt(self, name: str) -> dict[str, Any] | None:
        """Return what the process that wrote a message could not record elsewhere about its attempt to send it."""
        try:
            return self._documents.read(f"{name}{ATTEMPT}")
        except FileMissingError:
            return None

    def record_attempt(self, name: str, outcome: Mapping[str, Any]) -> None:
        """Record the attempt of the process that wrote a message, until a sender has added it to its row."""
        self._documents.write(f"{name}{ATTEMPT}", outcome)

    @property
    def _documents(self) -> Documents:
        above, _, names = self.path.rpartition(f"/{DOCUMENTS}/")
        if names == MESSAGES:
            return Documents.of_run(above, names, root=root_of(above))  # a run folder may have become a link
        return Documents.of_deployment(above, *names.split("/"))


def run_message_name(outgoing: Outgoing, names: list[str], ended: str = "") -> str:
    """Return the name of a message about a run, among the names of those that the run already has.

    The same content as in the last message is that message, unless it opened the incident that has `ended`. A run that
    is broken, repeated and passes, and is broken again has three.
    """
    kind = outgoing.message.kind
    name = f"{kind}-{outgoing.content_hash}"
    same = [one for one in names if _series(one) == _series(f"-{name}")]
    if same and same[-1].endswith(f"-{name}") and ended != f"{outgoing.message.run_key}-{same[-1]}":
        return same[-1]
    return f"{len(names) + 1:03}-{name}"


def _series(name: str) -> str:
    """Return the messages of a run that form one sequence: messages that are not alerts do not come between alerts."""
    return next((str(kind) for kind in (MessageKind.OVERDUE, MessageKind.RESULT) if f"-{kind}-" in name), "")
