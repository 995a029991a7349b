"""The bounds of a metric, computed from a condition and a baseline.

All rules but `change_point` have one form. With a reference R, a margin m and the minimum change c:

    lower = R - max(m, c)    upper = R + max(m, c)

`greater` uses the lower bound, `less` the upper, and `within` and `equal` use both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import median

from ml_metrics.config.conditions import Against, Comparison, Condition, MinChange
from ml_metrics.core.model import Bounds, StoredMetric, Verdict
from ml_metrics.core.units import quantities, quantity
from ml_metrics.judge.history import worse_side
from ml_metrics.judge.noise import P50_OF_NORMAL, P80_OF_NORMAL, P90_OF_NORMAL, middle_of_ordered

TOO_LARGE = "the values of the history are too large to compute bounds"
PLATEAU = 9
"""How many runs in a row make a best level: one to four lucky runs do not."""
LASTING = 9
"""How many values in a row are a level and not outliers."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bounds, and the level and spread of the baseline that they were computed from."""

    bounds: Bounds
    reference: float | None = None
    spread: float | None = None
    level: str = ""
    """The kind of the level, such as `mean`."""
    deviation: str = ""
    """The kind of the spread, such as `sd`."""
    note: str = ""
    rows: tuple[StoredMetric, ...] = ()
    """The runs that a value is compared with."""

    def text(self, unit: str) -> str:
        """The level and the spread, and what was left out: `mean 61, sd 0.76`."""
        named = ((self.level, self.reference), (self.deviation, self.spread))
        return ", ".join(f"{name} {quantity(number, unit)}" for name, number in named if name) + self.note


def compared(condition: Condition, baseline: Sequence[StoredMetric]) -> Span:
    """The bounds of a condition over the comparable runs of a baseline.

    A later start of the baseline may tighten bounds and never loosens them; otherwise small losses that passed would
    add up without limit. The best level of `against: best` does not depend on when it was reached.
    """
    values = values_of(baseline)
    if not condition.success_threshold.is_relative:
        return replace(span_of(condition, values), rows=tuple(baseline))
    from ml_metrics.judge.changepoints import level_starts  # imports numpy

    found = outliers(values)
    levels = levels_among(found, values)
    if condition.against is Against.BEST:
        return _without(condition, baseline, found.difference(*levels))
    whole = _without(condition, baseline, found)
    least = max(LASTING, condition.fewest_runs)
    reached = [level[0] for level in levels if level[-1] == len(values) - 1 and len(level) >= least]
    for start in dict.fromkeys([*reached, *level_starts(values, least)]):
        row = baseline[start]
        since = f"since the level changed in run {row.run_key} of {row.timestamp:%Y-%m-%d}"
        recent = _without(condition, baseline[start:], outliers(values[start:]), since)
        inner, outer = recent.bounds, whole.bounds
        lower, upper = outer.lower - 1e-9 * abs(outer.lower), outer.upper + 1e-9 * abs(outer.upper)
        if inner.lower >= lower and inner.upper <= upper:
            return recent
    return whole


def _without(condition: Condition, baseline: Sequence[StoredMetric], left_out: frozenset[int], since: str = "") -> Span:
    rows = tuple(row for index, row in enumerate(baseline) if index not in left_out) if left_out else tuple(baseline)
    count = len(left_out)
    notes = (since, f"without {count} implausible value{'s' * (count > 1)}" if count else "")
    span = span_of(condition, values_of(rows))
    return replace(span, rows=rows, note=span.note + "".join(f"; {note}" for note in notes if note))


def values_of(rows: Sequence[StoredMetric]) -> list[float]:
    return [row.value for row in rows if row.value is not None]


