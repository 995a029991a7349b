"""The noise of a metric around its level: how far runs scatter, and how much a run resembles the one before.

Many baselines are described at once: each row of an array is one baseline, or one group of newest runs.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ml_metrics.config.conditions import MIN_LEVEL_RUNS, ChangePoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


if TYPE_CHECKING:
    Values = NDArray[np.float64]
    Places = NDArray[np.int_]

BASELINE_RUNS = 100
"""How many runs a baseline has at most."""
P50_OF_NORMAL, P68_OF_NORMAL, P80_OF_NORMAL, NEIGHBOURS_OF_NORMAL = 0.6745, 0.9945, 1.2816, 0.954
"""The median, 68th and 80th percentile of |x|, and the median of |x - y|, where the standard deviation is 1."""
MEDIAN_ERROR = 1.25
"""The standard error of a median in units of that of a mean, for normal noise."""
NEAR_RUNS = 12
OUTLIER = 2.5
"""Further from the level than this, in units of the noise, a value counts as that far: outliers have no memory."""
STRONG_MEMORY, MAX_MEMORY = 0.15, 0.85
MEMORY_ERROR = 1.0
"""How many standard errors are added to a strong memory, which few runs underestimate."""
SMALL_BASELINE = 3.0
"""The error of a baseline of n runs is larger by `SMALL_BASELINE` / (n - 4), because few runs hide their noise."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """The levels and the noise of baselines, one for each entry."""

    count: Places
    level: Values
    spread: Values
    """The standard deviation, robustly: a second mode or a rounding unit widens it, outliers do not."""
    memory: Values
    """The correlation of a run with the one before, at its upper end."""

    def one(self, index: int) -> Baselines:
        """Return a single baseline."""
        chosen = slice(index, index + 1)
        return Baselines(self.count[chosen], self.level[chosen], self.spread[chosen], self.memory[chosen])


def baselines_before(values: Values, ends: Places) -> Baselines:
    """Describe the newest values before each index."""
    rows = _windows_before(values, ends, BASELINE_RUNS)
    count = np.minimum(ends, BASELINE_RUNS)
    level = _middles(np.sort(rows, axis=1), count)
    distances = np.abs(rows - level[:, None])
    ordered = np.sort(distances, axis=1)
    spread = _spreads(ordered, count)
    return Baselines(count, level, spread, _memories(rows - level[:, None], spread, count))


def levels_before(values: Values, first: int, end: int) -> Values:
    """Return, for each index in [first, end), the median of the newest values before it; NaN for other indexes."""
    levels = np.full(len(values) + 1, np.nan)
    padded = np.concatenate([np.full(BASELINE_RUNS, np.nan), values])
    rows = np.sort(sliding_window_view(padded, BASELINE_RUNS)[first:end], axis=1)  # a view until it is sorted
    levels[first:end] = _middles(rows, np.minimum(np.arange(first, end), BASELINE_RUNS))
    return levels


def spreads(rows: Values) -> Values:
    """Return the standard deviation of each row, robustly."""
    distances = np.sort(np.abs(rows - _row_medians(np.sort(rows, axis=1))[:, None]), axis=1)
    count = np.full(len(rows), rows.shape[1])
    return _spreads(distances, count)


def _spreads(distances: Values, count: Places) -> Values:
    """Return the spread of each row of ordered distances from the level.

    The 80th percentile shows a second mode. The median counts unless a rounding unit has made it larger than the rest.
    """
    middle = np.minimum(_middles(distances, count) / P50_OF_NORMAL, _quantiles(distances, count, 0.68) / P68_OF_NORMAL)
    return np.maximum(middle, _quantiles(distances, count, 0.8) / P80_OF_NORMAL)


def neighbour_noise(values: Values, runs: Places, length: int = NEAR_RUNS) -> Values:
    """Return the noise between neighbours, among the newest runs up to each: a step affects one difference only."""
    steps = np.abs(np.diff(values))
    count = np.minimum(runs, length - 1)
    if not len(steps):
        return np.zeros(len(runs))
    middle = _middles(np.sort(_windows_before(steps, runs, length - 1), axis=1), np.maximum(count, 1))
    return np.where(count >= NEAR_RUNS // 4, middle / NEIGHBOURS_OF_NORMAL, 0.0)


def errors_of_shifts(baselines: Baselines, local: Values, size: int) -> Values:
    """Return the standard error of the distance of `size` runs, which scatter by `local` at least, from the level."""
    small = 1 + SMALL_BASELINE / np.maximum(1, baselines.count - 4)
    new = np.maximum(baselines.spread, local) * error_of_mean(size, baselines.memory)
    old = baselines.spread * error_of_mean(baselines.count, baselines.memory)
    return MEDIAN_ERROR * small * np.hypot(new, old)


def error_of_mean(count: int | Places, memory: float | Values) -> Values:
    """Return the standard error of the mean of neighbouring runs, in units of the noise of one (AR(1))."""
    runs = np.asarray(count, dtype=np.float64)
    variance = ((1 + memory) / (1 - memory) - 2 * memory * (1 - memory**runs) / (runs * (1 - memory) ** 2)) / runs
    return cast("Values", np.sqrt(variance))


def memory_of(residuals: Values, spread: float) -> float:
    """Return the correlation of each residual with the one before, at its upper end."""
    row, spreads_, count = residuals[None], np.array([spread]), np.array([len(residuals)])
    return float(_memories(row - np.median(row), spreads_, count)[0])


def _memories(residuals: Values, spread: Values, count: Places) -> Values:
    unit = np.where(spread > 0, spread, 1.0)
    with np.errstate(over="ignore"):  # what overflows is an outlier
        rest = np.clip(np.nan_to_num(residuals / unit[:, None]), -OUTLIER, OUTLIER)
    power = np.einsum("ij,ij->i", rest, rest)
    memory = np.einsum("ij,ij->i", rest[:, 1:], rest[:, :-1]) / np.where(power > 0, power, 1.0)
    memory += (1 + 3 * np.maximum(memory, 0)) / count  # the bias of few runs
    memory = np.where(memory > STRONG_MEMORY, memory + MEMORY_ERROR / np.sqrt(count), memory)
    return np.where((spread > 0) & (count >= NEAR_RUNS // 2), np.clip(memory, 0, MAX_MEMORY), 0.0)


def _windows_before(values: Values, ends: Places, length: int) -> Values:
    """Return the values before each index as a row, with NaN where there are fewer than `length`."""
    padded = np.concatenate([np.full(length, np.nan), values])
    return cast("Values", sliding_window_view(padded, length)[ends])


def _middles(ordered: Values, count: Places) -> Values:
    """Return the median of the first `count` values of each ordered row."""
    rows = np.arange(len(ordered))
    return 0.5 * ordered[rows, (count - 1) // 2] + 0.5 * ordered[rows, count // 2]


def _row_medians(ordered: Values) -> Values:
    length = ordered.shape[1]
    return 0.5 * ordered[:, (length - 1) // 2] + 0.5 * ordered[:, length // 2]


def _quantiles(ordered: Values, count: Places, share: float) -> Values:
    place = (count - 1) * share
    lower = np.floor(place).astype(np.int_)
    rows = np.arange(len(ordered))
    rest = place - lower
    return cast("Values", ordered[rows, lower] * (1 - rest) + ordered[rows, np.minimum(lower + 1, count - 1)] * rest)


MAX_SIZE = 15
USUAL = ChangePoint()
"""What a condition has that states nothing else."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many of the newest runs may be a new level."""

    runs: int
    needed: int
    """How many of them must be that far away. Two bad runs are never a level."""
    errors: float
    """How many standard errors they must be from the old level."""


