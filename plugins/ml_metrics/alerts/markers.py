"""Markers name the folders whose messages may not be in the warehouse yet.

A marker is written before the message that it names, and removed when the warehouse has it. So a sender finds the
messages of a run whose process was killed, or whose warehouse was down, without reading every run folder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from ml_metrics import storage
from ml_metrics.alerts.mail import file_name
from ml_metrics.errors import FileMissingError
from ml_metrics.run_folder import DOCUMENTS
from ml_metrics.values import as_utc

PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Marker:
    """A folder to look at."""

    name: str
    run_folder: str
    """Set in the marker of a gate that may be deciding now; else empty."""
    messages: str
    """The folder of the messages."""
    document: str
    """The name of the message; empty in the marker of a gate."""
    at: datetime


@dataclass(frozen=True, slots=True)
class Markers:
    """The markers of one deployment."""

    path: str

    @classmethod
    def of(cls, storage_root: str, deployment: str) -> Markers:
        """Return the markers of a deployment."""
        return cls(storage.join(storage_root, DOCUMENTS, PENDING, file_name(deployment)))

    def add(self, name: str, *, messages: str, run_folder: str = "", document: str = "") -> None:
        """Write a marker."""
        content = {"run_folder": run_folder, "messages": messages, "document": document}
        data = json.dumps({**content, "at": datetime.now(UTC).isoformat()}).encode()
        storage.write_bytes(self._path(name), data)

    def remove(self, name: str) -> None:
        """Remove a marker, if it is there."""
        storage.remove(self._path(name))

    def all(self) -> list[Marker]:
        """Return every marker. One that was removed meanwhile, or is damaged, is left out."""
        names = [file.name.removesuffix(".json") for file in storage.list_files(self.path)]
        return [marker for name in names if (marker := self._read(name)) is not None]

    def _path(self, name: str) -> str:
        return storage.join(self.path, f"{file_name(name)}.json")

    def _read(self, name: str) -> Marker | None:
        try:
            content = json.loads(storage.read_bytes(self._path(name)))
            return Marker(name, **{**content, "at": as_utc(datetime.fromisoformat(content["at"]))})
        except (FileMissingError, ValueError, TypeError, KeyError):
            return None