def span_of(condition: Condition, baseline: Sequence[float]) -> Span:
    """The bounds of a condition. Raises ArithmeticError if the values of the baseline are too large.

    A rule with a margin that is 0, because the history is constant, has inclusive bounds; otherwise a strict comparison
    would fail an unchanged value.
    """
    threshold = condition.success_threshold
    if (given := threshold.within_bounds) is not None:
        lower = -math.inf if given.lower is None else given.lower - minimum_change(condition.min_change, given.lower)
        upper = math.inf if given.upper is None else given.upper + minimum_change(condition.min_change, given.upper)
        return Span(Bounds(lower, upper, inclusive=Comparison.WITHIN.inclusive))
    if threshold.fixed_value is not None:
        return Span(_around(condition, threshold.fixed_value, 0.0))
    if (percent := threshold.percent) is not None:
        loose = percent.percent > 0
        if percent.value is not None:
            margin = _percent_of(percent.value, percent.percent)
            return Span(_around(condition, percent.value, margin, loose=loose))
        level, _, name = level_of(condition, baseline)
        nothing = level == 0 and condition.min_change is None
        note = ", of which every percentage is 0: set min_change to allow a difference" if nothing else ""
        bounds = _around(condition, level, _percent_of(level, percent.percent), loose=loose)
        return Span(bounds, level, level=name, note=note)
    factor = threshold.stddevs_from_mean if threshold.stddevs_from_mean is not None else threshold.mads_from_median
    if factor is None:
        raise TypeError(f"{threshold.kind} has no bounds of this form")
    level, spread, name = level_of(condition, baseline)
    deviation = "sd" if threshold.mads_from_median is None else "MAD"
    return Span(_around(condition, level, factor * spread, loose=factor > 0), level, spread, name, deviation)


def _around(condition: Condition, reference: float, given_margin: float, *, loose: bool = False) -> Bounds:
    margin = max(given_margin, minimum_change(condition.min_change, reference))
    return bounds_at(condition.comparison, reference, margin, inclusive=loose and margin == 0)


def bounds_at(comparison: Comparison, reference: float, margin: float, *, inclusive: bool) -> Bounds:
    """The bounds of a comparison at this distance from the reference."""
    lower, upper = reference - margin, reference + margin
    if (comparison.bounds_below and math.isinf(lower)) or (comparison.bounds_above and math.isinf(upper)):
        raise OverflowError(TOO_LARGE)
    return Bounds(
        lower if comparison.bounds_below else -math.inf,
        upper if comparison.bounds_above else math.inf,
        inclusive=comparison.inclusive or inclusive,
    )


def minimum_change(min_change: MinChange | None, reference: float) -> float:
    if min_change is None:
        return 0.0
    return max(min_change.absolute or 0.0, _percent_of(reference, min_change.percent or 0.0))


def _percent_of(reference: float, percent: float) -> float:
    """A percentage of the magnitude: 10 % of -10 is 1."""
    share = abs(reference) * percent / 100
    return abs(reference) * (percent / 100) if math.isinf(share) else share


def level_of(condition: Condition, baseline: Sequence[float]) -> tuple[float, float, str]:
    """The level of a baseline, its spread in the unit of the rule, and the name of the level.

    Where sums may overflow or lose digits, the values are scaled by a power of two first, which is exact.
    """
    robust = condition.success_threshold.mads_from_median is not None
    power = math.frexp(max(map(abs, baseline)))[1]
    power = power if abs(power) > 1000 else 0
    values = [math.ldexp(value, -power) for value in baseline] if power else baseline
    if condition.against is Against.BEST:
        name, found = "best level", best_level(values, greater=not condition.comparison.bounds_above, robust=robust)
    elif robust:
        level = median(values)
        name, found = "median", (level, median([abs(value - level) for value in values]))
    else:  # exact for equal values: rounding must not make a constant differ from its mean
        least, greatest = min(values), max(values)
        level = least if least == greatest else min(max(math.fsum(values) / len(values), least), greatest)
        name, found = "mean", (level, math.dist(values, [level] * len(values)) / math.sqrt(len(values)))
    try:
        return math.ldexp(found[0], power), math.ldexp(found[1], power), name
    except OverflowError as error:
        raise OverflowError(TOO_LARGE) from error