SIZES = (Size(3, 3, 3), Size(4, 3, 3), Size(5, 3, 3.25), Size(6, 4, 4), Size(8, 5, 4), Size(10, 6, 4), Size(15, 8, 4))
BETTER = Size(12, 10, 4.5)
"""A better level is the one to keep after ten runs: a week of lucky runs is not."""


@dataclass(frozen=True, slots=True)
class LevelRule:
    """Which change of a level is a loss."""

    worse: int
    """1 if greater values are worse, -1 if smaller values are, 0 if both are."""
    min_change_percent: float = USUAL.min_change_percent
    """The smallest change, in percent of the old level."""
    min_change: float = 0.0
    """The smallest change, in the unit of the metric."""
    min_runs: int = USUAL.min_runs
    p_value: float = USUAL.p_value
    """The greatest probability that chance draws so few runs, as bad as these, from the baseline."""

    @property
    def directions(self) -> tuple[int, ...]:
        """Each direction that is worse."""
        return (self.worse,) if self.worse else (1, -1)

    def smallest_change(self, level: Values) -> Values:
        """Return the smallest change from each level that is a loss."""
        with np.errstate(over="ignore"):  # no change is infinite, so none is a loss
            change = np.maximum(np.abs(level) * (self.min_change_percent / 100), self.min_change)
        return np.maximum(change, np.finfo(np.float64).tiny)  # no change at all is no loss

    def sizes(self) -> list[Size]:
        """Return the sizes that a new level may have, the smallest first."""
        larger = [replace(size, needed=max(size.needed, self.min_runs)) for size in SIZES if size.runs > self.min_runs]
        errors = float(np.interp(self.min_runs, [size.runs for size in SIZES], [size.errors for size in SIZES]))
        return [Size(self.min_runs, self.min_runs, errors), *larger]


