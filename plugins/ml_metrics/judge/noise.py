"""The noise of a metric: how far healthy runs scatter around its level, and how large a change of it matters.

Every rule, search and comparison takes spread, memory and the error of a mean from here, and how rare a value is among
healthy runs. `describe` puts them together for the runs of a baseline, with the shapes that single numbers do not show:
a rhythm, two modes, a level that wanders.

Baselines are short lists, which Python computes faster than numpy.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import mul, ne, sub

from ml_metrics.config.conditions import Comparison
from ml_metrics.core.kinds import Measure

Day = tuple[int, ...]
"""The keys by which a run may have a rhythm: its weekday, if that is known, and its place in every seven runs."""
P50_OF_NORMAL, P68_OF_NORMAL, P80_OF_NORMAL, P90_OF_NORMAL = 0.6745, 0.9945, 1.2816, 1.6449
"""The median, 68th, 80th and 90th percentile of |x| where the standard deviation is 1."""
NEIGHBOURS_OF_NORMAL = 0.954
"""The median of |x - y|."""
MEDIAN_ERROR = 1.25
"""The standard error of a median in units of that of a mean, for normal noise."""
FEW_RUNS = 12
"""Fewer runs than this may hide an outlier or a second mode from every robust spread: the plain deviation counts."""
OUTLIER = 2.5
"""Further from the level than this, in units of the noise, a value counts as that far: outliers have no memory."""
NOTICED_MEMORY, MAX_MEMORY = 0.15, 0.85
SMALL_BASELINE = 3.0
"""The error of a baseline of n runs is larger by `SMALL_BASELINE` / (n - 4), because few runs hide their noise."""
FLOOR, CALM_FLOOR = 0.02, 0.01
"""The smallest change that matters, as a share of the level. Where 5 spreads are less, they are, down to the second."""
KNOWN_RUNS = 30
"""From how many runs on a small spread is believed."""
RHYTHM_RUNS, WEEK = 35, 7
"""From how many runs on a rhythm is looked for."""


def middle(values: Sequence[float]) -> float:
    """The median, also of values whose sum overflows."""
    return middle_of_ordered(sorted(values))


def middle_of_ordered(ordered: Sequence[float]) -> float:
    n = len(ordered)
    low, high = ordered[(n - 1) // 2], ordered[n // 2]
    return low if low == high else 0.5 * low + 0.5 * high


def border(inside: float, outside: float, is_outside: Callable[[float], bool], halvings: int) -> tuple[float, float]:
    """Where a condition begins to hold, between a place where it does not and one where it does: both, nearer."""
    for _ in range(halvings):
        between = (inside + outside) / 2
        inside, outside = (inside, between) if is_outside(between) else (between, outside)
    return inside, outside


def spread_of(values: Sequence[float], *, coarse: bool = False, level: float | None = None) -> float:
    """The standard deviation around the level, robustly: a second mode widens it, outliers do not."""
    centre = middle(values) if level is None else level
    return spread_of_distances(sorted([abs(value - centre) for value in values]), coarse=coarse)


def spread_of_distances(ordered: Sequence[float], *, coarse: bool = False) -> float:
    """The spread of values with these distances from their level, ascending, at least one.

    The median or the 80th percentile counts, whichever shows more: the latter shows a second mode. Where both are 0,
    at least one value in ten differs from the level, or the spread is 0, too. `coarse`: values may be rounded so that
    the median is larger than the rest; the 68th percentile limits it.
    """
    median, most = quantile_of(ordered, 0.5) / P50_OF_NORMAL, quantile_of(ordered, 0.8) / P80_OF_NORMAL
    if coarse and median > most:
        median = min(median, quantile_of(ordered, 0.68) / P68_OF_NORMAL)
    return max(median, most) or ordered[int(0.9 * (len(ordered) - 1))] / P90_OF_NORMAL


def quantile_of(ordered: Sequence[float], share: float) -> float:
    last = len(ordered) - 1
    place = last * share
    low = int(place)
    part = place - low
    return ordered[low] * (1 - part) + ordered[min(low + 1, last)] * part


def deviation_of(distances: Sequence[float]) -> float:
    """The plain standard deviation of values with these distances from their level."""
    return math.hypot(*distances) / math.sqrt(max(1, len(distances) - 1))


def _product(some: Sequence[float], others: Sequence[float]) -> float:
    total: float = sum(map(mul, some, others))
    return total


def neighbour_noise(values: Sequence[float]) -> float:
    """The noise between neighbours: a step affects one difference only."""
    return middle(list(map(abs, steps_of(values)))) / NEIGHBOURS_OF_NORMAL if len(values) > 3 else 0.0


def steps_of(values: Sequence[float]) -> list[float]:
    return list(map(sub, values[1:], values))


def correlation_of(deviations: Sequence[float], spread: float, clip: float = OUTLIER) -> float:
    """The correlation of each run with the one before, without the bias of few runs; 0 if nothing is known of it."""
    if not spread > 0:
        return 0.0
    rest = _clipped(deviations, clip * spread, spread)
    power = _product(rest, rest)
    found = _product(rest[1:], rest) / power if power else 0.0
    return found + (1 + 3 * max(found, 0.0)) / len(rest) if power else 0.0


def _clipped(deviations: Sequence[float], most: float, unit: float) -> list[float]:
    return [(each if -most < each < most else math.copysign(most, each)) / unit for each in deviations]


def memory_of(deviations: Sequence[float], spread: float, errors: float = 1.0, most: float = MAX_MEMORY) -> float:
    """The correlation of each run with the one before, at its upper end: a strong one by so many standard errors.

    Of fewer than six runs, nothing is known.
    """
    found = correlation_of(deviations, spread) if len(deviations) >= FEW_RUNS // 2 else 0.0
    if found > NOTICED_MEMORY:
        found += errors / math.sqrt(len(deviations))
    return min(max(found, 0.0), most)


def independent_runs(deviations: Sequence[float], distances: Sequence[float]) -> float:
    """How many independent runs say as much as some runs. `distances`: the sizes of the deviations, ascending."""
    count, memory = len(distances), correlation_of(deviations, spread_of_distances(distances))
    memory = min(memory + 0.6 / math.sqrt(count), MAX_MEMORY) if memory > NOTICED_MEMORY else 0.0
    return max(1.0, count * (1 - memory) / (1 + memory))


def error_of_mean(count: int, memory: float) -> float:
    """The standard error of the mean of neighbouring runs, in units of the noise of one (AR(1))."""
    if memory <= 0:
        return 1 / math.sqrt(count)
    rest = 1 - memory
    return math.sqrt(((1 + memory) / rest - 2 * memory * (1 - memory**count) / (count * rest * rest)) / count)


@dataclass(frozen=True, slots=True)
class Modes:
    """Two values around which a metric varies in turns, as when its runs are from two kinds of nodes."""

    low: float
    high: float
    share: float
    """The share of the runs at the higher one."""
    spread: float
    """The noise within one mode."""

    @property
    def between(self) -> float:
        return 0.5 * self.low + 0.5 * self.high


@dataclass(frozen=True, slots=True)
class Rhythm:
    """What the days of a week, or of every seven runs, add to the level."""

    key: int
    offsets: tuple[float, ...]

    def of(self, day: Day) -> float:
        return self.offsets[day[self.key]]

    def without(self, values: Sequence[float], days: Sequence[Day]) -> list[float]:
        return [value - self.offsets[day[self.key]] for value, day in zip(values, days, strict=True)]


@dataclass(frozen=True)
class Noise:
    """The noise of the runs of a baseline. Greater values are worse."""

    count: int
    level: float
    spread: float
    near: float
    """The noise between neighbours."""
    deviations: Sequence[float]
    scale: float
    """The spread of these, also where another one is put in its place."""
    modes: Modes | None = None
    rhythm: Rhythm | None = None
    wanders: bool = False
    lent: float = 0.0
    """As how many more runs what its siblings tell counts."""

    @cached_property
    def memory(self) -> float:
        return memory_of(self.deviations, self.scale)

    @property
    def young(self) -> float:
        """How much wider the noise of a small baseline may be than it shows."""
        return 1 + SMALL_BASELINE / max(1, self.count + self.lent - 4)

    @cached_property
    def error_of_level(self) -> float:
        return self.spread * error_of_mean(self.count, self.memory)

    def error(self, runs: int, local: float = 0.0, shared: float = 1.0) -> float:
        """The error of the distance of so many newest runs, which scatter by `local` at least, from the level.

        `shared`: by what the variance of their mean is greater, because some share what moves them.
        """
        new = max(self.spread, local) * error_of_mean(runs, self.memory) * math.sqrt(shared)
        return MEDIAN_ERROR * self.young * math.hypot(new, self.error_of_level)


def false_alarm_rate(value: float, healthy: Sequence[float], comparison: Comparison) -> float | None:
    """The share of healthy runs whose value would be at least as bad, without assuming a distribution.

    With n runs, of which k were at least as bad, it is (k + 1) / (n + 1): the exact probability if the order of the
    runs has no meaning. None if the history has fewer than five runs, or is constant: it shows nothing of the noise.
    `healthy`: the finite values of healthy runs before it, oldest first.
    """
    runs = len(healthy)
    if runs < 5:
        return None
    greatest = max(map(abs, healthy))
    if not 1e-140 <= greatest <= 1e140:  # otherwise differences could overflow or vanish
        value, healthy = value / (greatest or 1.0), [each / (greatest or 1.0) for each in healthy]
    level = middle(healthy)
    deviations = [each - level for each in healthy]
    distances = sorted(map(abs, deviations))
    if not distances[-1]:
        return None
    distance = value - level
    if comparison.bounds_below and comparison.bounds_above:
        distance, bad = abs(distance), distances
    elif comparison.bounds_below:
        distance, bad = -distance, sorted(-each for each in deviations)
    else:
        bad = sorted(deviations)
    as_bad = runs - bisect_left(bad, distance)
    return tail_rate(as_bad / runs, independent_runs(deviations, distances), distance, distances[-1], runs)


LEAST_RATE = 1e-6
"""The least rate that is stated: no history shows more."""


def tail_rate(share: float, independent: float, distance: float, widest: float, runs: int) -> float:
    """The rate of a distance that a share of the known ones reaches, of which `widest` is the greatest.

    Beyond that, the tail is taken to fall with the power 2.5 of the distance, which is heavier than the tail of
    Student's t with three degrees of freedom, and the noise of n runs to be wider than they show by 4 / n. The margin
    of a tenth is for noise whose size changes with time, of which the newest runs are no fair sample.
    """
    rate = 1.1 * (share * independent + 1) / (independent + 1)
    widest *= 1 + 4 / runs
    if not share and 0 < widest < distance:
        rate *= (widest / distance) ** 2.5
    return min(max(rate, LEAST_RATE), 1.0)


def describe(
    values: Sequence[float], days: Sequence[Day] | None = None, *, rhythm: Rhythm | None = None, counts: bool = False
) -> Noise:
    """Describe the noise of the finite values of a baseline of at least one run, oldest first.

    `days`: the keys by which runs may have a rhythm, which is looked for unless `rhythm` is known. `counts`: values
    count events, so the noise of a few is at least the square root of their number.
    """
    rest = values if rhythm is None or days is None else rhythm.without(values, days)
    n, ordered = len(rest), sorted(rest)
    level = middle_of_ordered(ordered)
    distances = sorted([abs(value - level) for value in ordered])
    spread = spread_of_distances(distances, coarse=True)
    if rhythm is None and days is not None and n >= RHYTHM_RUNS and spread > 0:
        rhythm = _rhythm_of(values, days, level, spread)
        if rhythm is not None:
            return describe(values, days, rhythm=rhythm, counts=counts)
    if n < FEW_RUNS:
        spread = max(spread, deviation_of(distances))
    if counts and abs(level) < 10:
        spread = max(spread, math.sqrt(max(abs(level), 0.25)))
    near = neighbour_noise(rest)
    modes = _modes_of(rest, ordered) if n >= 20 and spread > 0 else None
    if modes is not None:  # of which one may have too few runs for a percentile
        spread = max(spread, (modes.high - modes.low) * math.sqrt(modes.share * (1 - modes.share)))
    return Noise(
        count=n,
        level=level,
        spread=spread,
        near=near,
        deviations=[value - level for value in rest],
        scale=spread,
        modes=modes,
        rhythm=rhythm,
        wanders=modes is None and _wanders(rest, spread, near),
    )


def _rhythm_of(values: Sequence[float], days: Sequence[Day], level: float, spread: float) -> Rhythm | None:
    """The key whose seven medians leave at most .6 of the spread, each of four runs at least; None if no key does."""
    calm = _clipped([value - level for value in values], OUTLIER * spread, spread)
    whole = sum(calm) ** 2 / len(calm)
    needed = 0.3 * (_product(calm, calm) - whole)
    best: tuple[float, Rhythm] | None = None
    for key, found in enumerate(zip(*days, strict=True)):
        groups: list[list[float]] = [[] for _ in range(WEEK)]
        if found[WEEK:] == found[:-WEEK] and len(set(found)) == WEEK:
            groups = [calm[day::WEEK] for day in range(WEEK)]
        else:
            for day, each in zip(found, calm, strict=True):
                groups[day].append(each)
        if min(map(len, groups)) < 4 or sum([sum(one) ** 2 / len(one) for one in groups]) - whole < needed:
            continue  # nearly always, and faster than seven medians
        medians = [middle([value for value, of in zip(values, found, strict=True) if of == day]) for day in range(WEEK)]
        rhythm = Rhythm(key, tuple(each - level for each in medians))
        weeks = len(values) / WEEK
        rest = spread_of(rhythm.without(values, days), coarse=True) * math.sqrt(weeks / (weeks - 1.4))
        if rest < 0.6 * spread and (best is None or rest < best[0]):
            best = rest, rhythm
    return None if best is None else best[1]


def _modes_of(values: Sequence[float], ordered: Sequence[float]) -> Modes | None:
    """Two modes on either side of the largest gap, if runs of both take turns, and each has 12 % of them.

    Their centres are five spreads within one apart, and their edges one and a half. They switch in at least .6 of the
    runs in which independent draws would: levels follow each other.
    """
    n, steps = len(values), steps_of(ordered)
    least = max(3, int(0.12 * n))
    gap = max(steps[least - 1 : n - least])
    at = steps.index(gap, least - 1) + 1
    low, high = ordered[:at], ordered[at:]
    if gap < 0.5 * (high[len(high) * 3 // 4] - high[len(high) // 4]):  # nearly always, and faster than a spread
        return None
    lower, upper, within = middle_of_ordered(low), middle_of_ordered(high), 0.0
    for side, centre in ((low, lower), (high, upper)):
        within = max(within, spread_of(side, coarse=True, level=centre))
        if gap <= 0 or gap < 1.5 * within or upper - lower < 5 * within:
            return None
    if sum(map(bool, steps)) < n / 3:  # values are rounded
        return None
    modes = Modes(lower, upper, len(high) / n, within)
    worse = [value > modes.between for value in values]
    switches = sum(map(ne, worse[1:], worse))
    return modes if switches >= 0.6 * 2 * modes.share * (1 - modes.share) * (n - 1) else None


def _wanders(values: Sequence[float], spread: float, near: float) -> bool:
    """Whether medians of five neighbours scatter around their trend by 1.8 times the noise between neighbours.

    Each of their steps beyond twice that noise is left out, with those beside it: it is a level, not noise.
    """
    if len(values) < 25 or not 0 < 1.6 * near < spread:
        return False
    steps = steps_of([middle(values[start : start + 5]) for start in range(len(values) - 4)])
    jumps = [abs(step) > 2 * near for step in steps]
    calm = [0.0 if any(jumps[max(0, at - 2) : at + 3]) else step for at, step in enumerate(steps)]
    return spread_of(without_trend(list(accumulate(calm, initial=0.0))), coarse=True) > 1.8 * near


def without_trend(values: Sequence[float]) -> list[float]:
    n = len(values)
    places, mean = [place - (n - 1) / 2 for place in range(n)], sum(values) / n
    rest = [value - mean for value in values]
    slope = _product(places, rest) / _product(places, places)
    return [each - slope * place for each, place in zip(rest, places, strict=True)]


@dataclass(frozen=True, slots=True)
class Floor:
    """The smallest change that matters, in the unit of the metric."""

    size: float
    why: str
    """In words: `2 %`, or `1 %, five times its noise`."""


def floor_of(
    noise: Noise, measure: Measure | None = None, percent: float | None = None, absolute: float | None = None
) -> Floor:
    """The smallest change that matters: as stated, in percent of the level or absolutely, or one that fits the metric.

    A ratio above 1 is in percent.
    """
    level = abs(noise.level)
    if percent is not None or absolute is not None:
        share, least = level / 100 * (percent or 0.0), absolute or 0.0
        stated = f"{percent:g} %" if percent is not None and share >= least else f"{least:g}"
        return Floor(max(share, least), f"{stated}, as stated")
    whole = 1.0 if level <= 1 else 100.0
    size, why = FLOOR * level, f"{100 * FLOOR:g} %"
    if measure is Measure.LOSS:
        size, why = CALM_FLOOR * level, f"{100 * CALM_FLOOR:g} %"
    elif noise.count >= KNOWN_RUNS and 5 * noise.spread < size:
        size = max(CALM_FLOOR * level, 5 * noise.spread)
        why = f"{100 * size / level:.2g} %, since its noise is small"
    if measure is Measure.RATIO and level <= whole:  # a tenth of what is missing to the whole
        points = min(max(0.1 * (whole - level), 0.002 * whole), 0.01 * whole)
        if points < size:
            return Floor(points, f"{100 * points / whole:.2g} points")
    if measure is Measure.COUNT and size < 1:
        return Floor(1.0, "one event")
    return Floor(size, why)
