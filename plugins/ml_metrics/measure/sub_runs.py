"""The sub-runs of a run: what their dimensions are, how they are named, and their values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.core.limits import Allowance
from ml_metrics.measure.points import PointFields, Points
from ml_metrics.measure.text import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


SubRun = tuple[tuple[str, str], ...]
"""The dimensions that identify a sub-run, sorted by name."""

PLAIN = frozenset({str, int})
MAX_PLACES = 10_000
MAX_DIMENSIONS = 2_000
"""The characters of all dimensions of a line."""


class SubRuns:
    """All sub-runs of a run.

    Args:
        named_by: The dimensions that identify a sub-run; all dimensions if empty.
        fields: Which fields of a line are its step and its time.
        allowance: How much may be kept.
    """

    def __init__(
        self,
        named_by: Sequence[str] = (),
        fields: PointFields | None = None,
        allowance: Allowance | None = None,
    ) -> None:
        self.named_by = named_by
        self.fields = fields or PointFields()
        self.allowance = allowance or Allowance()
        self.points: Points[tuple[str, SubRun, str]] = Points(self.allowance)
        """By folder, sub-run and metric: step, time and value."""
        self._dimensions: dict[SubRun, Mapping[str, str]] = {}
        """All dimensions of each sub-run, as in its last line."""
        self._places: dict[tuple[Any, ...], _Place] = {}

    def add(self, dimensions: Mapping[str, str]) -> SubRun:
        """Return the sub-run of a line with these dimensions, which replace those of its earlier lines."""
        names = set(self.named_by) or dimensions.keys()
        sub_run = tuple(sorted((name, value) for name, value in dimensions.items() if name in names))
        size = _size(dimensions)
        if size <= MAX_DIMENSIONS and (sub_run in self._dimensions or self._has_room(size)):
            self._dimensions[sub_run] = dimensions
        return sub_run

    def rows_of(self, folder: str, dimensions: dict[str, Any]) -> Callable[[str], list[float] | None]:
        """Return a function from the name of a metric to the list of its rows in this sub-run, None without room."""
        items = (folder, *dimensions.items())
        plain = PLAIN.issuperset(map(type, dimensions.values()))  # others may be equal though their text is not
        place = self._places.get(items) if plain else None
        if place is None:
            texts = {name: text_of(value) for name, value in dimensions.items() if value is not None}
            place = _Place(self.points, folder, self.add(texts), texts)
            if plain and place.sub_run in self._dimensions and len(self._places) < MAX_PLACES:
                self._places[items] = place
        elif self.named_by:
            self._dimensions[place.sub_run] = place.dimensions
        return place.rows_of if place.sub_run in self._dimensions else _no_room

    def _has_room(self, size: int) -> bool:
        return len(self._dimensions) < self.allowance.limits.series and self.allowance.has_text(size)

    def labels(self) -> dict[SubRun, str]:
        """Return each sub-run's name, as `batch=64,model=a`. Without `named_by`, a single sub-run has an empty name."""
        shared = frozenset() if self.named_by else self._shared()
        return {
            sub_run: ",".join(f"{name}={value}" for name, value in sub_run if (name, value) not in shared)
            for sub_run in self._dimensions
        }

    def metadata(self) -> dict[str, str]:
        """Return all dimensions. Those that differ between sub-runs have the sub-run's name as a prefix."""
        shared, labels = self._shared(), self.labels()
        return {
            name if (name, value) in shared or not labels[sub_run] else f"{labels[sub_run]}/{name}": value
            for sub_run, dimensions in self._dimensions.items()
            for name, value in dimensions.items()
        }

    def _shared(self) -> frozenset[tuple[str, str]]:
        """Return the dimensions that have the same value in all sub-runs."""
        every = iter(self._dimensions.values())
        shared = dict(next(every, {}))
        for dimensions in every:
            for name in [name for name, value in shared.items() if dimensions.get(name) != value]:
                del shared[name]
            if not shared:
                break
        return frozenset(shared.items())


def _size(dimensions: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in dimensions.items())


def _no_room(_metric: str) -> None:
    """Stand in for a sub-run that is not kept."""


@dataclass(slots=True)
class _Place:
    """One sub-run in one folder."""

    points: Points[tuple[str, SubRun, str]]
    folder: str
    sub_run: SubRun
    dimensions: Mapping[str, str]
    rows: dict[str, list[float]] = field(default_factory=dict)

    def rows_of(self, metric: str) -> list[float] | None:
        """Return the list of a metric's rows, or None if there is no room for another metric."""
        rows = self.rows.get(metric)
        if rows is None:
            rows = self.points.rows_of((self.folder, self.sub_run, metric))
            if rows is not None:
                self.rows[metric] = rows
        return rows
