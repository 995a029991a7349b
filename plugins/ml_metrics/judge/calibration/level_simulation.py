"""What `change_point` finds in simulated runs, and the `min_change` with which it keeps the budget of false alarms.

The rule follows a series run by run, so fewer series are simulated than for the rules that need only a baseline.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.judge.calibration.simulation import FALSE_ALARMS, FOUND_SHARE, WINDOW
from ml_metrics.judge.levels import LevelRule, follow
from ml_metrics.judge.replay import beginnings

if TYPE_CHECKING:
    from ml_metrics.judge.calibration.simulation import SimulatedRuns, Values

HEALTHY_SERIES = 20
LOSSES = 40
STEPS = 7
LARGEST = 16.0
"""The largest change that is tried, in deviations of the noise."""
MINIMA = (0.0, 1.0, 2.0, 4.0)
"""The values of `min_change` that are tried, in deviations of the noise."""


@dataclass(frozen=True, slots=True)
class LevelRuleFound:
    """The rule with the smallest `min_change` that keeps the budget, in the unit of the simulated runs."""

    min_change: float
    smallest_change: float
    false_alarms: float
    """The share of healthy runs at which it starts to fail."""


def level_rule_for(runs: SimulatedRuns, *, both_sides: bool) -> LevelRuleFound | None:
    """Return the calibrated rule; None if no `min_change` that was tried keeps the budget."""
    worse = 0 if both_sides else 1
    for minimum in MINIMA:
        rule = LevelRule(worse=worse, min_change=minimum * runs.spread)
        false_alarms = _false_alarms(runs, rule)
        if false_alarms <= FALSE_ALARMS:
            return LevelRuleFound(minimum * runs.spread, _smallest_change(runs, rule), false_alarms)
    return None


def _false_alarms(runs: SimulatedRuns, rule: LevelRule) -> float:
    """Return the share of healthy runs at which the rule starts to fail."""
    healthy = runs.healthy[:HEALTHY_SERIES]
    starts = 0
    for series in healthy:
        starts += len(beginnings(follow(series, rule).failing))
    return starts / healthy.size


def _smallest_change(runs: SimulatedRuns, rule: LevelRule) -> float:
    """Return the smallest change that is found in `FOUND_SHARE` of the series."""
    series = runs.losses[:: max(1, len(runs.losses) // LOSSES)][:LOSSES]
    allowed = math.floor((1 - FOUND_SHARE) * len(series))
    low, high = 0.0, LARGEST * runs.spread
    for _ in range(STEPS):
        middle = (low + high) / 2
        if _missed(series, middle, rule, allowed) <= allowed:
            high = middle
        else:
            low = middle
    return high


def _missed(series: Values, change: float, rule: LevelRule, allowed: int) -> int:
    """Return in how many series the change is not found. More than `allowed` are not counted further."""
    missed = 0
    for one in series:
        changed = one.copy()
        changed[WINDOW:] += change
        missed += not follow(changed, rule).failing[WINDOW:].any()
        if missed > allowed:
            break
    return missed
