"""The run folder: the contract between the tasks of a run.

`<storage root>/<test>/<run key>/` belongs to the workload, which writes its event files, logs and streams there.
Below it, `_ml_metrics/` holds one JSON document from each task. Nothing else is needed to read, judge or load a
run again.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ml_metrics import storage
from ml_metrics.errors import UnreadableInputError
from ml_metrics.model import JobStatus, Run, Workload

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTS = "_ml_metrics"
"""The sub-folder of the tasks' own documents. Collectors skip it."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's folder, local or in a bucket."""

    place: str

    @classmethod
    def of(cls, run: Run, storage_root: str) -> RunFolder:
        """The folder of a run: the same for every task, try and clear."""
        return cls(storage.join(storage_root, run.test, run.key))

    def read(self, document: str) -> dict[str, Any] | None:
        """A task's document, or None if that task wrote none."""
        where = self.document(document)
        if not storage.exists(where):
            return None
        try:
            content = json.loads(storage.read_bytes(where))
        except ValueError as error:
            raise UnreadableInputError(f"{where}: is not JSON: {error}. Clear the task that writes it.") from error
        if not isinstance(content, dict):
            raise UnreadableInputError(f"{where}: should hold one JSON object. Clear the task that writes it.")
        return content

    def write(self, document: str, content: dict[str, Any]) -> None:
        """Write a task's document, whole or not at all."""
        data = json.dumps(without_non_finite(content), indent=2, allow_nan=False, default=str)
        storage.write_bytes(self.document(document), data.encode() + b"\n")

    def forget(self, document: str) -> None:
        """Remove a document that is not true any more."""
        storage.remove(self.document(document))

    def read_workload(self) -> Workload | None:
        """How the workload went, or None if it was never asked for."""
        content = self.read("workload")
        return None if content is None else _workload(content)

    def write_workload(self, workload: Workload) -> None:
        """Say how the workload went."""
        self.write("workload", asdict(workload))

    def start_attempt(self) -> int:
        """Make the folder ready for the workload's next attempt, and return its number.

        What later tasks said of an earlier attempt goes. What the workload itself wrote stays, so that it can resume
        from its checkpoints; but a run that already succeeded starts over, and its files move aside.
        """
        earlier = self.read_workload()
        attempt = earlier.attempts + 1 if earlier else 1
        if earlier and earlier.status is JobStatus.SUCCESS:
            for file in self.files():
                storage.move(file.path, storage.join(self.place, DOCUMENTS, f"attempt-{attempt - 1}", file.name))
        for document in ("metrics", "goodput", "verdicts", "gate"):
            self.forget(document)
        storage.make_folder(self.place)
        return attempt

    def document(self, name: str) -> str:
        """Where a document lies."""
        return storage.join(self.place, DOCUMENTS, f"{name}.json")

    def files(self, unreadable: Callable[[str], None] | None = None) -> list[storage.File]:
        """Every file that the workload wrote. `unreadable` hears of folders that cannot be listed."""
        found = storage.list_files(self.place, unreadable) if unreadable else storage.list_files(self.place)
        return [file for file in found if not file.name.startswith(f"{DOCUMENTS}/")]


def _workload(content: dict[str, Any]) -> Workload:
    known = {name: content[name] for name in Workload.__dataclass_fields__ if name in content}
    for name in ("queued_at", "started_at", "ended_at"):
        if known.get(name):
            known[name] = datetime.fromisoformat(known[name])
    return Workload(**{**known, "status": JobStatus(content["status"])})


def without_non_finite(content: Any) -> Any:
    """The same JSON value with null for NaN and infinities, which JSON does not have."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {key: without_non_finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [without_non_finite(value) for value in content]
    return content
