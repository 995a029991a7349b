"""Finds lasting changes of the level of a whole series, as people mark them on a chart.

1. Every value becomes a multiple of the series' own noise, with outliers clipped (`noise_units`).
2. Candidates are the cuts of the best division into segments (`segments`).
3. The least certain candidate is removed until every one is at least as certain as asked (`contrast`): without it, its
   neighbours are compared over longer sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.judge.changepoint.contrast import NEAR, WEIGHTS, certainty_of, features
from ml_metrics.judge.changepoint.noise_units import in_noise_units, median
from ml_metrics.judge.changepoint.segments import MIN_RUNS, best_edges

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Place = tuple[int, int, int]

SHIFT = 2
"""How many values of the shortest of segments may be of the level next to it: fewer than half."""


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level between two adjacent segments of a series."""

    index: int
    """The index of the first value of the new level."""
    before: float
    after: float
    """The medians of the values on either side, at most `NEAR` of them."""
    in_noise: float
    """The size of the change as a multiple of the noise. A gap of more than 100 noises without any value counts 100."""
    certainty: float
    """The probability that most people would mark such a place as a change of level, rather than nobody."""

    @property
    def percent(self) -> float:
        """The change in percent of the magnitude of the old level."""
        change = self.after - self.before
        return math.copysign(math.inf, change) if self.before == 0 else change / abs(self.before) * 100


def change_points(values: Sequence[float], *, certainty: float = 0.5, weights: Sequence[float] = WEIGHTS) -> list[Step]:
    """Return the changes of level of a series, in order.

    Args:
        values: finite numbers of any magnitude, oldest first. Fewer than ten have no change of level.
        certainty: what each change should have at least.
        weights: those of the features of a change; a benchmark fits others.
    """
    series = np.asarray(values, dtype=np.float64)
    calm = in_noise_units(series)
    if calm is None:
        return []
    sure = cache(lambda left, edge, right: certainty_of(features(calm, left, edge, right), weights))
    return [_step(series, calm, place, sure(*place)) for place in certain_places(best_edges(calm), sure, certainty)]


def edges_of(values: Sequence[float]) -> list[int]:
    """Return the edges of the best division of a series into segments, both ends included: a quick search.

    Its cuts are candidates, of which `change_points` keeps those that are certain.
    """
    calm = in_noise_units(np.asarray(values, dtype=np.float64))
    return [0, len(values)] if calm is None else best_edges(calm)


def certain_places(edges: Sequence[int], sure: Callable[[int, int, int], float], certainty: float) -> list[Place]:
    """Return the places that remain when the least certain edge is removed until all are certain enough.

    A place is the start of the segment before an edge, the edge, and the end of the segment after it.

    Args:
        edges: of all segments, both ends of the series included.
        sure: returns the certainty of a place.
        certainty: what each place should have at least.
    """
    edges = list(edges)
    while places := list(zip(edges, edges[1:], edges[2:], strict=False)):
        least = min(places, key=lambda place: sure(*place))
        if sure(*least) >= certainty:
            break
        edges.remove(least[1])
    return places


def _step(series: Values, calm: Values, place: Place, certainty: float) -> Step:
    left, _, right = place
    edge = _first_of_new_level(calm, place)
    old, new = slice(max(left, edge - NEAR), edge), slice(edge, min(right, edge + NEAR))
    return Step(
        index=edge,
        before=median(series[old]),
        after=median(series[new]),
        in_noise=abs(median(calm[new]) - median(calm[old])),
        certainty=certainty,
    )


def _first_of_new_level(calm: Values, place: Place) -> int:
    """Return the edge; or a better one within the shortest of segments, which may hold fewer values of its level."""
    left, edge, right = place
    first = edge - SHIFT * (edge - left == MIN_RUNS)
    last = edge + SHIFT * (right - edge == MIN_RUNS)
    before, after = median(calm[max(left, edge - NEAR) : edge]), median(calm[edge : min(right, edge + NEAR)])
    misfits = np.abs(calm[first:last] - before) - np.abs(calm[first:last] - after)
    return first + int(np.concatenate(([0.0], np.cumsum(misfits))).argmin())
