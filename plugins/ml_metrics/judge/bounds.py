"""The bounds of a metric, computed from a condition and a baseline.

All rules but `change_point` have one form. With a reference R, a margin m and the minimum change c:

    lower = R - max(m, c)    upper = R + max(m, c)

`greater` uses the lower bound, `less` the upper, and `within` and `equal` use both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from ml_metrics.config.regression import Against, Comparison
from ml_metrics.model import Bounds
from ml_metrics.units import quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.config.regression import Condition
    from ml_metrics.config.threshold import MinChange, PercentDifference, WithinBounds

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
    """Return the distance from a reference up to which a change is ignored."""
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
    """Return the median and the median absolute deviation from it."""
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
    """Return the median of each `PLATEAU` runs in a row, or of all if there are fewer."""
    if len(values) <= PLATEAU:
        return [median(values)]
    import numpy as np  # only a long history is worth the import

    runs = np.lib.stride_tricks.sliding_window_view(np.asarray(values, dtype=np.float64), PLATEAU)
    medians: list[float] = np.partition(runs, PLATEAU // 2, axis=1)[:, PLATEAU // 2].tolist()
    return medians


def mean(values: Sequence[float]) -> float:
    """Return the mean, exact for equal values: rounding must not make a constant differ from its mean."""
    least, greatest = min(values), max(values)
    return least if least == greatest else min(max(math.fsum(values) / len(values), least), greatest)
