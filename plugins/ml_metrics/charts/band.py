"""The bounds over time, as the stretches of a band."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from ml_metrics.charts.domain import short, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ml_metrics.charts.points import Axis, Plotted

ALONE = timedelta(hours=6)
"""Half the width of the band of a metric that ran once."""

Edge = tuple["datetime", float | None, float | None]


def band_of(points: Sequence[Plotted], domain: tuple[float, float], axis: Axis) -> dict[str, list[Any]]:
    """Columns `at`, `low`, `high`. An open side reaches the edge of the chart; nulls part one stretch from the next."""
    edges = list(_without_middles(list(_edges(points, domain, axis))))
    return {
        "at": [milliseconds(at) for at, _, _ in edges],
        "low": [low for _, low, _ in edges],
        "high": [high for _, _, high in edges],
    }


def milliseconds(moment: datetime) -> int:
    """A moment as Vega counts time."""
    return round(moment.timestamp() * 1000)


def _edges(points: Sequence[Plotted], domain: tuple[float, float], axis: Axis) -> Iterator[Edge]:
    bounded = [point.lower is not None or point.upper is not None for point in points]
    reach = _half_a_gap(points)
    for index, point in enumerate(points):
        if not bounded[index]:
            continue
        starts = index == 0 or not bounded[index - 1]
        ends = index == len(points) - 1 or not bounded[index + 1]
        low = _clipped(point.lower, domain, axis, domain[0])
        high = _clipped(point.upper, domain, axis, domain[1])
        if starts and ends:  # an area needs two sides, however thin
            yield point.at - reach, low, high
            yield point.at + reach, low, high
        else:
            yield point.at, low, high
        if ends:
            yield point.at + reach, None, None


def _clipped(bound: float | None, domain: tuple[float, float], axis: Axis, edge: float) -> float:
    if bound is None or not shown(bound, axis):
        return edge
    return short(min(max(bound, domain[0]), domain[1]))


def _half_a_gap(points: Sequence[Plotted]) -> timedelta:
    gaps = [(after.at - before.at).total_seconds() for before, after in pairwise(points)]
    return timedelta(seconds=median(gaps) / 2) if gaps and median(gaps) else ALONE


def _without_middles(edges: list[Edge]) -> Iterator[Edge]:
    """What lies on a level line between two equal neighbours adds nothing."""
    for index, edge in enumerate(edges):
        inside = 0 < index < len(edges) - 1
        if not (inside and edges[index - 1][1:] == edge[1:] == edges[index + 1][1:]):
            yield edge
