"""Losses that a rule may let pass for ever, each with a quiet twin: the same history in which nothing is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.judge import change_points
from ml_metrics.judge.level import LevelRule, follow

from .noise import Random, Values, remembering
from .real import labelled_series

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.judge.level import LevelState

    from .stories import Flags

SECOND = 25
"""How many runs after the first loss a second one begins."""
YEAR, LATE = 365, 15
CERTAIN, PERCENTS = 0.9, ((1, 2), (2, 3), (3, 5), (5, 10), (10, 1000))
QUIET_RUNS = 120
"""How many runs a quiet twin has after its history."""


@dataclass(frozen=True, slots=True)
class Silent:
    """A loss that could pass."""

    make: Callable[[Random, Flags], Values]
    """Returns the values of a metric whose marked runs are after the loss."""
    worse: int = 1
    history: int = 90
    """How many runs come before the loss."""
    within: int = 15
    """Within how many runs it should be told."""
    runs: int = 40
    """How many runs come after it."""

    def series(self, seed: int) -> Values:
        """The history and the loss."""
        return self.make(np.random.default_rng(seed), np.arange(self.history + self.runs) >= self.history)

    def quiet(self, seed: int) -> Values:
        """The history and as many runs more in which nothing is lost."""
        return self.make(np.random.default_rng(seed), np.zeros(self.history + QUIET_RUNS, dtype=np.bool_))


def _level(level: float, sd: float, lost: float, sd_after: float | None = None) -> Callable[[Random, Flags], Values]:
    """Normal noise around a level that is lost for another."""

    def make(random: Random, after: Flags) -> Values:
        spread = np.where(after, sd if sd_after is None else sd_after, sd)
        values: Values = np.where(after, lost, level) + spread * random.normal(size=len(after))
        return values

    return make


def _week(rise: float) -> Callable[[Random, Flags], Values]:
    """Nights of a weekend are 5 % slower."""

    def make(random: Random, after: Flags) -> Values:
        weekend = (np.arange(len(after)) + random.integers(7)) % 7 > 4
        values: Values = (100 + 5 * weekend) * (1 + rise * after) + random.normal(size=len(after))
        return values

    return make


def _modes(rise: float, share: float = 0.5, share_after: float | None = None) -> Callable[[Random, Flags], Values]:
    """Two kinds of nodes, of which one is 20 % slower."""

    def make(random: Random, after: Flags) -> Values:
        shares = np.where(after, share if share_after is None else share_after, share)
        level = np.where(random.random(len(after)) < shares, 120, 100)
        values: Values = level * (1 + rise * after) + random.normal(size=len(after))
        return values

    return make


def _flaky(share: float) -> Callable[[Random, Flags], Values]:
    """A share of the nights is 20 % slower."""

    def make(random: Random, after: Flags) -> Values:
        bad = after & (random.random(len(after)) < share)
        values: Values = 100 * (1 + 0.2 * bad) + 1.5 * random.normal(size=len(after))
        return values

    return make


def _lognormal(random: Random, after: Flags) -> Values:
    values: Values = 100 * np.exp(0.5 * random.normal(size=len(after))) * np.where(after, 2, 1)
    return values


def _twice(random: Random, after: Flags) -> Values:
    """A loss of 5 % is open when another 20 % are lost."""
    second = np.cumsum(after) > SECOND
    values: Values = 100 * np.where(second, 1.26, np.where(after, 1.05, 1.0)) + random.normal(size=len(after))
    return values


SILENT = {
    "accuracy .95 to .93, deviation .002": Silent(_level(0.95, 0.002, 0.93), worse=-1),
    "accuracy .99 to .97, deviation .0005": Silent(_level(0.99, 0.0005, 0.97), worse=-1),
    "+2.5 %, five deviations": Silent(_level(2.0, 0.01, 2.05)),
    "+2.5 %, eight deviations": Silent(_level(100, 0.31, 102.5)),
    "a constant, +2.4 %": Silent(_level(250, 0.0, 256)),
    "a week of 5 %, then +10 %": Silent(_week(0.1)),
    "a week of 5 %, then +5 %": Silent(_week(0.05)),
    "two modes 20 % apart, both +15 %": Silent(_modes(0.15)),
    "two modes 20 % apart, both +10 %": Silent(_modes(0.1)),
    "two modes 30:70, both +15 %": Silent(_modes(0.15, 0.3)),
    "half of the runs at the slow mode, then 95 %": Silent(_modes(0.0, 0.5, 0.95), within=40),
    "five runs, then twice as slow": Silent(_level(100, 1.5, 200), history=5),
    "+20 % in 30 % of the nights": Silent(_flaky(0.3), within=50, runs=60),
    "+20 % in half of the nights": Silent(_flaky(0.5)),
    "+15 %, and noise of 4 instead of 1 %": Silent(_level(100, 1, 115, 4)),
    "+12 %, and noise of 8 instead of 2 %": Silent(_level(100, 2, 112, 8)),
    "lognormal, twice the median": Silent(_lognormal, within=30),
    "+10 % in noise of 1.5 %": Silent(_level(100, 1.5, 110)),
    "another +20 % while +5 % are open": Silent(_twice, runs=60),
}
WANDERING = {
    "a random walk": lambda random, count: 100 * np.exp(np.cumsum(0.01 * random.normal(size=count))),
    "memory .9": lambda random, count: 100 + 3 * remembering(0.9)(random, count),
}
"""A year without any loss, whose level does not hold still."""
AGAIN = "another +20 % while +5 % are open"


def silent_figures(seeds: range) -> dict[str, dict[str, int]]:
    """Count, for each loss, the series that report it within 5 and 15 runs and in time, and quiet twins that alarm."""
    found = {}
    for name, one in SILENT.items():
        rule, first = LevelRule(worse=one.worse), one.history + SECOND * (name == AGAIN)
        told = []
        for seed in seeds:
            levels = follow(one.series(seed), rule)
            runs = [run for run in range(first, len(levels.failing)) if _is_told(levels.at(run), second=name == AGAIN)]
            told.append(runs[0] - first if runs else None)
        limits = {"soon": 5, "late": LATE, "in time": one.within}
        counts = {key: sum(each is not None and each < runs for each in told) for key, runs in limits.items()}
        quiet = sum(bool(follow(one.quiet(seed), rule).failing.any()) for seed in seeds)
        found[name] = {**counts, "runs": one.within, "quiet": quiet}
    return found


def _is_told(state: LevelState, *, second: bool) -> bool:
    return state.again is not None if second else state.failing


def wandering_figures(seeds: range) -> dict[str, tuple[int, int]]:
    """By kind of wandering, how many years alarm, and in which share of the runs it is named, in percent."""
    found = {}
    for name, make in WANDERING.items():
        years = [follow(make(np.random.default_rng(seed), YEAR), LevelRule(worse=1)) for seed in seeds]
        named = sum(not levels.at(run).watched.by_level for levels in years for run in range(YEAR))
        alarms = sum(bool(levels.failing.any()) for levels in years)
        found[name] = alarms, round(100 * named / YEAR / len(years))
    return found


def agreement_figures() -> dict[str, list[int]]:
    """Count, by size in percent, the certain, lasting changes of labelled series: those reported, and all."""
    found = {f"{low} to {high} %": [0, 0] for low, high in PERCENTS}
    for series in labelled_series():
        steps = change_points(series.values, certainty=CERTAIN)
        failing = {worse: follow(series.values, LevelRule(worse=worse)).failing for worse in (1, -1)}
        for step, end in zip(steps, [*(each.index for each in steps[1:]), len(series.values)], strict=False):
            size = abs(step.percent)
            for low, high in PERCENTS:
                if low <= size < high and end - step.index >= LATE:
                    told = failing[1 if step.after > step.before else -1][step.index : step.index + LATE].any()
                    found[f"{low} to {high} %"][0] += bool(told)
                    found[f"{low} to {high} %"][1] += 1
    return found
