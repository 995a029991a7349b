"""The former search for lasting changes of the level of a series, to compare with.

A change point is significant (`p_value`, for the whole series), large (`min_change_percent`, `min_change`), and lasting
(`min_runs`). A steady slope is not a change of level: each step is tested together with a slope that both sides share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Values = NDArray[np.float64]

NORMAL_MAD = 0.6745
"""The median absolute deviation of a normal distribution with standard deviation 1."""
MAX_SIDE_LENGTH = 30
"""How many values on each side of a step determine its levels: over more values a slope would blur them."""
SPIKE = 4.0
"""A single value that differs from both neighbours by more than this multiple of the noise is a spike."""


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level between two adjacent segments of a series."""

    index: int
    """The index of the first value of the new level."""
    before: float
    after: float
    """The medians of the values on either side, at most `MAX_SIDE_LENGTH` of them."""
    p_value: float
    """The probability that noise alone causes such a step anywhere in the series."""
    runs: int
    """How many values of the shorter segment are on its side of the step."""
    cut: int
    """The index between the segments: up to some values before `index` if noise hides the edge."""

    @property
    def percent(self) -> float:
        """The change in percent of the magnitude of the old level."""
        change = self.after - self.before
        return math.copysign(math.inf, change) if self.before == 0 else change / abs(self.before) * 100


def change_points(
    values: Sequence[float], *, p_value: float, min_change_percent: float, min_runs: int, min_change: float = 0.0
) -> list[Step]:
    """Return the steps of a series that are significant, large and lasting, in order."""
    series = np.asarray(values, dtype=np.float64)
    noise = _noise(series)
    if len(series) < 2 * min_runs or noise == 0:
        return []
    calm = _without_spikes((series - np.median(series)) / noise)
    edges = _best_edges(calm, min_runs)
    step_at = cache(partial(_step, series, calm))  # removing an edge changes only the two steps next to it
    while len(edges) > 2:  # noqa: PLR2004  (both ends are edges)
        steps = [step_at(left, edge, right) for left, edge, right in zip(edges, edges[1:], edges[2:], strict=False)]
        doubtful = [
            step
            for step in steps
            if step.p_value > p_value
            or step.runs < min_runs
            or abs(step.percent) < min_change_percent
            or abs(step.after - step.before) < min_change
        ]
        if not doubtful:
            return steps
        edges.remove(max(doubtful, key=lambda step: (step.p_value, -abs(step.percent))).cut)
    return []


def _noise(series: Values) -> float:
    """Return the standard deviation of the noise, from differences of neighbours: steps and slopes affect few of them.

    If most neighbours are equal, it is the root mean square of the differences.
    """
    if len(series) <= 1:
        return 0.0
    differences = np.diff(series)
    middle = float(np.median(np.abs(differences - np.median(differences)))) / (NORMAL_MAD * math.sqrt(2))
    return middle or float(np.sqrt(np.mean(np.square(differences)) / 2))


def _without_spikes(series: Values) -> Values:
    """Return the series with each spike replaced by the nearer of its neighbours."""
    calm = series.copy()
    before, middle, after = series[:-2], series[1:-1], series[2:]
    above = middle - np.maximum(before, after)
    below = np.minimum(before, after) - middle
    calm[1:-1] = np.where(
        above > SPIKE, np.maximum(before, after), np.where(below > SPIKE, np.minimum(before, after), middle)
    )
    return calm


def _best_edges(series: Values, min_runs: int) -> list[int]:
    """Return the best segmentation, by optimal partitioning of squared errors.

    The penalty of each cut is three times the logarithm of the length, in units of the noise.
    """
    count = len(series)
    penalty = 3 * math.log(count)
    costs = _squared_errors(series) + penalty
    best = np.full(count + 1, np.inf)
    best[0] = -penalty
    cut_before = np.zeros(count + 1, dtype=np.int64)
    for end in range(min_runs, count + 1):
        totals = best[: end - min_runs + 1] + costs[: end - min_runs + 1, end]
        cut_before[end] = cut = int(totals.argmin())
        best[end] = totals[cut]
    edges = [count]
    while edges[-1] > 0:
        edges.append(int(cut_before[edges[-1]]))
    return edges[::-1]


def _squared_errors(series: Values) -> Values:
    """Return the squared error of every segment around its mean, by first index and end index (exclusive)."""
    sums = np.concatenate(([0.0], np.cumsum(series)))
    squares = np.concatenate(([0.0], np.cumsum(np.square(series))))
    sizes = np.maximum(np.arange(len(sums)) - np.arange(len(sums))[:, None], 1)
    errors: Values = squares - squares[:, None] - np.square(sums - sums[:, None]) / sizes
    return errors


def _step(series: Values, calm: Values, left: int, edge: int, right: int) -> Step:
    old, new = series[max(left, edge - MAX_SIDE_LENGTH) : edge], series[edge : min(right, edge + MAX_SIDE_LENGTH)]
    before, after = float(np.median(old)), float(np.median(new))
    new_places = np.flatnonzero(np.abs(new - after) < np.abs(new - before))
    old_runs = np.count_nonzero(np.abs(old - before) <= np.abs(old - after))
    return Step(
        index=edge + int(new_places[0]) if len(new_places) else edge,
        before=before,
        after=after,
        p_value=min(1.0, _jump_p_value(calm[left:right], edge - left) * (len(series) - 1)),
        runs=min(len(new_places), int(old_runs)),
        cut=edge,
    )


def _jump_p_value(series: Values, edge: int) -> float:
    """Return the two-sided p-value of a jump at an index, fitted with a common slope (least squares, Student's t)."""
    count = len(series)
    freedom = count - 3
    if freedom < 1:
        return 1.0
    jumps, values = (_without_slope(each) for each in ((np.arange(count) >= edge).astype(np.float64), series))
    weight = float(jumps @ jumps)
    jump = float(jumps @ values) / weight
    rest = values - jump * jumps
    scale = math.sqrt(float(rest @ rest) / freedom / weight)
    if scale <= 1e-9 * abs(jump):  # no noise
        return 0.0
    return student_tail(abs(jump) / scale, freedom)


def _without_slope(values: Values) -> Values:
    """Return the residuals of a straight line through the values."""
    places = np.arange(len(values)) - (len(values) - 1) / 2
    level = values - float(values.mean())
    rest: Values = level - float(places @ level) / float(places @ places) * places
    return rest


def student_tail(t: float, freedom: int) -> float:
    """Return the two-sided tail probability of Student's t for integer degrees of freedom, as a finite sum.

    The absolute error is about 1e-15, far below usual p-values.
    """
    angle = math.atan2(t, math.sqrt(freedom))
    cosine = math.cos(angle) ** 2
    term, total = 1.0, 0.0
    odd = freedom % 2
    for each in range(freedom // 2):
        total += term
        term *= cosine * (2 * each + 1 + odd) / (2 * each + 2 + odd)
    inside = math.sin(angle) * total
    if odd:
        inside = 2 / math.pi * (angle + math.cos(angle) * inside)
    return max(0.0, 1.0 - inside)
