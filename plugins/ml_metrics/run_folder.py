"""The run folder: how the tasks of a run pass files to each other.

`<storage root>/<test>/<run key>/` is the workload's: its event files, logs and metric streams are there. The subfolder
`_ml_metrics/` holds one JSON document from each task. A run can be read, judged and loaded again from this folder
alone.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ml_metrics import storage
from ml_metrics.errors import FileMissingError, UnreadableInputError
from ml_metrics.model import JobStatus, Run, Workload

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTS = "_ml_metrics"
"""The subfolder of the tasks' documents. Collectors skip it."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run, local or in a bucket."""

    path: str
    root: str = field(default="", compare=False)
    """The storage root, below which nothing follows a link; empty if a user named the folder, which is trusted then."""
    limits: storage.ListingLimits = field(default=storage.LIMITS, compare=False)

    @classmethod
    def of(cls, run: Run, storage_root: str) -> RunFolder:
        """Return the folder of a run, which is the same for every task, retry and clear."""
        return cls(storage.join(storage_root, run.test, run.key), storage_root)

    def read(self, document: str) -> dict[str, Any] | None:
        """Return a task's document, or None if the task wrote none. In a bucket this is a single request."""
        path = self.document_path(document)
        try:
            content = json.loads(storage.read_bytes(path))
        except FileMissingError:
            return None
        except ValueError as error:
            raise UnreadableInputError(f"{path}: is not JSON: {error}. Clear the task that writes it.") from error
        if not isinstance(content, dict):
            raise UnreadableInputError(f"{path}: should hold one JSON object. Clear the task that writes it.")
        return content

    def write(self, document: str, content: dict[str, Any]) -> None:
        """Write a task's document, completely or not at all."""
        data = json.dumps(without_non_finite(content), indent=2, allow_nan=False, default=str)
        storage.write_bytes(self.document_path(document), data.encode() + b"\n")

    def remove(self, document: str) -> None:
        """Remove a document that is out of date."""
        storage.remove(self.document_path(document))

    def read_workload(self) -> Workload | None:
        """Return how the workload went, or None if none was started."""
        content = self.read("workload")
        return None if content is None else _workload(content)

    def write_workload(self, workload: Workload) -> None:
        """Record how the workload went."""
        self.write("workload", asdict(workload))

    def start_attempt(self) -> int:
        """Prepare the folder for the workload's next attempt, and return its number.

        Documents about an earlier attempt are removed. The workload's own files stay, so that it can resume from its
        checkpoints; but a run that already succeeded starts from scratch, and its files are moved aside.
        """
        earlier = self.read_workload()
        attempt = earlier.attempts + 1 if earlier else 1
        if earlier and earlier.status is JobStatus.SUCCESS:
            for file in self.files():
                storage.move(file.path, storage.join(self.path, DOCUMENTS, f"attempt-{attempt - 1}", file.name))
        for document in ("metrics", "goodput", "verdicts", "gate"):
            self.remove(document)
        storage.make_folder(self.path)
        return attempt

    def document_path(self, document: str) -> str:
        """Return the path of a document."""
        return storage.join(self.path, DOCUMENTS, f"{document}.json")

    def files(self, on_unreadable: Callable[[str], None] | None = None) -> list[storage.File]:
        """List the workload's files, within limits. `on_unreadable` is called with what is left out, and why."""
        return self._place.files(self._below, on_unreadable, self.limits, skip=DOCUMENTS)

    @property
    def _place(self) -> storage.Folder:
        return storage.Folder(self.root or self.path)

    @property
    def _below(self) -> str:
        return storage.relative(self.root, self.path) if self.root else ""


def _workload(content: dict[str, Any]) -> Workload:
    fields = {name: content[name] for name in Workload.__dataclass_fields__ if name in content}
    for name in ("queued_at", "started_at", "ended_at"):
        if fields.get(name):
            fields[name] = datetime.fromisoformat(fields[name])
    return Workload(**{**fields, "status": JobStatus(content["status"])})


def without_non_finite(content: Any) -> Any:
    """Return the same JSON value with null in place of NaN and the infinities, which JSON does not have."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {key: without_non_finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [without_non_finite(value) for value in content]
    return content
