"""The result of collecting a run, and its document `metrics.json`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from ml_metrics.errors import UnreadableInputError
from ml_metrics.model import Metric


@dataclass(frozen=True, slots=True)
class Collected:
    """The metrics of one run."""

    metrics: tuple[Metric, ...]
    warnings: tuple[str, ...] = ()
    files: int = 0
    """The number of files that were read."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Text that describes the run, for example TensorBoard's text summaries."""
    missing: dict[str, str] = field(default_factory=dict)
    """By name: why the run lacks a metric that the config requires."""

    def document(self) -> dict[str, Any]:
        """Return the document that is stored and printed."""
        return {
            "metrics": [asdict(metric) for metric in self.metrics],
            "warnings": list(self.warnings),
            "files": self.files,
            "metadata": dict(self.metadata),
            "missing": dict(self.missing),
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """Restore the result from its document. A value of null becomes NaN."""
        try:
            metrics = tuple(
                Metric(**{**metric, "value": math.nan if metric["value"] is None else metric["value"]})
                for metric in document["metrics"]
            )
            return cls(
                metrics,
                tuple(document.get("warnings", ())),
                document.get("files", 0),
                document.get("metadata", {}),
                document.get("missing", {}),
            )
        except (KeyError, TypeError) as error:
            raise UnreadableInputError(
                f"this is not a document of collected metrics ({error}). Collect the run again."
            ) from error
