"""The bounds over time, as the segments of a band."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from ml_metrics.charts.axis import drawable, milliseconds, rounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ml_metrics.charts.axis import Axis
    from ml_metrics.model import StoredMetric

SINGLE_RUN_HALF_WIDTH = timedelta(hours=6)
"""Half the width of the band of a metric with a single run."""

Edge = tuple["datetime", float | None, float | None]


def band_of(points: Sequence[StoredMetric], domain: tuple[float, float], axis: Axis) -> dict[str, list[Any]]:
    """Return the columns `at`, `low`, `high`. An open side extends to the chart's edge; nulls separate segments."""
    edges = list(_without_redundant_edges(list(_edges(points, domain, axis))))
    return {
        "at": [milliseconds(at) for at, _, _ in edges],
        "low": [low for _, low, _ in edges],
        "high": [high for _, _, high in edges],
    }


def _edges(points: Sequence[StoredMetric], domain: tuple[float, float], axis: Axis) -> Iterator[Edge]:
    bounded = [point.lower is not None or point.upper is not None for point in points]
    reach = _half_gap(points)
    for index, point in enumerate(points):
        if not bounded[index]:
            continue
        starts = index == 0 or not bounded[index - 1]
        ends = index == len(points) - 1 or not bounded[index + 1]
        low = _clipped(point.lower, domain, axis, domain[0])
        high = _clipped(point.upper, domain, axis, domain[1])
        if starts and ends:  # an area needs two sides, however thin
            yield point.timestamp - reach, low, high
            yield point.timestamp + reach, low, high
        else:
            yield point.timestamp, low, high
        if ends:
            yield point.timestamp + reach, None, None


def _clipped(bound: float | None, domain: tuple[float, float], axis: Axis, edge: float) -> float:
    if bound is None or not drawable(bound, axis):
        return edge
    return rounded(min(max(bound, domain[0]), domain[1]))


def _half_gap(points: Sequence[StoredMetric]) -> timedelta:
    gaps = [(after.timestamp - before.timestamp).total_seconds() for before, after in pairwise(points)]
    return timedelta(seconds=median(gaps) / 2) if gaps and median(gaps) else SINGLE_RUN_HALF_WIDTH


def _without_redundant_edges(edges: list[Edge]) -> Iterator[Edge]:
    """Drop points on a horizontal line between two equal neighbours."""
    for index, edge in enumerate(edges):
        inside = 0 < index < len(edges) - 1
        if not (inside and edges[index - 1][1:] == edge[1:] == edges[index + 1][1:]):
            yield edge
