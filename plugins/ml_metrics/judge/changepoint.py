"""Where the level of a series changes for good.

Three questions stand between noise and a change point: is it significant (`p_value`, for the whole series), is it
large (`min_change_percent`, `min_change`), and did it last (`min_runs`)? A steady slope is no change of level: each
step is tested beside a slope that both sides share.
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
REACH = 30
"""How many values on either side of a step say what the levels are: in a longer stretch a slope would blur them."""
SPIKE = 4.0
"""A single value that stands out so many times the noise from both neighbours is no level."""


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level between two neighbouring stretches of a series."""

    index: int
    """The first value of the new level."""
    before: float
    after: float
    """The medians of the values on either side, at most `REACH` of them."""
    p_value: float
    """How likely noise alone would show such a step anywhere in the series."""
    runs: int
    """How many values of either stretch, whichever has fewer, lie on its side of the step."""
    cut: int
    """Where the stretches meet: up to some values before `index`, where noise hides the edge."""

    @property
    def percent(self) -> float:
        """The change in percent of the size of the old level."""
        change = self.after - self.before
        return math.copysign(math.inf, change) if self.before == 0 else change / abs(self.before) * 100


def change_points(
    values: Sequence[float], *, p_value: float, min_change_percent: float, min_runs: int, min_change: float = 0.0
) -> list[Step]:
    """The steps of a series that are significant, large and lasting, in order."""
    series = np.asarray(values, dtype=np.float64)
    noise = _noise(series)
    if len(series) < 2 * min_runs or noise == 0:
        return []
    calm = _without_spikes((series - np.median(series)) / noise)
    edges = _best_edges(calm, min_runs)
    step_at = cache(partial(_step, series, calm))  # an edge that goes changes its two neighbours and no other step
    while len(edges) > 2:  # noqa: PLR2004  (the two ends are always edges)
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
    """The standard deviation of the noise, from neighbours: a step or a slope moves few of the differences.

    Where most neighbours are equal it is the root mean square of the differences.
    """
    if len(series) <= 1:
        return 0.0
    differences = np.diff(series)
    middle = float(np.median(np.abs(differences - np.median(differences)))) / (NORMAL_MAD * math.sqrt(2))
    return middle or float(np.sqrt(np.mean(np.square(differences)) / 2))


def _without_spikes(series: Values) -> Values:
    """The series with each single value that stands out on one side of both neighbours moved to the nearer of them."""
    calm = series.copy()
    before, middle, after = series[:-2], series[1:-1], series[2:]
    above = middle - np.maximum(before, after)
    below = np.minimum(before, after) - middle
    calm[1:-1] = np.where(
        above > SPIKE, np.maximum(before, after), np.where(below > SPIKE, np.minimum(before, after), middle)
    )
    return calm


def _best_edges(series: Values, min_runs: int) -> list[int]:
    """The cuts that explain the series best, by optimal partitioning of squared errors.

    Each cut has to save the squared error of three times the logarithm of the length, in units of the noise.
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
    """The squared error of every stretch around its own mean: by its first index, and the index after its last."""
    sums = np.concatenate(([0.0], np.cumsum(series)))
    squares = np.concatenate(([0.0], np.cumsum(np.square(series))))
    sizes = np.maximum(np.arange(len(sums)) - np.arange(len(sums))[:, None], 1)
    errors: Values = squares - squares[:, None] - np.square(sums - sums[:, None]) / sizes
    return errors


def _step(series: Values, calm: Values, left: int, edge: int, right: int) -> Step:
    old, new = series[max(left, edge - REACH) : edge], series[edge : min(right, edge + REACH)]
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
    """The two-sided p-value of a jump at an index, beside a slope through both sides (least squares, Student's t)."""
    count = len(series)
    freedom = count - 3
    if freedom < 1:
        return 1.0
    jumps, values = (_without_slope(each) for each in ((np.arange(count) >= edge).astype(np.float64), series))
    weight = float(jumps @ jumps)
    jump = float(jumps @ values) / weight
    rest = values - jump * jumps
    scale = math.sqrt(float(rest @ rest) / freedom / weight)
    if scale <= 1e-9 * abs(jump):  # no noise at all beside the step
        return 0.0
    return student_tail(abs(jump) / scale, freedom)


def _without_slope(values: Values) -> Values:
    """What a straight line through the values leaves of them."""
    places = np.arange(len(values)) - (len(values) - 1) / 2
    level = values - float(values.mean())
    rest: Values = level - float(places @ level) / float(places @ places) * places
    return rest


def student_tail(t: float, freedom: int) -> float:
    """The chance that Student's t is farther from 0 than `t`, for whole degrees of freedom: a finite sum.

    Exact to about 1e-15 absolute, which is enough beside p-values that people choose.
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