SUSPECTED_RUNS = 6
"""Among how many of the newest runs those at a new level are counted."""


@dataclass(frozen=True, slots=True)
class LevelState:
    """The level of a metric as one run leaves it."""

    failing: bool
    """Whether a loss is open."""
    reference: float
    """The level to keep."""
    margin: float
    """The distance from the reference from which on `min_runs` runs are a new level."""
    level: float
    """The level of the newest runs."""
    first: int | None = None
    """The index of the first run of the open loss."""
    false_alarm_rate: float | None = None
    """The probability that chance draws such runs from the baseline."""
    slow: bool = False
    """Whether the open loss added up slowly."""
    suspected: int = 0
    """How many of the newest `SUSPECTED_RUNS` runs are beyond the margin although no loss is open."""


@dataclass(frozen=True)
class Steady:
    """Runs without a loss."""

    start: int
    end: int
    values: Values
    """The accepted values before the start, then those of these runs and later ones."""
    accepted: int
    """How many values were accepted before the start."""
    rule: LevelRule

    def state(self, run: int) -> LevelState:
        """Return the state at a run, whose baseline is the accepted values before it."""
        index = run - self.start + self.accepted
        if index == 0:  # the very first run has no baseline
            return LevelState(failing=False, reference=float(self.values[0]), margin=0.0, level=float(self.values[0]))
        if run + 1 == self.end:  # the newest run, which alone is judged outside of a replay
            level, margin = (float(each[0]) for each in margins(self.values, np.array([index]), self.rule))
        else:
            level, margin = (float(each[index - 1]) for each in self._margins)
        newest = self.values[max(0, index + 1 - SUSPECTED_RUNS) : index + 1]
        beyond = max(np.count_nonzero((newest - level) * sign > margin) for sign in self.rule.directions)
        return LevelState(
            failing=False, reference=level, margin=margin, level=median(newest.tolist()), suspected=int(beyond)
        )

    @cached_property
    def _margins(self) -> tuple[Values, Values]:
        return margins(self.values, np.arange(1, len(self.values)), self.rule)


@dataclass(frozen=True, slots=True)
class OpenLoss:
    """Runs while a loss is open."""

    start: int
    loss: Loss
    margin: float
    first: int
    levels: tuple[float, ...]
    """The level at each of the runs."""

    @property
    def end(self) -> int:
        """The index after the last run."""
        return self.start + len(self.levels)

    def state(self, run: int) -> LevelState:
        """Return the state at a run: the level to keep is the one before the loss."""
        return LevelState(
            failing=True,
            reference=self.loss.before,
            margin=self.margin,
            level=self.levels[run - self.start],
            first=self.first,
            false_alarm_rate=self.loss.false_alarm_rate,
            slow=self.loss.slow,
        )


def margins(values: Values, ends: Places, rule: LevelRule) -> tuple[Values, Values]:
    """Return the level before each index, and the distance from which on `min_runs` runs are a new one."""
    old = baselines_before(values, ends)
    errors = SIZES[0].errors * errors_of_shifts(old, old.spread, rule.min_runs)
    return old.level, np.maximum(errors, rule.smallest_change(old.level))


