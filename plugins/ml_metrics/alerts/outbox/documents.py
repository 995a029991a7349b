"""A message that was decided, as a document: everything that a later process needs to record and send it."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.message import Fact, Message, MessageKind, Picture, Reason
from ml_metrics.core.errors import FileMissingError, UnreadableInputError
from ml_metrics.core.values import as_utc, short_hash
from ml_metrics.store import storage
from ml_metrics.store.documents import DOCUMENTS, SUFFIX, Documents, root_of
from ml_metrics.store.markers import file_name

if TYPE_CHECKING:
    from collections.abc import Mapping


VERSION = 1


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

    @property
    def fingerprint(self) -> str:
        """The problems, without the numbers."""
        return short_hash("\n".join(self.reasons))


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

    def with_key(self, key: str) -> Outgoing:
        return replace(self, message=replace(self.message, key=key))

    def document(self) -> dict[str, Any]:
        pictures = [{**asdict(one), "png": base64.b64encode(one.png).decode()} for one in self.message.pictures]
        return {
            "version": VERSION,
            "deployment": self.deployment,
            "decided_at": self.decided_at.isoformat(),
            "held_because": self.held_because,
            "incident": asdict(self.incident) if self.incident else None,
            "summarises": list(self.summarises),
            "message": {**asdict(replace(self.message, pictures=())), "pictures": pictures},
        }


def from_document(content: Mapping[str, Any], where: str) -> Outgoing:
    """Return the message of a document. Raises `UnreadableInputError` if it is damaged or of another version."""
    if content.get("version") != VERSION:
        raise UnreadableInputError(
            f"{where}: is a message document of version {content.get('version')!r}, not {VERSION}"
        )
    try:
        incident = content["incident"]
        return Outgoing(
            message=_message(content["message"]),
            deployment=content["deployment"],
            decided_at=as_utc(datetime.fromisoformat(content["decided_at"])),
            held_because=content["held_because"],
            incident=IncidentChange(**{**incident, "reasons": tuple(incident["reasons"])}) if incident else None,
            summarises=tuple(content["summarises"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableInputError(f"{where}: is a damaged message document: {error!r}") from error


def _message(fields: Mapping[str, Any]) -> Message:
    records: dict[str, Any] = {
        "kind": MessageKind(fields["kind"]),
        "recipients": tuple(fields["recipients"]),
        "pictures": tuple(Picture(**{**one, "png": base64.b64decode(one["png"])}) for one in fields["pictures"]),
        "links": tuple(Fact(**one) for one in fields["links"]),
        "reasons": tuple(Reason(**one) for one in fields["reasons"]),
        "warnings": tuple(Reason(**one) for one in fields["warnings"]),
    }
    return Message(**{**fields, **records})


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
        return storage.join(self.path, f"{name}{SUFFIX}")

    def exists(self, name: str) -> bool:
        return self._documents.exists(name)

    def create(self, name: str, outgoing: Outgoing) -> bool:
        """Write a document, unless it exists. True in the one process that has written it."""
        return self._documents.create(name, outgoing.document())

    def read(self, name: str) -> Outgoing:
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
