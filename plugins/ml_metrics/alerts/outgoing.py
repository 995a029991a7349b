"""A message that was decided, as a document: everything that a later process needs to record and send it."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.message import Fact, Message, MessageKind, Picture, Reason
from ml_metrics.errors import UnreadableInputError
from ml_metrics.values import as_utc, short_hash

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
        """Return the same message with another key."""
        return replace(self, message=replace(self.message, key=key))

    def document(self) -> dict[str, Any]:
        """Return the message as a JSON document."""
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