FEW = 5
"""Up to this size the runs must also be rare: standard errors alone are not enough for noise that is not normal."""
OWN_GROUPS = 0.98
"""A new level is beyond this share of the groups of as many neighbours in the baseline, and by a margin:"""
OWN_MARGIN = 0.5


@dataclass(frozen=True, slots=True)
class Loss:
    """A worse level than before."""

    found: int
    """The index of the run that revealed it."""
    size: int
    """How many of the newest runs are the new level."""
    before: float
    after: float
    false_alarm_rate: float | None = None
    """The probability that as many runs, drawn from the baseline at random, are as bad. None for a slow loss."""

    @property
    def slow(self) -> bool:
        """Whether the loss added up slowly."""
        return self.false_alarm_rate is None


def worse_level(values: Values, least: Values, first: int, end: int, rule: LevelRule) -> Loss | None:
    """Return the loss that the earliest run in [first, end) reveals.

    `least` is where a loss begins, from the level before each index.
    """
    found: Loss | None = None
    for size in rule.sizes():
        runs = _runs(size, first, end if found is None else found.found)
        losses = (_confirmed(values, group, size, rule.p_value) for group in _groups(values, least, runs, size))
        found = next(filter(None, losses), found)
    return found


def better_level(values: Values, least: Values, first: int, end: int) -> int | None:
    """Return the first run in [first, end) with which a better level has lasted, in values of which more is better."""
    groups = _groups(values, least, _runs(BETTER, first, end), BETTER)
    return next((group.last for group in groups if _beyond_own_groups(values, group)), None)


@dataclass(frozen=True, slots=True)
class _Group:
    """The newest runs up to one, far from the level before them."""

    last: int
    values: Values
    """In ascending order."""
    old: Baselines
    """The single baseline before them."""

    def baseline(self, values: Values) -> Values:
        """Return the values of the baseline."""
        end = self.last + 1 - len(self.values)
        return values[max(0, end - BASELINE_RUNS) : end]


def _runs(size: Size, first: int, end: int) -> range:
    """Return the runs that have a baseline and as many newest runs."""
    return range(max(first, size.runs + max(MIN_LEVEL_RUNS, size.runs) - 1), end)


def _groups(values: Values, least: Values, runs: range, size: Size) -> Iterator[_Group]:
    """Yield the groups of newest runs of which enough are far enough above the level before."""
    if not runs:
        return
    first, end = runs.start - size.runs + 1, runs.stop - size.runs + 1
    least = least[first:end]
    if np.count_nonzero(values[first : runs.stop] >= least.min()) < size.needed:
        return  # nearly always, and much faster than to look at each group
    ordered = np.sort(sliding_window_view(values, size.runs)[first:end], axis=1)
    chosen = np.flatnonzero(ordered[:, size.runs - size.needed] >= least)
    if not len(chosen):
        return
    ends, ordered = first + chosen, ordered[chosen]
    old = baselines_before(values, ends)
    local = neighbour_noise(values, ends + size.runs - 1)
    if size.runs > SIZES[0].runs:
        local = np.maximum(local, spreads(ordered))
    shifts = ordered[:, size.runs - size.needed] - old.level
    for index in np.flatnonzero(shifts > size.errors * errors_of_shifts(old, local, size.runs)):
        yield _Group(int(ends[index]) + size.runs - 1, ordered[index], old.one(int(index)))


def _confirmed(values: Values, group: _Group, size: Size, p_value: float) -> Loss | None:
    """Return the loss unless the baseline makes such runs likely."""
    rate = _false_alarm_rate(group, group.baseline(values), size)
    young = max(1.0, BASELINE_RUNS / int(group.old.count[0]))  # a small baseline cannot prove that such runs are rarer
    if size.runs <= max(FEW, size.needed) and rate > p_value * young:
        return None
    if not _beyond_own_groups(values, group):
        return None
    return Loss(group.last, size.runs, float(group.old.level[0]), float(np.median(group.values)), rate)


