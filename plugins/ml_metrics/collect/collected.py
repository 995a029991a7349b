"""What was collected from one run, and the document that holds it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from ml_metrics.errors import UnreadableInputError
from ml_metrics.model import Metric, TagCurve

STEP_TIMES = "step_times"
"""The strategy of step times that follow from the wall times of points. Those of the goodput recorder count before."""


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
    notes: tuple[str, ...] = ()
    """What was done with the points that a reader should know, such as the warm-up that was left out."""
    curves: dict[str, TagCurve] = field(default_factory=dict)
    """The curves that are judged, by tag."""
    mixed: dict[str, str] = field(default_factory=dict)
    """By name of a metric that aggregates several series: which ones, for the reason of its verdict."""

    def document(self) -> dict[str, Any]:
        """Return the document that is stored and printed."""
        document = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        curves = {tag: curve.document() for tag, curve in self.curves.items()}
        present = {"curves": curves, "mixed": self.mixed}
        return {name: value for name, value in (document | present).items() if value or name not in present}

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
                tuple(document.get("notes", ())),
                {tag: TagCurve.from_document(tag, curve) for tag, curve in document.get("curves", {}).items()},
                document.get("mixed", {}),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UnreadableInputError(
                f"this is not a document of collected metrics ({error}). Collect the run again."
            ) from error
