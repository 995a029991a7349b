"""The envelope of past curves, and how far a curve is from it.

At each step of the judged curve, the centre is the median of the past curves there. The spread is that of the distances
of each past curve from the median of the others, which is what a healthy new run would show. It is pooled over
neighbouring steps, so that five runs suffice.

The distance of a run is that of its worst lasting excursion: the greatest median of the distances of a twentieth of the
judged points in a row. One noisy point, or a spike that is shorter than half of that, does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.judge.noise import spread_of_distances

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ml_metrics.config.conditions import Curve
    from ml_metrics.core.model import TagCurve

    Values = NDArray[np.float64]

MIN_POINTS = 5
"""A curve with fewer points in the judged steps is not judged."""
LASTING = 0.05
"""The share of the judged points that an excursion is averaged over."""
WIDE, NARROW = 0.1, 2
"""The neighbours on each side that a spread is pooled over: a share of the points, and a number at least."""
FEW_RUNS = 3.0
"""How much wider the spread of n runs may be than they show, by `FEW_RUNS` / n."""
MANY_POINTS = 1.1
"""How much farther the worst of many points is from the centre than one point."""
ROUNDING = 1e-6
"""The least spread, as a share of the greatest value of the curves: stored values are rounded."""


@dataclass(frozen=True, slots=True, eq=False)
class Envelope:
    """A curve beside the centre and the spread of past curves, at each step that both have."""

    steps: NDArray[np.int64]
    values: Values
    centre: Values
    spread: Values
    scale: float
    """The unit of the values, the centre and the spread, so that none is too great or too small to calculate with."""

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True, slots=True)
class Excursion:
    """The worst lasting distance of a curve from its envelope."""

    index: int
    """The index of a point with this distance."""
    distance: float
    """In spreads; negative if the whole curve is on the better side."""
    first: int
    last: int
    """The indexes between which the curve lasted outside, if it did."""
    short: int
    """The number of points outside that do not last."""


def envelope_of(own: TagCurve, past: Sequence[TagCurve], curve: Curve) -> Envelope:
    """Return a curve beside the envelope of past ones, at the judged steps that at least `min_runs` of them reached."""
    steps = np.array(own.steps, np.int64)
    chosen = steps >= curve.from_step
    if curve.to_step is not None:
        chosen &= steps <= curve.to_step
    steps = steps[chosen]
    scale = max((max(map(abs, each.values), default=0.0) for each in (own, *past)), default=0.0) or 1.0
    curves = np.array([_at(steps, each, scale) for each in past]).reshape(len(past), len(steps))
    values = np.array(own.values, np.float64)[chosen] / scale
    runs = np.count_nonzero(np.isfinite(curves), axis=0)
    covered = runs >= curve.min_runs
    steps, values, curves, runs = steps[covered], values[covered], curves[:, covered], runs[covered]
    if not len(steps):
        return Envelope(steps, values, values, values, scale)
    centre = _median(curves)
    least = np.abs(centre) * (curve.min_change_percent / 100 / curve.within)
    factor = MANY_POINTS + FEW_RUNS / runs
    spread = np.maximum(np.maximum(_spread(curves) * factor, least), ROUNDING)
    return Envelope(steps, values, centre, spread, scale)


def worst_excursion(found: Envelope, side: int, within: float) -> Excursion:
    """Return the worst excursion on a side: 1 above the centre, -1 below it, 0 on either."""
    if side == 0:
        return max((worst_excursion(found, each, within) for each in (1, -1)), key=lambda each: each.distance)
    distances = side * (found.values - found.centre) / found.spread
    length = min(len(found), max(3, round(len(found) * LASTING) | 1))
    windows = np.lib.stride_tricks.sliding_window_view(distances, length)
    medians = np.median(windows, axis=1)
    worst = int(np.argmax(medians))
    index = worst + int(np.argsort(windows[worst], kind="stable")[(length - 1) // 2])
    outside = distances > within
    first = last = index
    if medians[worst] > within:
        left = right = worst
        while left > 0 and medians[left - 1] > within:
            left -= 1
        while right < len(medians) - 1 and medians[right + 1] > within:
            right += 1
        during = np.flatnonzero(outside[left : right + length]) + left
        first, last = int(during[0]), int(during[-1])
    lasting = np.zeros(len(found), bool)
    for start in np.flatnonzero(medians > within):
        lasting[start : start + length] = True
    return Excursion(index, float(distances[index]), first, last, int(np.count_nonzero(outside & ~lasting)))


def _at(steps: NDArray[np.int64], curve: TagCurve, scale: float) -> Values:
    """Return the values of a curve at some steps, in units of `scale`; NaN beyond its ends."""
    values = np.array(curve.values, np.float64) / scale
    return np.interp(steps.astype(np.float64), np.array(curve.steps, np.float64), values, np.nan, np.nan)


def _spread(curves: Values) -> Values:
    """Return the spread at each step."""
    others = np.array([_median(np.delete(curves, run, axis=0)) for run in range(len(curves))])
    distances = np.abs(curves - others)
    points = distances.shape[1]
    wide = max(NARROW, round(points * WIDE))
    return np.array([max(_pooled(distances, at, wide), _pooled(distances, at, NARROW)) for at in range(points)])


def _pooled(distances: Values, at: int, reach: int) -> float:
    pooled = distances[:, max(0, at - reach) : at + reach + 1].ravel()
    return spread_of_distances(np.sort(pooled[np.isfinite(pooled)]).tolist())


def _median(curves: Values) -> Values:
    """Return the median of the curves that reach each step."""
    found = np.nanmedian(curves, axis=0) if np.isnan(curves).any() else np.median(curves, axis=0)
    return np.asarray(found)