def _false_alarm_rate(group: _Group, baseline: Values, size: Size) -> float:
    """Return the binomial probability that as many runs are alike if all come from the baseline."""
    spread = float(group.old.spread[0])
    least, greatest = group.values[size.runs - size.needed] - spread, group.values[-1] + spread
    share = (np.count_nonzero((baseline >= least) & (baseline <= greatest)) + 0.5) / (len(baseline) + 1)
    counts = range(size.needed, size.runs + 1)
    return math.fsum(math.comb(size.runs, each) * share**each * (1 - share) ** (size.runs - each) for each in counts)


def _beyond_own_groups(values: Values, group: _Group) -> bool:
    """Whether the baseline never was where the group is: a mode, a season or a bad week of the past is no new level."""
    size, baseline = len(group.values), group.baseline(values)
    if len(baseline) < 2 * size + 6:
        return True
    own = np.median(sliding_window_view(baseline, size), axis=1)
    margin = OWN_MARGIN * float(group.old.spread[0]) * float(error_of_mean(size, group.old.memory)[0])
    return bool(np.median(group.values) > np.quantile(own, OWN_GROUPS) + margin)


PLATEAU, TAIL = 21, 15
"""The newest 15 runs are compared with the best 21 runs in a row."""
PERCENT, ERRORS, NOISE = 4.25, 5.5, 2.9
"""How large a slow loss is: in percent, in standard errors, and in the noise of one run."""
SLOPE_RUNS = 60


def slow_loss(values: Values, first: int, end: int, best: float, rule: LevelRule) -> tuple[Loss | None, float]:
    """Return the first slow loss in [first, end), and the best plateau until there. `best` is that of earlier runs."""
    start = max(first, PLATEAU + 2)
    if start >= end:
        return None, best
    runs = np.arange(start, end)
    bests = np.minimum(best, np.minimum.accumulate(_medians(values, PLATEAU, runs)))
    tails = _medians(values, TAIL, runs)
    least = np.maximum(rule.smallest_change(bests), np.abs(bests) * (PERCENT / 100))
    chosen = np.flatnonzero(tails - bests >= least)
    chosen = chosen[tails[chosen] - bests[chosen] > _smallest_noise(values, runs[chosen])]
    for index in chosen:
        run, after, before = int(runs[index]), float(tails[index]), float(bests[index])
        if after - before > _noise_of_gap(values[max(0, run + 1 - BASELINE_RUNS) : run + 1]):
            return Loss(run, TAIL, before, after), before
    return None, float(bests[-1])


def _medians(values: Values, length: int, runs: Places) -> Values:
    medians: Values = np.median(sliding_window_view(values, length)[runs - length + 1], axis=1)
    return medians


def _smallest_noise(values: Values, runs: Places) -> Values:
    """Return the gap that noise without any memory can make."""
    near = neighbour_noise(values, runs, BASELINE_RUNS)
    noise = np.maximum(near, spreads(sliding_window_view(values, TAIL)[runs - TAIL + 1]))
    error = MEDIAN_ERROR * noise * np.hypot(error_of_mean(TAIL, 0.0), error_of_mean(PLATEAU, 0.0))
    return np.maximum(ERRORS * error, NOISE * near)


def _noise_of_gap(values: Values) -> float:
    """Return the gap that noise can make. The memory is that of the residuals, since a slope is no memory."""
    steps = np.diff(values)
    near = _neighbours(steps)
    noise = max(near, float(spreads(values[-TAIL:][None])[0]))
    slope = _without_slope(values[-SLOPE_RUNS:])
    memory = max(memory_of(steps, _neighbours(np.diff(steps))), memory_of(slope, noise))
    error = MEDIAN_ERROR * noise * math.hypot(error_of_mean(TAIL, memory), error_of_mean(PLATEAU, memory))
    return max(ERRORS * error, NOISE * near)


def _neighbours(steps: Values) -> float:
    """Return the noise between neighbours; from the mean where most of them are equal."""
    return float(np.median(np.abs(steps))) / NEIGHBOURS_OF_NORMAL or float(np.hypot.reduce(steps)) / math.sqrt(
        2 * len(steps)
    )


