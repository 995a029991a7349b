"""The results of a run's JSON lines: points for each metric of each sub-run, and how the sub-runs are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.collect.accumulator import Points

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SubRun = tuple[tuple[str, str], ...]
"""The dimensions that tell a sub-run from the others, sorted by name."""


class SubRuns:
    """What the files of a run say.

    Args:
        named_by: The dimensions that tell sub-runs apart; all, if there are none.
    """

    def __init__(self, named_by: Sequence[str] = ()) -> None:
        self.named_by = named_by
        self.points: Points[tuple[str, SubRun, str]] = Points()
        """By folder, sub-run and metric: line number, time and value."""
        self._dimensions: dict[SubRun, Mapping[str, str]] = {}
        """All dimensions of each sub-run, as its last line says them."""

    def sub_run(self, dimensions: Mapping[str, str]) -> SubRun:
        """The sub-run to which lines with these dimensions belong."""
        if self.named_by:
            telling = {name: dimensions[name] for name in self.named_by if name in dimensions}
            found = tuple(sorted(telling.items()))
        else:
            found = tuple(sorted(dimensions.items()))
        self._dimensions[found] = dimensions
        return found

    def labels(self) -> dict[SubRun, str]:
        """The name of each sub-run, as `batch=64,model=a`; empty if there is only one and nothing asks for a name."""
        shared = frozenset() if self.named_by else self._shared()
        return {
            sub_run: ",".join(f"{name}={value}" for name, value in sub_run if (name, value) not in shared)
            for sub_run in self._dimensions
        }

    def metadata(self) -> dict[str, str]:
        """Every dimension: those that all sub-runs share by their own name, the others below that of the sub-run."""
        shared, labels = self._shared(), self.labels()
        return {
            name if (name, value) in shared or not labels[sub_run] else f"{labels[sub_run]}/{name}": value
            for sub_run, dimensions in self._dimensions.items()
            for name, value in dimensions.items()
        }

    def _shared(self) -> frozenset[tuple[str, str]]:
        """The dimensions that have one value in all sub-runs."""
        every = [frozenset(dimensions.items()) for dimensions in self._dimensions.values()]
        return every[0].intersection(*every[1:]) if every else frozenset()
