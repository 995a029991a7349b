"""The metric that a run is mainly about, and how far a value is beyond its bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ml_metrics.model import BROKEN, Bounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ml_metrics.judge.reference import Reference
    from ml_metrics.model import StoredMetric


def main_metric(rows: Iterable[StoredMetric], references: Mapping[str, Reference]) -> StoredMetric | None:
    """Return the metric that a run is mainly about; None if it broke no condition and no level got worse.

    That is the one farthest beyond its bounds, or else the one with a condition whose level got worse most.
    """
    found = list(rows)
    broken = [row for row in found if row.outcome in BROKEN]
    if broken:
        return max(broken, key=_distance)
    worse = {row.metric: _got_worse(row, references.get(row.metric)) for row in found if row.rule}
    return max((row for row in found if worse.get(row.metric)), key=lambda row: worse[row.metric], default=None)


def distance(value: float | None, bounds: Bounds | None, spread: float | None) -> float:
    """Return how far a value is beyond its bounds, in their width, the spread of the baseline, or the bound itself."""
    if bounds is None or value is None:
        return math.inf
    beyond = max(bounds.lower - value, value - bounds.upper)
    bound = bounds.lower if value <= bounds.lower else bounds.upper
    width = bounds.upper - bounds.lower
    unit = width if 0 < width < math.inf else spread or abs(bound)
    return max(0.0, beyond) / unit if unit and math.isfinite(unit) else max(0.0, beyond)


def _distance(row: StoredMetric) -> float:
    lower, upper = (-math.inf if row.lower is None else row.lower), (math.inf if row.upper is None else row.upper)
    return distance(row.value, Bounds(lower, upper) if (row.lower, row.upper) != (None, None) else None, row.spread)


def _got_worse(row: StoredMetric, reference: Reference | None) -> float:
    """Return by how many percent the level got worse; 0 if it did not, or if the better side is unknown."""
    percent = reference.percent(row.value) if reference is not None and reference.since is not None else None
    is_bounded = row.upper is not None, row.lower is not None
    side = {(True, False): 1, (False, True): -1}.get(is_bounded, {"lower": 1, "higher": -1}.get(row.better, 0))
    return max(0.0, (percent or 0.0) * side)
