"""Judges a tag over the steps of a run, by the curves of past good runs."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.core.model import CURVE_SUFFIX, Bounds, CurveBand, Outcome
from ml_metrics.judge.baseline import baseline_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.config.conditions import Condition, Curve
    from ml_metrics.core.model import TagCurve, Verdict
    from ml_metrics.judge.envelope import Envelope, Excursion
    from ml_metrics.judge.history import EarlierRuns


IMPLAUSIBLE = 8.0
"""How many spreads on the better side are implausible, as for the values of other metrics."""
SHORTER = 0.9
"""A run that ends before this share of the usual steps is reported as shorter."""
SIDES = {"lower": 1, "higher": -1}
"""The worse side of a tag, by the direction in which it improves."""


def curve_verdict(verdict: Verdict, condition: Condition, curve: Curve, earlier: EarlierRuns) -> Verdict:
    """Judge the curve of a run by the curves of the good runs before it. The value is 0 as long as they are too few."""
    metric, rows = verdict.metric, baseline_of(verdict.metric, condition, earlier)
    own = earlier.curves.of(earlier.run_key, metric)
    if own is None:
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
    from ml_metrics.judge.envelope import MIN_POINTS, envelope_of, worst_excursion  # imports numpy

    found = envelope_of(own, past, curve)
    if len(found) < MIN_POINTS:
        few = f"the curve has {len(found)} of the {MIN_POINTS} points required"
        return replace(verdict, reason=f"{few} at steps that {curve.min_runs} good runs reached")
    side = SIDES.get(own.better, 0)
    worst = worst_excursion(found, side, curve.within)
    tag = verdict.metric.removesuffix(CURVE_SUFFIX)
    bounds = Bounds(upper=curve.within, inclusive=True)
    outcome = Outcome.PASS if bounds.contains(worst.distance) else Outcome.FAIL
    excursion = _duration(found, worst) if outcome is Outcome.FAIL else _spike(worst)
    reason = f"{_place(tag, found, worst, len(past))}{excursion}{_part(found, own, past, curve)}"
    verdict = replace(verdict, outcome=outcome, value=max(worst.distance, 0.0), bounds=bounds, reason=reason)
    verdict = replace(verdict, band=_band(found, curve.within))
    if side == 0 or outcome is Outcome.FAIL:
        return verdict
    limit = max(IMPLAUSIBLE, curve.within)
    better = worst_excursion(found, -side, limit)
    if better.distance <= limit:
        return verdict
    place = _place(tag, found, better, len(past))
    return replace(verdict, implausible=True, reason=f"implausibly good: {place}{_duration(found, better)}")


def _band(found: Envelope, within: float) -> CurveBand:
    """Return the bounds of an envelope, which are within the range of numbers and rounded like curves."""
    widths, greatest = within * found.spread, 0.999 * sys.float_info.max / found.scale
    low, high = (
        [float(f"{min(max(each, -greatest), greatest) * found.scale:.7g}") for each in side.tolist()]
        for side in (found.centre - widths, found.centre + widths)
    )
    return CurveBand(tuple(found.steps.tolist()), tuple(low), tuple(high))


def _non_finite(own: TagCurve, curve: Curve) -> str:
    """Return how many of the judged points are not finite numbers, and where; empty if all are."""
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


def _spike(worst: Excursion) -> str:
    """Return how many points were outside that did not last; empty if none was."""
    if not worst.short:
        return ""
    return f"; {worst.short} point{'s were' if worst.short > 1 else ' was'} outside for too short a time to count"


def _part(found: Envelope, own: TagCurve, past: Sequence[TagCurve], curve: Curve) -> str:
    """Return which part of the curve was compared, if that is not all of it; empty if it is."""
    ends = sorted(each.steps[-1] for each in past)
    usual = ends[(len(ends) - 1) // 2]
    if curve.to_step is not None:
        usual = min(usual, curve.to_step)
    first, last = int(found.steps[0]), int(found.steps[-1])
    if last < SHORTER * usual:
        return f"; compared from step {first} to {last}: good runs go on to step {usual}"
    end = own.steps[-1] if curve.to_step is None else min(own.steps[-1], curve.to_step)
    if last < SHORTER * end:
        return f"; compared from step {first} to {last}: good runs end there, and this one at step {end}"
    return ""
