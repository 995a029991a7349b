"""The rule `change_point`: a metric fails while its level is worse than the level to keep."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.judge.attributes import differences
from ml_metrics.judge.baseline import series_of
from ml_metrics.judge.certainty import LEAST
from ml_metrics.judge.level_changes import change_sentence, way_of
from ml_metrics.model import Bounds, Outcome
from ml_metrics.units import quantities, quantity

if TYPE_CHECKING:
    from ml_metrics.config.regression import Condition
    from ml_metrics.config.threshold import ChangePoint
    from ml_metrics.judge.history import EarlierRuns
    from ml_metrics.judge.levels import LevelRule, LevelState
    from ml_metrics.model import StoredMetric, Verdict


def level_verdict(verdict: Verdict, condition: Condition, earlier: EarlierRuns) -> Verdict:
    """Judge the level of a metric as a run leaves it.

    Single bad runs do not change the level. A loss fails until the old level returns or the new one is accepted, even
    after the runs of the old level have left the window.
    """
    from ml_metrics.judge.levels import follow  # imports numpy, which no other rule needs

    threshold = condition.success_threshold.change_point
    if threshold is None:
        raise TypeError("the condition has no change_point")
    rows = series_of(verdict.metric, condition, earlier)
    verdict = replace(verdict, baseline_points=len(rows))
    needed = condition.fewest_runs
    if len(rows) < needed:
        return replace(verdict, reason=f"the history has {len(rows)} of the {needed} runs required")
    values = [row.value for row in rows if row.value is not None]
    if verdict.value is not None:
        values.append(verdict.value)
    rule = _rule(condition, threshold)
    levels, newest = earlier.levels(verdict.metric, values, rule, follow)
    state = levels.at(newest)
    verdict = replace(verdict, bounds=_bounds(state, condition), reference=state.reference)
    if not state.failing:
        return replace(verdict, outcome=Outcome.PASS, reason=_steady(state, rule, verdict.unit))
    rate = None if state.false_alarm_rate is None else max(LEAST, state.false_alarm_rate)
    reason = _loss(state, rows, earlier, verdict.unit) + _return(verdict.value, state, verdict.unit)
    return replace(verdict, outcome=Outcome.FAIL, reason=reason, false_alarm_rate=rate)


def _rule(condition: Condition, threshold: ChangePoint) -> LevelRule:
    from ml_metrics.judge.levels import LevelRule

    comparison, smallest = condition.comparison, condition.min_change
    return LevelRule(
        worse=comparison.bounds_above - comparison.bounds_below,
        min_change_percent=max(threshold.min_change_percent, (smallest and smallest.percent) or 0.0),
        min_change=(smallest and smallest.absolute) or 0.0,
        min_runs=threshold.min_runs,
        p_value=threshold.p_value,
    )


def _bounds(state: LevelState, condition: Condition) -> Bounds:
    return Bounds(
        state.reference - state.margin if condition.comparison.bounds_below else -math.inf,
        state.reference + state.margin if condition.comparison.bounds_above else math.inf,
        inclusive=True,
    )


def _steady(state: LevelState, rule: LevelRule, unit: str) -> str:
    """Return why a level passes, and how many runs may be the beginning of a new one."""
    from ml_metrics.judge.levels import SUSPECTED_RUNS

    level, reference = quantities([state.level, state.reference], unit)
    reason = f"the level is {level}, not worse than {reference}"
    if not state.suspected:
        return reason
    return f"{reason}; {state.suspected} of {SUSPECTED_RUNS} runs at a new level, which takes {rule.min_runs} or more"


def _loss(state: LevelState, rows: list[StoredMetric], earlier: EarlierRuns, unit: str) -> str:
    """Return which level was lost, since when, and what changed then."""
    if state.slow or state.first is None:
        way = way_of(state.reference, state.level, unit)
        return f"the level {way} slowly: no run differs much from the ones before"
    keys = [*(row.run_key for row in rows), earlier.run_key]
    times = [*(row.timestamp for row in rows), earlier.now]
    differs = differences(earlier.attributes, keys[state.first - 1], keys[state.first]) if state.first else ()
    return change_sentence(state.reference, state.level, keys[state.first], times[state.first], differs, unit=unit)


def _return(value: float | None, state: LevelState, unit: str) -> str:
    """Return that a run is at the level to keep, which alone is not yet a level."""
    if value is None or abs(value - state.reference) >= abs(value - state.level):
        return ""
    return f"; this run is good again ({quantity(value, unit)}), which more runs must confirm"
