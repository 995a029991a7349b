"""Markers name the folders whose messages may not be in the warehouse yet.

A marker is written before the message that it names, and removed when the warehouse has it. So a sender finds the
messages of a run whose process was killed, or whose warehouse was down, without reading every run folder.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from ml_metrics.core.errors import FileMissingError, MlMetricsError, UnreadableInputError
from ml_metrics.core.text import logger_of
from ml_metrics.core.values import as_utc
from ml_metrics.store import storage
from ml_metrics.store.documents import DOCUMENTS, Documents

log = logger_of(__name__)

PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Marker:
    """A folder to check."""

    name: str
    run_folder: str
    """The folder of a run whose gate may be deciding now; empty in the marker of a message."""
    messages: str
    """The folder of the message; empty in the marker of a run."""
    document: str
    """The name of the message; empty in the marker of a run."""
    at: datetime
    undecided: bool = False
    """Whether the gate has ended, and could not read whether a message is due."""
    gate_is_next: bool = False
    """Whether the gate had not started yet."""


@dataclass(frozen=True, slots=True)
class Markers:
    """The markers of one deployment."""

    path: str

    @classmethod
    def of(cls, storage_root: str, deployment: str) -> Markers:
        return cls(storage.join(storage_root, DOCUMENTS, PENDING, file_name(deployment)))

    def add(self, name: str, *, messages: str, document: str) -> None:
        self._write(name, messages=messages, document=document)

    def add_run(self, name: str, run_folder: str, *, undecided: bool = False, gate_is_next: bool = False) -> None:
        self._write(name, run_folder=run_folder, undecided=undecided, gate_is_next=gate_is_next)

    def remove(self, name: str) -> None:
        self._documents.remove(file_name(name))

    def all(self, on_damaged: Callable[[str], None] = log.error) -> list[Marker]:
        """Return every marker. One that was removed meanwhile is left out.

        `on_damaged` is called with a message for each marker that cannot be read: it stays, because it may name a
        message that nobody has received.
        """
        found = []
        for name in self._documents.names():
            try:
                found.append(self._read(name))
            except FileMissingError:
                continue
            except MlMetricsError as error:
                on_damaged(str(error))
        return found

    @property
    def _documents(self) -> Documents:
        root, _, names = self.path.rpartition(f"/{DOCUMENTS}/")
        return Documents.of_deployment(root, *names.split("/"))

    def _write(self, name: str, **content: str | bool) -> None:
        nothing = {"run_folder": "", "messages": "", "document": ""}
        self._documents.write(file_name(name), {**nothing, **content, "at": datetime.now(UTC).isoformat()})

    def _read(self, name: str) -> Marker:
        path = self._documents.path_of(name)
        content = self._documents.read(name)
        try:
            texts = {key: str(content[key]) for key in ("run_folder", "messages", "document")}
            at = as_utc(datetime.fromisoformat(content["at"]))
            undecided, gate_is_next = (content.get(key) is True for key in ("undecided", "gate_is_next"))
            marker = Marker(name, **texts, at=at, undecided=undecided, gate_is_next=gate_is_next)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise UnreadableInputError(
                f"{path}: is a damaged marker: {error!r}. A message may be waiting in its folder; if none is, remove "
                "the file"
            ) from error
        root = _normal(storage.join(self.path, "..", "..", "..")).rstrip("/")
        for folder in filter(None, (marker.run_folder, marker.messages)):
            if not _normal(folder).startswith(f"{root}/"):  # what a workload wrote there names any folder
                raise UnreadableInputError(f"{path}: names {folder}, which is not in the storage root; remove the file")
        return marker


def _normal(path: str) -> str:
    if storage.is_local(path):
        return posixpath.abspath(storage.local_path(path))
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{posixpath.normpath(rest)}"


MAX_NAME_LENGTH = 120


def file_name(key: str) -> str:
    """A name that every file system, header and comment accepts.

    Two keys never have the same name: one that has to be changed or cut ends with its hash.
    """
    if (
        re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?", key)
        and "--" not in key
        and len(key) <= MAX_NAME_LENGTH
    ):
        return key
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
    readable = re.sub(r"[^A-Za-z0-9.]+|-+", "-", key)[: MAX_NAME_LENGTH - 33].strip("-.")
    return f"{readable or 'message'}-{digest}"