def _without_slope(values: Values) -> Values:
    places = np.arange(len(values)) - (len(values) - 1) / 2
    rest = values - values.mean()
    flat: Values = rest - float(places @ rest) / float(places @ places) * places
    return flat


AT_ONCE = 512
"""How many runs are tested together."""
LARGE_LOSS = 5.0
"""From this many standard deviations on, two of three runs show that the old level is back; else four of five."""
LEVEL_RUNS = 8
"""The level while a loss is open is the median of this many runs."""
SETTLED = 0.85
"""A slow loss closes when the newest runs are at less than this share of it."""
HUGE, SHRINK = 1e300, 2.0**-20
"""Values beyond the first are scaled by the second, so that no sum overflows."""


class Levels:
    """The level of a metric at each of its runs."""

    def __init__(self, count: int, periods: Sequence[Steady | OpenLoss], scale: float) -> None:
        self._count, self._periods, self._scale = count, periods, scale

    @cached_property
    def failing(self) -> NDArray[np.bool_]:
        """Whether a loss is open, for each run."""
        failing = np.zeros(self._count, dtype=np.bool_)
        for period in self._periods:
            failing[period.start : period.end] = isinstance(period, OpenLoss)
        return failing

    def at(self, run: int) -> LevelState:
        """Return the state at the run with this index; -1 is the newest."""
        index = run + self._count if run < 0 else run
        state = self._periods[bisect_right(self._periods, index, key=attrgetter("start")) - 1].state(index)
        if self._scale == 1:
            return state
        reference, margin, level = (each / self._scale for each in (state.reference, state.margin, state.level))
        return replace(state, reference=reference, margin=margin, level=level)


def follow(values: Sequence[float] | Values, rule: LevelRule) -> Levels:
    """Follow the level through finite values, oldest first. A state depends on no later value."""
    series = np.asarray(values, dtype=np.float64)
    scale = SHRINK if len(series) and float(np.max(np.abs(series))) > HUGE else 1.0
    follower = _Follower(series * scale, replace(rule, min_change=rule.min_change * scale))
    return Levels(len(series), follower.periods(), scale)


@dataclass(frozen=True, slots=True)
class _Better:
    """A better level that has lasted."""

    found: int


