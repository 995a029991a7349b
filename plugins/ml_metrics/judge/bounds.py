"""The bounds of a metric, computed from a condition and a baseline.

All rules but `change_point` have one form. With a reference R, a margin m and the minimum change c:

    lower = R - max(m, c)    upper = R + max(m, c)

`greater` uses the lower bound, `less` the upper, and `within` and `equal` use both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import median
from typing import TYPE_CHECKING

from ml_metrics.config.conditions import Against, Comparison
from ml_metrics.core.model import Bounds
from ml_metrics.core.units import quantities, quantity
from ml_metrics.judge.history import worse_side
from ml_metrics.judge.noise import P50_OF_NORMAL, P80_OF_NORMAL, P90_OF_NORMAL, middle_of_ordered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.config.conditions import Condition, MinChange, PercentDifference, WithinBounds
    from ml_metrics.core.model import StoredMetric, Verdict


TOO_LARGE = "the values of the history are too large to compute bounds"
ORDINARY = 1000
"""Values up to 2 to this power, and down to its inverse, are summed as they are; even millions of them do not overflow.
Others are scaled by a power of two first, which is exact."""
PLATEAU = 9
"""How many runs in a row make a best level: one to four lucky runs do not."""


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

    def text(self, unit: str) -> str:
        """Return the level and the spread: `mean 61, sd 0.76`."""
        named = ((self.level, self.reference), (self.deviation, self.spread))
        levels = ", ".join(f"{name} {quantity(number, unit)}" for name, number in named if name)
        return f"{levels}{self.note}"


def span_of(condition: Condition, baseline: Sequence[float]) -> Span:
    """Return the bounds of a condition. Raises ArithmeticError if the values of the baseline are too large."""
    threshold = condition.success_threshold
    if threshold.within_bounds is not None:
        return Span(_widened(threshold.within_bounds, condition.min_change))
    if threshold.fixed_value is not None:
        return Span(_around(condition, threshold.fixed_value, 0.0))
    if threshold.percent is not None:
        return _percent_span(condition, threshold.percent, baseline)
    factor = threshold.stddevs_from_mean if threshold.stddevs_from_mean is not None else threshold.mads_from_median
    if factor is None:
        raise TypeError(f"{threshold.kind} has no bounds of this form")
    level = _level(condition, baseline)
    deviation = "sd" if threshold.mads_from_median is None else "MAD"
    bounds = _around(condition, level.value, factor * level.spread, loose=factor > 0)
    return Span(bounds, level.value, level.spread, level.name, deviation)


def _percent_span(condition: Condition, given: PercentDifference, baseline: Sequence[float]) -> Span:
    loose = given.percent > 0
    if given.value is not None:
        return Span(_around(condition, given.value, _percent_of(given.value, given.percent), loose=loose))
    level = _level(condition, baseline)
    nothing = level.value == 0 and condition.min_change is None
    note = ", of which every percentage is 0: set min_change to allow a difference" if nothing else ""
    bounds = _around(condition, level.value, _percent_of(level.value, given.percent), loose=loose)
    return Span(bounds, level.value, level=level.name, note=note)


def _level(condition: Condition, baseline: Sequence[float]) -> Level:
    power = math.frexp(max(map(abs, baseline)))[1]
    if abs(power) <= ORDINARY:
        return _ordinary_level(condition, baseline)
    level = _ordinary_level(condition, [math.ldexp(value, -power) for value in baseline])
    try:
        return replace(level, value=math.ldexp(level.value, power), spread=math.ldexp(level.spread, power))
    except OverflowError as error:
        raise OverflowError(TOO_LARGE) from error


def _ordinary_level(condition: Condition, baseline: Sequence[float]) -> Level:
    robust = condition.success_threshold.mads_from_median is not None
    if condition.against is Against.BEST:
        return best_level(baseline, greater_is_better=not condition.comparison.bounds_above, robust=robust)
    return median_level(baseline) if robust else mean_level(baseline)


def _around(condition: Condition, reference: float, given_margin: float, *, loose: bool = False) -> Bounds:
    """Return the bounds on the sides that the comparison uses.

    `loose`: the rule allows a margin. If that margin is 0 because the history is constant, the bounds are inclusive;
    otherwise a strict comparison would fail an unchanged value.
    """
    margin = max(given_margin, minimum_change(condition.min_change, reference))
    lower, upper = reference - margin, reference + margin
    comparison = condition.comparison
    if (comparison.bounds_below and math.isinf(lower)) or (comparison.bounds_above and math.isinf(upper)):
        raise OverflowError(TOO_LARGE)
    return Bounds(
        lower if comparison.bounds_below else -math.inf,
        upper if comparison.bounds_above else math.inf,
        inclusive=comparison.inclusive or (loose and margin == 0),
    )


def _widened(given: WithinBounds, min_change: MinChange | None) -> Bounds:
    lower = -math.inf if given.lower is None else given.lower - minimum_change(min_change, given.lower)
    upper = math.inf if given.upper is None else given.upper + minimum_change(min_change, given.upper)
    return Bounds(lower, upper, inclusive=Comparison.WITHIN.inclusive)


def minimum_change(min_change: MinChange | None, reference: float) -> float:
    if min_change is None:
        return 0.0
    return max(min_change.absolute or 0.0, _percent_of(reference, min_change.percent or 0.0))


def _percent_of(reference: float, percent: float) -> float:
    """Return a percentage of the magnitude: 10 % of -10 is 1."""
    share = abs(reference) * percent / 100
    return abs(reference) * (percent / 100) if math.isinf(share) else share


@dataclass(frozen=True, slots=True)
class Level:
    """The level of a series, and its spread in the unit of a rule."""

    value: float
    spread: float
    name: str
    """`mean`, `median`, `best level`."""


def mean_level(values: Sequence[float]) -> Level:
    """Return the mean and the standard deviation of the population (ddof 0)."""
    level = mean(values)
    return Level(level, math.dist(values, [level] * len(values)) / math.sqrt(len(values)), "mean")


def median_level(values: Sequence[float]) -> Level:
    level = median(values)
    return Level(level, median([abs(value - level) for value in values]), "median")


def best_level(values: Sequence[float], *, greater_is_better: bool, robust: bool = False) -> Level:
    """Return the best plateau: the best median of `PLATEAU` runs in a row, or the median of all if there are fewer.

    The spread is computed from differences d of neighbours, because deviations from the mean would grow with the slow
    change to be detected: `sqrt(mean(d²) / 2)`, or `median(|d|) / sqrt(2)` if `robust`. For steady noise these are the
    standard deviation and the median absolute deviation.
    """
    plateaus = _plateaus(values)
    steps = [after - before for before, after in pairwise(values)]
    level = max(plateaus) if greater_is_better else min(plateaus)
    if not steps:
        return Level(level, 0.0, "best level")
    spread = median(map(abs, steps)) if robust else math.hypot(*steps) / math.sqrt(len(steps))
    return Level(level, spread / math.sqrt(2), "best level")


def _plateaus(values: Sequence[float]) -> list[float]:
    if len(values) <= PLATEAU:
        return [median(values)]
    import numpy as np  # only a long history is worth the import

    runs = np.lib.stride_tricks.sliding_window_view(np.asarray(values, dtype=np.float64), PLATEAU)
    return list(np.partition(runs, PLATEAU // 2, axis=1)[:, PLATEAU // 2].tolist())


def mean(values: Sequence[float]) -> float:
    """Return the mean, exact for equal values: rounding must not make a constant differ from its mean."""
    least, greatest = min(values), max(values)
    return least if least == greatest else min(max(math.fsum(values) / len(values), least), greatest)


LEAST_VALUES = 8
"""With fewer values, no value is implausible: their spread is too uncertain."""
FAR = 8.0
"""How many spreads from the median are implausible. Noise with heavy tails (Student's t, 3 degrees of freedom) exceeds
it in one run of 2,000; two modes, autocorrelated, seasonal and quantised noise do not."""
YOUNG = 6.0
"""The limit is larger by this many parts of the number of values, because a few values can be close by chance."""
CONSTANT_SPREAD = 0.05
"""The spread of values of which more than nine in ten are equal, as a share of the median."""
LARGEST = 1.7e308
LASTING = 9
"""How many values in a row are a level and not outliers."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The median of a baseline, and the distance from it that is implausible."""

    median: float
    spread: float
    limit: float
    """In spreads."""

    def spreads(self, value: float) -> float:
        return (value / 2 - self.median / 2) / (self.spread / 2)

    def side(self, value: float) -> int:
        spreads = self.spreads(value)
        return (spreads > self.limit) - (spreads < -self.limit)


def scale_of(values: Sequence[float]) -> Scale | None:
    """Return the scale of a baseline; None if it has too few values or they define no distance."""
    count = len(values)
    if count < LEAST_VALUES:
        return None
    halves = sorted([value / 2 for value in values])  # the difference of two finite numbers may be infinite
    middle = middle_of_ordered(halves)
    distances = sorted([abs(half - middle) for half in halves])
    spread = max(middle_of_ordered(distances) / P50_OF_NORMAL, distances[int(0.8 * (count - 1))] / P80_OF_NORMAL)
    spread = spread or distances[int(0.9 * (count - 1))] / P90_OF_NORMAL or CONSTANT_SPREAD * abs(middle)
    middle, spread = 2 * middle, min(2 * spread, LARGEST)
    return Scale(middle, spread, FAR * (1 + YOUNG / count)) if spread > 0 else None


def outliers(values: Sequence[float]) -> frozenset[int]:
    """Return the indexes of the implausible values.

    The value that is farthest from the median of the others is measured by their scale, and left out if it is far; then
    the next. So what a value does to the scale cannot hide it or another one.
    """
    if len(values) <= LEAST_VALUES:
        return frozenset()
    found: list[int] = []
    order = sorted(range(len(values)), key=values.__getitem__)
    rest = [values[index] for index in order]
    while len(rest) > LEAST_VALUES:
        middle = rest[len(rest) // 2] / 2
        farthest, kept = (-1, slice(-1)) if rest[-1] / 2 - middle >= middle - rest[0] / 2 else (0, slice(1, None))
        scale = scale_of(rest[kept])
        if scale is None or not scale.side(rest[farthest]):
            break
        found.append(order[farthest])
        order, rest = order[kept], rest[kept]
    return frozenset(found)


def levels_among(found: frozenset[int], values: Sequence[float]) -> list[list[int]]:
    """Return the outliers that are a level of their own: at least nine in a row, all above the others or all below."""
    if len(found) < LASTING:
        return []
    middle = middle_of_ordered(sorted(value / 2 for index, value in enumerate(values) if index not in found))
    sides = [(1 if value / 2 > middle else -1) if index in found else 0 for index, value in enumerate(values)]
    streaks = [(side, list(group)) for side, group in groupby(range(len(values)), sides.__getitem__)]
    return [streak for side, streak in streaks if side and len(streak) >= LASTING]


ROUNDING = 1e-9
MOST_SPREADS = 1e6
"""More spreads are not counted."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The runs that a value is compared with, and the bounds computed from them."""

    rows: tuple[StoredMetric, ...]
    span: Span
    note: str = ""
    """What was left out of the baseline, for the reason; empty if nothing was."""

    @property
    def values(self) -> list[float]:
        return _values(self.rows)


def compared(condition: Condition, baseline: Sequence[StoredMetric]) -> Compared:
    """Return the bounds of a condition over the comparable runs of a baseline.

    A later start of the baseline may tighten bounds and never loosens them; otherwise small losses that passed would
    add up without limit. The best level of `against: best` does not depend on when it was reached.
    """
    values = _values(baseline)
    if not condition.success_threshold.is_relative:
        return Compared(tuple(baseline), span_of(condition, values))
    from ml_metrics.judge.changepoints import level_starts  # imports numpy

    found = outliers(values)
    levels = levels_among(found, values)
    if condition.against is Against.BEST:
        return _without(condition, baseline, found.difference(*levels))
    whole = _without(condition, baseline, found)
    least = max(LASTING, condition.fewest_runs)
    reached = [level[0] for level in levels if level[-1] == len(values) - 1 and len(level) >= least]
    for start in dict.fromkeys([*reached, *level_starts(values, least)]):
        recent = _without(condition, baseline[start:], outliers(values[start:]))
        if _is_within(recent.span.bounds, whole.span.bounds):
            row = baseline[start]
            since = f"since the level changed in run {row.run_key} of {row.timestamp:%Y-%m-%d}"
            return replace(recent, note="; ".join(filter(None, (since, recent.note))))
    return whole


def with_warning(verdict: Verdict, condition: Condition, values: Sequence[float]) -> Verdict:
    """Return a verdict that passed, marked if its value is implausibly good beside the values of the baseline."""
    value, side = verdict.value, worse_side(condition)
    if value is None or side == 0 or not condition.success_threshold.is_relative:
        return verdict
    scale = scale_of(values)
    if scale is None or scale.side(value) != -side:
        return verdict
    distance = min(abs(scale.spreads(value)), MOST_SPREADS)
    shown, median = quantities([value, scale.median], verdict.unit)
    where = f"{distance:.0f} spreads {'below' if side > 0 else 'above'} the median {median}"
    reason = f"implausibly good: {shown} is {where}; not used as baseline"
    return replace(verdict, implausible=True, reason="; ".join(filter(None, (reason, verdict.reason))))


def _without(condition: Condition, baseline: Sequence[StoredMetric], left_out: frozenset[int]) -> Compared:
    kept = tuple(row for index, row in enumerate(baseline) if index not in left_out) if left_out else tuple(baseline)
    count = len(left_out)
    note = f"without {count} implausible value{'s' * (count > 1)}" if count else ""
    return Compared(kept, span_of(condition, _values(kept)), note)


def _values(rows: Sequence[StoredMetric]) -> list[float]:
    return [row.value for row in rows if row.value is not None]


def _is_within(inner: Bounds, outer: Bounds) -> bool:
    lower, upper = outer.lower - ROUNDING * abs(outer.lower), outer.upper + ROUNDING * abs(outer.upper)
    return inner.lower >= lower and inner.upper <= upper
