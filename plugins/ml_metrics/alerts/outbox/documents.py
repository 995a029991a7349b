"""A message that was decided, as a document: everything that a later process needs to record and send it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ml_metrics.alerts.message import Message, MessageKind
from ml_metrics.core.errors import FileMissingError, UnreadableInputError
from ml_metrics.core.values import short_hash
from ml_metrics.store import storage
from ml_metrics.store.documents import DOCUMENTS, SUFFIX, Documents, root_of
from ml_metrics.store.markers import file_name

if TYPE_CHECKING:
    from ml_metrics.alerts.outbox.attempt import Outcome


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IncidentChange:
    """What a message changes about the incident of its test."""

    kind: str
    """`report`: a new incident, or new problems of the open one; `close`: the test has recovered."""
    reasons: tuple[str, ...] = ()
    """The names of the problems."""
    cause: str = ""
    """A cause that several tests may share, for example an image; empty if none is known."""
    incident: str = ""
    """The incident that was open when the message was decided; empty if none was, or if it is unknown."""
    at: str = ""
    """When it was decided, by the clock of the incidents of this test; empty for the time of the message."""
    cost: str = ""
    """The weekly cost of the regression, or `missing` with the reason; empty if no metric is broken."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message, and what recording it changes."""

    message: Message
    deployment: str
    decided_at: datetime
    held_because: str = ""
    """Why it waits for the digest; empty if it is sent at once."""
    incident: IncidentChange | None = None
    summarises: tuple[str, ...] = ()
    """The keys of the held messages that it reports."""

    @property
    def content_hash(self) -> str:
        """A hash of the content of the message, which does not depend on when and from where it is sent."""
        stated = [str(self.message.kind), *map(asdict, (*self.message.reasons, *self.message.warnings))]
        return short_hash(json.dumps(stated))

    def document(self) -> dict[str, Any]:
        return {"version": 1, **_plain(self)}


def from_document(content: Mapping[str, Any], where: str) -> Outgoing:
    """Raises `UnreadableInputError` if the document is damaged or of another version."""
    if content.get("version") != 1:
        raise UnreadableInputError(f"{where}: is a message document of version {content.get('version')!r}, not 1")
    return _converted(content, Outgoing, f"{where}: is a damaged message document")


def _plain(value: Any) -> dict[str, Any]:
    # the hook is for times of a class of another library
    return dict(msgspec.to_builtins(value, enc_hook=datetime.isoformat))


def _converted(content: Any, kind: type[T], damaged: str, advice: str = "") -> T:
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise UnreadableInputError(f"{damaged}: {error}{advice}") from error


SENT, ATTEMPT = ".sent", ".attempt.sent"
"""The ends of the names of the record of deliveries, and of the record of its writer's attempt."""


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
        return cls(storage.join(run_folder, DOCUMENTS, "messages"))

    @classmethod
    def of_deployment(cls, storage_root: str, deployment: str) -> MessageFolder:
        return cls(storage.join(storage_root, DOCUMENTS, "messages", file_name(deployment)))

    def names(self) -> list[str]:
        """The names of the messages that this deployment wrote, oldest first."""
        documents = self._documents
        return [one for one in documents.names() if not one.endswith(SENT) and documents.exists(one)]

    def document_path(self, name: str) -> str:
        return storage.join(self.path, f"{name}{SUFFIX}")

    def create(self, name: str, outgoing: Outgoing) -> bool:
        """Write a document, unless it exists. True in the one process that has written it."""
        return self._documents.create(name, outgoing.document())

    def read(self, name: str) -> Outgoing:
        return from_document(self._documents.read(name), self.document_path(name))

    def sent(self, name: str) -> dict[str, Accepted]:
        try:
            found = self._documents.read(f"{name}{SENT}")
        except FileMissingError:
            return {}
        damaged = f"{self.document_path(f'{name}{SENT}')}: is damaged, or of another version of ML Metrics"
        advice = ". Remove it, and the message is sent again on every channel"
        return _converted(found, dict[str, Accepted], damaged, advice)

    def record_sent(self, name: str, channels: Mapping[str, Accepted]) -> None:
        """Record which channels have accepted a message. Only the process that sends it may call this."""
        self._documents.write(f"{name}{SENT}", _plain(channels))

    def attempt(self, name: str) -> Outcome | None:
        """What the process that wrote a message could not record elsewhere about its attempt to send it."""
        from ml_metrics.alerts.outbox.attempt import Outcome

        try:
            found = self._documents.read(f"{name}{ATTEMPT}")
        except FileMissingError:
            return None
        return _converted(found, Outcome, self.document_path(f"{name}{ATTEMPT}"))

    def record_attempt(self, name: str, outcome: Outcome) -> None:
        """Record the attempt of the process that wrote a message, until a sender has added it to its row."""
        self._documents.write(f"{name}{ATTEMPT}", _plain(outcome))

    @property
    def _documents(self) -> Documents:
        above, _, names = self.path.rpartition(f"/{DOCUMENTS}/")
        if names == "messages":
            return Documents.of_run(above, names, root=root_of(above))  # a run folder may have become a link
        return Documents.of_deployment(above, *names.split("/"))


def run_message_name(outgoing: Outgoing, names: list[str], ended: str = "") -> str:
    """The name of a message about a run, among the names of those that the run already has.

    The same content as in the last message is that message, unless it opened the incident that has `ended`. A run that
    is broken, repeated and passes, and is broken again has three.
    """
    name = f"{outgoing.message.kind}-{outgoing.content_hash}"
    same = [one for one in names if _series(one) == _series(f"-{name}")]
    if same and same[-1].endswith(f"-{name}") and ended != f"{outgoing.message.run_key}-{same[-1]}":
        return same[-1]
    return f"{len(names) + 1:03}-{name}"


def _series(name: str) -> str:
    """Messages that are not alerts do not come between alerts."""
    return next((str(kind) for kind in (MessageKind.OVERDUE, MessageKind.RESULT) if f"-{kind}-" in name), "")
