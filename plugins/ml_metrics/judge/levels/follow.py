"""The level of a metric, run by run.

A loss opens when the newest runs are a worse level than the accepted runs before them, and closes when the old level
returns. While a loss is open, no run is accepted. A better level that lasts becomes the level to keep.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.judge.levels.noise import BASELINE_RUNS, levels_before, spreads
from ml_metrics.judge.levels.periods import LevelState, OpenLoss, Steady, margins
from ml_metrics.judge.levels.rule import BETTER, MAX_SIZE, LevelRule
from ml_metrics.judge.levels.shifts import Loss, better_level, worse_level
from ml_metrics.judge.levels.slow_loss import PLATEAU, TAIL, slow_loss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ml_metrics.judge.levels.noise import Places, Values

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
