"""A worse level, a better level and a slow loss, found at the first run that reveals them.

Values are turned so that greater is worse. A test looks at all runs of a range at once; what it finds at a run depends
on that run and the values before it only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ml_metrics.config.threshold import MIN_LEVEL_RUNS
from ml_metrics.judge.levels.noise import (
    BASELINE_RUNS,
    baselines_before,
    error_of_mean,
    errors_of_shifts,
    neighbour_noise,
    spreads,
)
from ml_metrics.judge.levels.rule import BETTER, SIZES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.judge.levels.noise import Baselines, Values
    from ml_metrics.judge.levels.rule import LevelRule, Size

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
