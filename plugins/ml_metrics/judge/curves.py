"""Judges a tag over the steps of a run, by the envelope of the curves of past good runs.

At each step of the judged curve, the centre is the median of the past curves there. The spread is that of the distances
of each past curve from the median of the others, which is what a healthy new run would show. It is pooled over
neighbouring steps, so that five runs suffice.

The distance of a run is that of its worst lasting excursion: the greatest median of the distances of a twentieth of the
judged points in a row. One noisy point, or a spike that is shorter than half of that, does not count.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ml_metrics.config.conditions import Condition, Curve
from ml_metrics.core.model import CURVE_SUFFIX, Bounds, CurveBand, Outcome, TagCurve, Verdict
from ml_metrics.judge.history import EarlierRuns, baseline_of
from ml_metrics.judge.noise import spread_of_distances

Values = NDArray[np.float64]
SIDES = {"lower": 1, "higher": -1}
"""The worse side of a tag, by the direction in which it improves."""


def curve_verdict(verdict: Verdict, condition: Condition, curve: Curve, earlier: EarlierRuns) -> Verdict:
    """Judge the curve of a run by the curves of the good runs before it. The value is 0 as long as they are too few."""
    metric, rows = verdict.metric, baseline_of(verdict.metric, condition, earlier)
    own = earlier.curves.of(earlier.run_key, metric)
    if not isinstance(own, TagCurve):
        return replace(verdict, baseline_points=len(rows), reason="the curve of the run is not known here")
    if bad := _non_finite(own, curve):
        return replace(verdict, outcome=Outcome.NON_FINITE, value=None, baseline_points=len(rows), reason=bad)
    needed = condition.fewest_runs
    enough = len(rows) >= needed
    past = earlier.curves.past(metric, [row.run_key for row in rows]) if enough else []
    verdict = replace(verdict, value=0.0, baseline_points=len(past) if enough else len(rows))
    if not own.steps or own.steps[-1] < curve.from_step:
        last = f"ended at step {own.steps[-1]}" if own.steps else "has no value"
        return replace(verdict, reason=f"the curve {last}, and the condition begins at step {curve.from_step}")
    if len(past) < needed:
        short = f"the curves of {len(past)}" if enough else f"the history has {len(rows)}"
        stored = " are stored" if enough else ""
        return replace(verdict, reason=f"{short} of the {needed} good runs required{stored}")
    return _compared(verdict, own, past, curve)


def _compared(verdict: Verdict, own: TagCurve, past: Sequence[TagCurve], curve: Curve) -> Verdict:
    found = envelope_of(own, past, curve)
    if len(found) < MIN_POINTS:
        few = f"the curve has {len(found)} of the {MIN_POINTS} points required"
        return replace(verdict, reason=f"{few} at steps that {curve.min_runs} good runs reached")
    side = SIDES.get(own.better, 0)
    worst = worst_excursion(found, side, curve.within)
    tag = verdict.metric.removesuffix(CURVE_SUFFIX)
    bounds = Bounds(upper=curve.within, inclusive=True)
    outcome = Outcome.PASS if bounds.contains(worst.distance) else Outcome.FAIL
    excursion = f"; {worst.short} point{'s were' if worst.short > 1 else ' was'} outside for too short a time to count"
    if outcome is Outcome.FAIL:
        excursion = _duration(found, worst)
    elif not worst.short:
        excursion = ""
    reason = f"{_place(tag, found, worst, len(past))}{excursion}{_part(found, own, past, curve)}"
    verdict = replace(verdict, outcome=outcome, value=max(worst.distance, 0.0), bounds=bounds, reason=reason)
    verdict = replace(verdict, band=_band(found, curve.within))
    if side == 0 or outcome is Outcome.FAIL:
        return verdict
    limit = max(8, curve.within)  # as for the values of other metrics
    better = worst_excursion(found, -side, limit)
    if better.distance <= limit:
        return verdict
    place = _place(tag, found, better, len(past))
    return replace(verdict, implausible=True, reason=f"implausibly good: {place}{_duration(found, better)}")


def _band(found: Envelope, within: float) -> CurveBand:
    """The bounds of an envelope, which are within the range of numbers and rounded like curves."""
    widths, greatest = within * found.spread, 0.999 * sys.float_info.max / found.scale
    low, high = (
        [float(f"{min(max(each, -greatest), greatest) * found.scale:.7g}") for each in side.tolist()]
        for side in (found.centre - widths, found.centre + widths)
    )
    return CurveBand(tuple(found.steps.tolist()), tuple(low), tuple(high))


def _non_finite(own: TagCurve, curve: Curve) -> str:
    """How many of the judged points are not finite numbers, and where; empty if all are."""
    end = curve.to_step
    bad = [each for each in own.non_finite if each[1] >= curve.from_step and (end is None or each[0] <= end)]
    if not bad:
        return ""
    count = sum(points for _, _, points in bad)
    first, last = bad[0][0], max(group[1] for group in bad)
    where = f"at step {first}" if first == last else f"from step {first} to {last}"
    return f"{count} point{'s are' if count > 1 else ' is'} not a finite number, {where}"


def _place(tag: str, found: Envelope, worst: Excursion, runs: int) -> str:
    at, scale = worst.index, found.scale
    value, centre, spread = (f"{float(each[at]) * scale:.4g}" for each in (found.values, found.centre, found.spread))
    if value == centre:
        value, centre = (f"{float(each[at]) * scale:.7g}" for each in (found.values, found.centre))
    there = f"the {runs} good runs had {centre} there, give or take {spread}"
    return f"{tag} was {value} at step {found.steps[at]}; {there}"


def _duration(found: Envelope, worst: Excursion) -> str:
    return f" (outside from step {found.steps[worst.first]} to {found.steps[worst.last]})"


def _part(found: Envelope, own: TagCurve, past: Sequence[TagCurve], curve: Curve) -> str:
    """Which part of the curve was compared, if that is not all of it; empty if it is."""
    ends = sorted(each.steps[-1] for each in past)
    usual = ends[(len(ends) - 1) // 2]
    if curve.to_step is not None:
        usual = min(usual, curve.to_step)
    first, last = int(found.steps[0]), int(found.steps[-1])
    if last < 0.9 * usual:
        return f"; compared from step {first} to {last}: good runs go on to step {usual}"
    end = own.steps[-1] if curve.to_step is None else min(own.steps[-1], curve.to_step)
    if last < 0.9 * end:
        return f"; compared from step {first} to {last}: good runs end there, and this one at step {end}"
    return ""


MIN_POINTS = 5
"""A curve with fewer points in the judged steps is not judged."""


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
    """A curve beside the envelope of past ones, at the judged steps that at least `min_runs` of them reached."""
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
    # the worst of many points is farther away than one, and few runs show less than the spread; values are rounded
    spread = np.maximum(np.maximum(_spread(curves) * (1.1 + 3 / runs), least), 1e-6)
    return Envelope(steps, values, centre, spread, scale)


def worst_excursion(found: Envelope, side: int, within: float) -> Excursion:
    """The worst excursion on a side: 1 above the centre, -1 below it, 0 on either."""
    if side == 0:
        return max((worst_excursion(found, each, within) for each in (1, -1)), key=lambda each: each.distance)
    distances = side * (found.values - found.centre) / found.spread
    length = min(len(found), max(3, round(len(found) * 0.05) | 1))
    windows = np.lib.stride_tricks.sliding_window_view(distances, length)
    medians = np.median(windows, axis=1)
    worst = int(np.argmax(medians))
    index = worst + int(np.argsort(windows[worst], kind="stable")[(length - 1) // 2])
    outside = distances > within
    first = last = index
    if medians[worst] > within:
        inside = np.flatnonzero(~(medians > within))
        left = int(max(inside[inside < worst], default=-1)) + 1
        right = int(min(inside[inside > worst], default=len(medians))) - 1
        during = np.flatnonzero(outside[left : right + length]) + left
        first, last = int(during[0]), int(during[-1])
    lasting = np.zeros(len(found), bool)
    for start in np.flatnonzero(medians > within):
        lasting[start : start + length] = True
    return Excursion(index, float(distances[index]), first, last, int(np.count_nonzero(outside & ~lasting)))


def _at(steps: NDArray[np.int64], curve: TagCurve, scale: float) -> Values:
    """The values of a curve, in units of `scale`; NaN beyond its ends."""
    values = np.array(curve.values, np.float64) / scale
    return np.interp(steps.astype(np.float64), np.array(curve.steps, np.float64), values, np.nan, np.nan)


def _spread(curves: Values) -> Values:
    others = np.array([_median(np.delete(curves, run, axis=0)) for run in range(len(curves))])
    distances = np.abs(curves - others)
    points = distances.shape[1]
    wide = max(2, round(points * 0.1))
    return np.array([max(_pooled(distances, at, wide), _pooled(distances, at, 2)) for at in range(points)])


def _pooled(distances: Values, at: int, reach: int) -> float:
    pooled = distances[:, max(0, at - reach) : at + reach + 1].ravel()
    return spread_of_distances(np.sort(pooled[np.isfinite(pooled)]).tolist())


def _median(curves: Values) -> Values:
    return np.asarray(np.nanmedian(curves, axis=0) if np.isnan(curves).any() else np.median(curves, axis=0))