class _Follower:
    """Follows one metric from period to period."""

    def __init__(self, series: Values, rule: LevelRule) -> None:
        self._series, self._rule = series, rule
        self._accepted: Values = np.empty(0)
        self._runs: Places = np.empty(0, dtype=np.int_)
        """The index of each accepted value in the series."""
        self._best = dict.fromkeys(rule.directions, math.inf)

    def periods(self) -> list[Steady | OpenLoss]:
        """Return the periods in order. They cover each run once."""
        periods: list[Steady | OpenLoss] = []
        start = 0
        while start < len(self._series):
            values, accepted = np.concatenate([self._accepted, self._series[start:]]), len(self._accepted)
            event = self._next(values, accepted)
            found = len(values) if event is None else event[1].found
            end = start + found - accepted
            self._accepted, self._runs = values[: found + 1], np.concatenate([self._runs, np.arange(start, end + 1)])
            is_loss = event is not None and isinstance(event[1], Loss)
            steady = Steady(start, end if is_loss or event is None else end + 1, values, accepted, self._rule)
            if steady.end > steady.start:
                periods.append(steady)
            start = steady.end
            if event is None:
                break
            direction, change = event
            if isinstance(change, Loss):
                periods.append(self._loss(change, direction, start))
                start = periods[-1].end
            else:
                self._improve(direction)
        return periods

    def _next(self, values: Values, first: int) -> tuple[int, Loss | _Better] | None:
        """Return the first change from an index on, with the direction that is worse."""
        for start in range(first, len(values), AT_ONCE):
            end = min(len(values), start + AT_ONCE)
            best = dict(self._best)
            found: tuple[int, Loss | _Better] | None = None
            for direction in self._rule.directions:
                stop = end if found is None else found[1].found
                change = self._change(direction * values, start, stop, direction, first)
                found = found if change is None else (direction, change)
            if found is not None:
                for direction in set(self._rule.directions) - {found[0]}:  # they looked at later runs
                    uninterrupted = max(start, first + PLATEAU - 1)
                    _, self._best[direction] = slow_loss(
                        direction * values, uninterrupted, found[1].found, best[direction], self._rule
                    )
                return found
        return None

    def _change(self, values: Values, start: int, end: int, direction: int, period: int) -> Loss | _Better | None:
        """Return the first change in a range; at the same run, a loss comes before a slow one and a better level.

        `period` is where the range's period starts. No loss interrupts a better level or a plateau: a few lucky runs
        during each of several losses are neither.
        """
        levels = levels_before(values, max(1, start + 1 - max(MAX_SIZE, self._rule.min_runs)), end)
        margin = self._rule.smallest_change(levels)
        change: Loss | _Better | None = worse_level(values, levels + margin, start, end, self._rule)
        if self._rule.worse:
            lasting = max(start, period + BETTER.runs - 1)
            better = better_level(-values, margin - levels, lasting, end if change is None else change.found)
            change = change if better is None else _Better(better)
        stop = end if change is None else change.found + isinstance(change, _Better)
        uninterrupted = max(start, period + PLATEAU - 1)
        slow, self._best[direction] = slow_loss(values, uninterrupted, stop, self._best[direction], self._rule)
        return change if slow is None else slow

    def _improve(self, direction: int) -> None:
        """Keep the better level. The noise of the old one goes with it: so few runs show too little of it."""
        old, new = self._accepted[-BASELINE_RUNS - BETTER.runs : -BETTER.runs], self._accepted[-BETTER.runs :]
        before, after = float(np.median(old)), float(np.median(new))
        share = min(1.0, abs(after / before)) if before and after / before > 0 else 1.0
        kept = direction * (new - after) < direction * (before - after) / 2  # not the last runs of the old level
        runs = self._runs[-len(old) - len(new) :]
        self._accepted = np.concatenate([after + (old - before) * share, new[kept]])
        self._runs = np.concatenate([runs[: len(old)], runs[len(old) :][kept]])
        self._best[direction] = direction * after

    def _loss(self, loss: Loss, direction: int, start: int) -> OpenLoss:
        """Follow an open loss until the old level returns."""
        new_runs, new = self._runs[-loss.size :], self._accepted[-loss.size :]
        self._accepted, self._runs = self._accepted[: -loss.size], self._runs[: -loss.size]
        before, after = direction * loss.before, direction * loss.after
        beyond = np.flatnonzero(direction * (new - before) > direction * (after - before) / 2)
        first = int(new_runs[0 if loss.slow or not len(beyond) else beyond[0]])
        margin = float(margins(self._accepted, np.array([len(self._accepted)]), self._rule)[1][0])
        spread = float(spreads(self._accepted[-BASELINE_RUNS:][None])[0])
        recent = new.tolist()[-LEVEL_RUNS:]
        levels, greatest = [median(recent)], abs(after - before)
        for run, value in enumerate(self._series[start + 1 :].tolist(), start + 1):
            recent = [*recent[1 - LEVEL_RUNS :], value]
            greatest = max(greatest, direction * (median(recent) - before))
            limit = min(greatest / 2, margin)
            needed, of = (2, 3) if greatest > LARGE_LOSS * spread else (4, 5)
            returned = [direction * (each - before) < limit for each in recent[-of:]]
            if returned[-1] and sum(returned) >= needed:
                self._accept(np.arange(run - len(returned) + 1, run)[returned[:-1]])
                break
            if loss.slow and self._has_settled(start, run, direction, before, after):
                self._accept(np.arange(run - TAIL + 1, run))
                break
            levels.append(median(recent))
        return OpenLoss(start, replace(loss, before=before, after=after), margin, first, tuple(levels))

    def _has_settled(self, start: int, run: int, direction: int, before: float, after: float) -> bool:
        """Whether a slow loss has become clearly smaller: noise that remembers drifts back, a slow loss never does."""
        tail = self._series[run - TAIL + 1 : run + 1]
        return run - start >= TAIL and direction * (float(np.median(tail)) - before) < SETTLED * abs(after - before)

    def _accept(self, runs: Places) -> None:
        self._accepted = np.concatenate([self._accepted, self._series[runs]])
        self._runs = np.concatenate([self._runs, runs])