def best_level(values: Sequence[float], *, greater: bool, robust: bool = False) -> tuple[float, float]:
    """The best plateau: the best median of `PLATEAU` runs in a row, or the median of all if there are fewer.

    The spread is computed from differences d of neighbours, because deviations from the mean would grow with the slow
    change to be detected: `sqrt(mean(d²) / 2)`, or `median(|d|) / sqrt(2)` if `robust`. For steady noise these are the
    standard deviation and the median absolute deviation.
    """
    plateaus = [median(values)]
    if len(values) > PLATEAU:
        import numpy as np  # only a long history is worth the import

        runs = np.lib.stride_tricks.sliding_window_view(np.asarray(values, dtype=np.float64), PLATEAU)
        plateaus = np.partition(runs, PLATEAU // 2, axis=1)[:, PLATEAU // 2].tolist()
    steps = [after - before for before, after in pairwise(values)] or [0.0]
    spread = median(map(abs, steps)) if robust else math.hypot(*steps) / math.sqrt(len(steps))
    return (max if greater else min)(plateaus), spread / math.sqrt(2)


@dataclass(frozen=True, slots=True)
class Scale:
    """The median of a baseline, and the distance from it that is implausible."""

    median: float
    spread: float
    limit: float
    """In spreads. Noise with heavy tails (Student's t, 3 degrees of freedom) exceeds 8 in one run of 2,000; two modes,
    autocorrelated, seasonal and quantised noise do not. A few values can be close by chance."""

    def spreads(self, value: float) -> float:
        return (value / 2 - self.median / 2) / (self.spread / 2)

    def side(self, value: float) -> int:
        spreads = self.spreads(value)
        return (spreads > self.limit) - (spreads < -self.limit)


def scale_of(values: Sequence[float]) -> Scale | None:
    """The scale of a baseline; None if it has fewer than eight values or they define no distance.

    Of values of which more than nine in ten are equal, the spread is a twentieth of the median.
    """
    count = len(values)
    if count < 8:
        return None
    halves = sorted([value / 2 for value in values])  # the difference of two finite numbers may be infinite
    middle = middle_of_ordered(halves)
    distances = sorted([abs(half - middle) for half in halves])
    spread = max(middle_of_ordered(distances) / P50_OF_NORMAL, distances[int(0.8 * (count - 1))] / P80_OF_NORMAL)
    spread = spread or distances[int(0.9 * (count - 1))] / P90_OF_NORMAL or 0.05 * abs(middle)
    return Scale(2 * middle, min(2 * spread, 1.7e308), 8 * (1 + 6 / count)) if spread > 0 else None


def outliers(values: Sequence[float]) -> frozenset[int]:
    """The indexes of the implausible values.

    The value that is farthest from the median of the others is measured by their scale, and left out if it is far; then
    the next. So what a value does to the scale cannot hide it or another one.
    """
    found: list[int] = []
    order = sorted(range(len(values)), key=values.__getitem__)
    while len(order) > 8:
        rest = [values[index] for index in order]
        middle = rest[len(rest) // 2] / 2
        farthest, kept = (-1, slice(-1)) if rest[-1] / 2 - middle >= middle - rest[0] / 2 else (0, slice(1, None))
        scale = scale_of(rest[kept])
        if scale is None or not scale.side(rest[farthest]):
            break
        found.append(order[farthest])
        order = order[kept]
    return frozenset(found)


def levels_among(found: frozenset[int], values: Sequence[float]) -> list[list[int]]:
    """The outliers that are a level of their own: at least nine in a row, all above the others or all below."""
    if len(found) < LASTING:
        return []
    middle = middle_of_ordered(sorted(value / 2 for index, value in enumerate(values) if index not in found))
    sides = [(1 if value / 2 > middle else -1) if index in found else 0 for index, value in enumerate(values)]
    streaks = [(side, list(group)) for side, group in groupby(range(len(values)), sides.__getitem__)]
    return [streak for side, streak in streaks if side and len(streak) >= LASTING]


def with_warning(verdict: Verdict, condition: Condition, values: Sequence[float]) -> Verdict:
    """A verdict that passed, marked if its value is implausibly good beside the values of the baseline."""
    value, side = verdict.value, worse_side(condition)
    if value is None or side == 0 or not condition.success_threshold.is_relative:
        return verdict
    scale = scale_of(values)
    if scale is None or scale.side(value) != -side:
        return verdict
    shown, level = quantities([value, scale.median], verdict.unit)
    distance = min(abs(scale.spreads(value)), 1e6)
    where = f"{distance:.0f} spreads {'below' if side > 0 else 'above'} the median {level}"
    reason = f"implausibly good: {shown} is {where}; not used as baseline"
    return replace(verdict, implausible=True, reason="; ".join(filter(None, (reason, verdict.reason))))
