"""Which change of a metric's level is a loss, and how many runs must have it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.config.threshold import ChangePoint

if TYPE_CHECKING:
    from ml_metrics.judge.levels.noise import Values

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
