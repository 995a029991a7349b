"""The run folder: the contract between the tasks of a run.

`<storage root>/<test>/<run key>/` belongs to the workload, which writes its event files, logs and streams there.
Below it, `_ml_metrics/` holds one JSON document from each task. Nothing else is needed to read, judge or load a
run again.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from ml_metrics import storage
from ml_metrics.errors import UnreadableInputError

DOCUMENTS = "_ml_metrics"
"""The sub-folder of the tasks' own documents. Collectors skip it."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's folder, local or in a bucket."""

    place: str

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

    def document(self, name: str) -> str:
        """Where a document lies."""
        return storage.join(self.place, DOCUMENTS, f"{name}.json")

    def files(self) -> list[storage.File]:
        """Every file that the workload wrote."""
        return [file for file in storage.list_files(self.place) if not file.name.startswith(f"{DOCUMENTS}/")]


def without_non_finite(content: Any) -> Any:
    """The same JSON value with null for NaN and infinities, which JSON does not have."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {key: without_non_finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [without_non_finite(value) for value in content]
    return content
