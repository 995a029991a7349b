"""Judges a curve over a load, a size or another setting as a whole, by the curves of the runs before.

The oldest runs are the reference: at each x the median of their curves, and the spread of each from it. A run is
described by a few numbers: how far its curve is from the reference over all of x, and over the part before, at and
behind the knee, each in percent of the reference. A number is the mean of the middle half of its points, those that
repeat well counting more, so that one noisy point moves none. Each is followed run by run as the level of a metric is,
which knows from its history how much neighbouring points move together. The curve has one verdict: that of the worst.

Where a run has another grid, its curve is interpolated inside its ends and never beyond, with the error that the bend
of the curve makes likely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ml_metrics.core.kinds import Measure
from ml_metrics.core.model import SWEEP, Outcome, Sweep
from ml_metrics.judge.baseline import series_of
from ml_metrics.judge.history import followed
from ml_metrics.judge.judgement import run_again

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ml_metrics.config.conditions import Condition
    from ml_metrics.core.model import StoredMetric, Verdict
    from ml_metrics.judge.history import Dated, EarlierRuns
    from ml_metrics.judge.level import LevelState

    Values = NDArray[np.float64]
    Points = Mapping[float, float]

REFERENCE_RUNS = 20
"""How many of the oldest runs are the reference."""
LEAST_NOISE = 0.005
"""The least spread of a point, as a share of its value: it keeps a point that never moved from counting alone."""
TINY = 1e-140
"""The least noise whose weight is a number."""
COVERED = 0.5
"""The share of a range, by weight, without which a run says nothing about it."""
WIDE = 8.0
"""From which quotient of the greatest and the smallest x on distances along x are those of its logarithm."""
BENT = 0.1
"""How far a curve is from the straight line between its ends, as a share of its height, to have a knee."""
MIN_POINTS = 6
"""A curve of fewer points is judged as a whole only."""
ALL = "everywhere"


class Range(NamedTuple):
    """A part of a curve."""

    where: str
    points: slice


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """The curves of some runs at the x of the newest: rows are runs, columns are points."""

    x: Values
    distances: Values
    """From the reference, in its logarithm where all values are positive; NaN where a run has no curve."""
    reference: Values
    weights: Values
    is_share: bool
    """Whether distances are logarithms of quotients."""
    scale: float
    """What a distance is a share of if it is none of a quotient."""

    def percent(self, part: slice) -> Values:
        """By run: the part of its curve in percent of the reference; NaN where the run covers too little of it."""
        distances, weights = self.distances[:, part], self.weights[part]
        present = np.isfinite(distances)
        order = np.argsort(np.where(present, distances, np.inf), axis=1, kind="stable")
        weight = np.take_along_axis(np.where(present, weights, 0.0), order, axis=1)
        total = weight.sum(axis=1)
        ends = np.cumsum(weight, axis=1)
        begins = ends - weight
        quarter = total[:, None] / 4
        inner = np.clip(np.minimum(ends, 3 * quarter) - np.maximum(begins, quarter), 0.0, None)
        sorted_ = np.take_along_axis(np.where(present, distances, 0.0), order, axis=1)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            middle = (inner * sorted_).sum(axis=1) / inner.sum(axis=1)
            covered = total >= COVERED * weights.sum()
            share = np.exp(middle) if self.is_share else 1 + middle / self.scale
            return np.where(covered, 100 * share, np.nan)


def aligned(curves: Sequence[Points]) -> Aligned | None:
    """Align curves, oldest first, at the x of the last; None if too few of the others reach any of its points."""
    own = curves[-1]
    x = np.array(list(own), np.float64)
    is_share = all(y > 0 for curve in curves for y in curve.values())
    smallest = min((each for each in own if each > 0), default=1.0)
    least = min(each for curve in curves for each in curve)
    is_log = least >= 0 and float(x[-1]) / smallest >= WIDE
    offset = 0.0 if least > 0 else smallest
    found, errors = [], []
    for curve in curves:
        at, y = (np.array(list(part), np.float64) for part in (curve, curve.values()))
        place, wanted = (np.log(each + offset) if is_log else each for each in (at, x))
        height = np.log(y) if is_share else y
        found.append(np.interp(wanted, place, height, np.nan, np.nan))
        errors.append(_error(wanted, place, height))
    heights = np.array(found)
    first = heights[:-1][:REFERENCE_RUNS]
    known = np.isfinite(first).sum(axis=0) >= min(len(first), MIN_POINTS)
    if not known.any():
        return None
    x, heights, first = x[known], heights[:, known], first[:, known]
    reference = np.nanmedian(first, axis=0)
    scale = 1.0 if is_share else float(np.nanmedian(np.abs(reference))) or 1.0
    spread = np.nanmedian(np.abs(first - reference), axis=0) * 1.4826
    pooled = np.array([np.median(spread[max(0, at - 1) : at + 2]) for at in range(len(spread))])
    bend = np.nanmax(np.array(errors)[:, known], axis=0)
    noise = np.sqrt((spread**2 + pooled**2) / 2 + bend**2 + (LEAST_NOISE * scale) ** 2)
    return Aligned(x, heights - reference, reference, 1 / np.maximum(noise, TINY) ** 2, is_share, scale)


def _error(wanted: Values, place: Values, height: Values) -> Values:
    """How far a curve may be from the line between two of its points, by the slopes beside it; 0 at its points."""
    differs = np.concatenate([[True], np.diff(place) > 0])  # neighbours may have the same logarithm
    place, height = place[differs], height[differs]
    if len(place) < 3:  # noqa: PLR2004  (a bend has three)
        return np.zeros(len(wanted))
    slopes = np.diff(height) / np.diff(place)
    bends = np.abs(np.diff(slopes))
    worst = np.maximum(np.concatenate([[0.0], bends]), np.concatenate([bends, [0.0]]))
    segment = np.clip(np.searchsorted(place, wanted, side="right") - 1, 0, len(slopes) - 1)
    left, right = place[segment], place[segment + 1]
    width = right - left
    share = np.clip((wanted - left) / width, 0.0, 1.0)
    return np.asarray(worst[segment] * width * share * (1 - share) / 2)


def ranges_of(found: Aligned) -> list[Range]:
    """All of a curve; and of one with enough points the parts before, at and behind its knee."""
    count = len(found.x)
    whole = Range(ALL, slice(0, count))
    if count < MIN_POINTS:
        return [whole]
    knee = knee_of(found.x, np.exp(found.reference) if found.is_share else found.reference)
    middle = count // 2 if knee is None else knee
    begin, end = max(middle - 1, 0), min(middle + 2, count)
    begin, end = (0 if begin < 2 else begin), (count if count - end < 2 else end)  # noqa: PLR2004  (two are a part)
    parts = [
        Range(f"up to {found.x[begin - 1]:g}", slice(0, begin)) if begin else None,
        Range(f"from {found.x[begin]:g} to {found.x[end - 1]:g}", slice(begin, end)),
        Range(f"from {found.x[end]:g} on", slice(end, count)) if end < count else None,
    ]
    return [whole, *(part for part in parts if part is not None)]


def knee_of(x: Values, y: Values) -> int | None:
    """The point that is farthest from the line between the ends of a curve; None if it is straight."""
    smallest = float(x[x > 0].min()) if (x > 0).any() else 1.0
    place = np.log(x + (0.0 if x[0] > 0 else smallest)) if x[0] >= 0 and x[-1] / smallest >= WIDE else x
    height = float(np.ptp(y))
    if height <= 0 or len(x) < 3:  # noqa: PLR2004
        return None
    along = (place - place[0]) / (place[-1] - place[0])
    away = np.abs(y - (y[0] + along * (y[-1] - y[0]))) / height
    at = int(np.argmax(away))
    return at if away[at] >= BENT else None


class Judged(NamedTuple):
    """A range with the level of its curve as the newest run leaves it."""

    range: Range
    values: list[Dated]
    rows: list[StoredMetric]
    state: LevelState

    @property
    def change(self) -> float:
        return self.state.level / self.state.reference - 1 if self.state.reference else 0.0


def sweep_verdict(verdict: Verdict, condition: Condition, earlier: EarlierRuns) -> Verdict:
    """Judge the curve of a run by those of the runs before."""
    rows = series_of(verdict.metric, condition, earlier)
    own = earlier.curves.of(earlier.run_key, verdict.metric)
    verdict = replace(verdict, baseline_points=len(rows))
    if not isinstance(own, Sweep):
        return replace(verdict, reason="the curve of the run is not known here")
    if not own.measured:
        return replace(verdict, outcome=Outcome.NON_FINITE, value=None, reason="no point of the curve was measured")
    earlier.curves.past(verdict.metric, [row.run_key for row in rows])
    past = [(row, curve.measured) for row in rows if (curve := _alike(earlier, row, verdict.metric, own)) is not None]
    needed = condition.fewest_runs
    verdict = replace(verdict, value=100.0, baseline_points=len(past))
    if len(past) < needed:
        return replace(verdict, reason=f"the history has {len(past)} of the {needed} curves required")
    found = aligned([*(points for _, points in past), own.measured])
    if found is None:
        return replace(verdict, reason="no earlier curve reaches any point of this one")
    judged = list(_judged(found, [row for row, _ in past], condition, earlier))
    if not judged:
        return replace(verdict, reason=f"too little of the curve was measured in {needed} runs before")
    return _decided(verdict, judged, _compared_part(own, found), condition, earlier)


def _alike(earlier: EarlierRuns, row: StoredMetric, metric: str, own: Sweep) -> Sweep | None:
    curve = earlier.curves.of(row.run_key, metric)
    is_alike = isinstance(curve, Sweep) and (curve.x_name, curve.unit) == (own.x_name, own.unit) and curve.measured
    return curve if isinstance(curve, Sweep) and is_alike else None


def _judged(
    found: Aligned, rows: Sequence[StoredMetric], condition: Condition, earlier: EarlierRuns
) -> Sequence[Judged]:
    from ml_metrics.judge.verdict import level_rule_of

    ranges = ranges_of(found)
    rule = level_rule_of(condition, Measure.QUANTITY)
    rule = replace(rule, p_value=rule.p_value / len(ranges))  # one error for all of the curve
    judged = []
    for each in ranges:
        percent = found.percent(each.points)
        if not math.isfinite(percent[-1]):
            continue
        known = [(value, row) for value, row in zip(percent.tolist(), rows, strict=False) if math.isfinite(value)]
        if len(known) < condition.fewest_runs:
            continue
        values = [(value, row.timestamp.weekday(), run_again(row.rerun)) for value, row in known]
        values.append((float(percent[-1]), earlier.now.weekday(), run_again(earlier.run_id)))
        state = followed(values, rule).at(len(values) - 1)
        judged.append(Judged(each, values, [row for _, row in known], state))
    return judged


def _decided(
    verdict: Verdict, judged: Sequence[Judged], compared: str, condition: Condition, earlier: EarlierRuns
) -> Verdict:
    from ml_metrics.judge.verdict import bounds_of_level, loss_of_level

    failing = [each for each in judged if each.state.failing]
    worst = max(failing, key=lambda each: abs(each.change)) if failing else judged[0]
    state, value = worst.state, worst.values[-1][0]
    verdict = replace(
        verdict,
        value=value,
        bounds=bounds_of_level(state, condition),
        reference=state.reference,
        watched=state.watched,
        baseline_points=len(worst.rows),
    )
    if not failing:
        what = "; ".join(f"{each.range.where} {each.values[-1][0] - 100:+.2g} %" for each in judged)
        return replace(verdict, outcome=Outcome.PASS, reason=f"beside the runs before: {what}{compared}")
    parts = failing[1:] if failing[0].range.where == ALL and len(failing) > 1 else failing
    if len(parts) > 1 and len(parts) == len(judged) - 1:
        parts = failing[:1] if failing[0].range.where == ALL else parts
    where = ", ".join(f"{each.range.where} by {100 * each.change:+.2g} %" for each in parts)
    name = verdict.metric.removeprefix(SWEEP)
    loss = loss_of_level(state, worst.rows, earlier, verdict.unit)
    reason = f"{name} is worse {where}{compared}; {worst.range.where}, {loss}"
    return replace(verdict, outcome=Outcome.FAIL, reason=reason)


def _compared_part(own: Sweep, found: Aligned) -> str:
    """What x is, and which part of the curve was compared, if that is not all of it."""
    axis = f" ({own.x_name}{f' in {own.x_unit}' if own.x_unit else ''})"
    if len(own.measured) == len(found.x):
        return axis
    return f"{axis}; compared from {found.x[0]:g} to {found.x[-1]:g}: earlier curves do not reach the rest"
