"""The periods of a metric: runs without a loss, and runs while a loss is open."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.judge.levels.noise import baselines_before, errors_of_shifts
from ml_metrics.judge.levels.rule import SIZES

if TYPE_CHECKING:
    from ml_metrics.judge.levels.noise import Places, Values
    from ml_metrics.judge.levels.rule import LevelRule
    from ml_metrics.judge.levels.shifts import Loss

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
