"""The verdict on one metric of one run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.core.model import Bounds, Outcome, Severity, Verdict
from ml_metrics.core.units import quantities, quantity
from ml_metrics.core.values import finite
from ml_metrics.judge.baseline import baseline_of, differences, note_on_baseline, series_of, uses_history
from ml_metrics.judge.certainty import LEAST, false_alarm_rate, healthy_values, with_words, without_spread
from ml_metrics.judge.curves import curve_verdict
from ml_metrics.judge.history import RECENT, worse_side
from ml_metrics.judge.level_changes import change_sentence, way_of
from ml_metrics.judge.wording import rule_of, violation

if TYPE_CHECKING:
    from ml_metrics.config.conditions import ChangePoint, Condition
    from ml_metrics.core.model import StoredMetric
    from ml_metrics.judge.history import EarlierRuns
    from ml_metrics.judge.level import LevelRule, LevelState


def level_verdict(verdict: Verdict, condition: Condition, earlier: EarlierRuns) -> Verdict:
    """Judge the level of a metric as a run leaves it.

    Single bad runs do not change the level. A loss fails until the old level returns or the new one is accepted, even
    after the runs of the old level have left the window.
    """
    from ml_metrics.judge.level import follow  # imports numpy, which no other rule needs

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
    from ml_metrics.judge.level import LevelRule

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
    from ml_metrics.judge.level import SUSPECTED_RUNS

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


RECENT_LEVEL = 50
"""How many runs show what is plausible at a level."""
REQUIRED = "required"
"""The rule of a metric that is required and has no condition."""


def verdict_on(  # noqa: PLR0913  (a verdict repeats what it is about)
    metric: str,
    value: float | None,
    condition: Condition,
    earlier: EarlierRuns,
    *,
    unit: str = "",
    key: str = "",
) -> Verdict:
    """Judge a value by its condition, which has the given key. The value is None if the run did not produce it.

    The verdict has bounds whenever the history suffices, since charts draw them.
    """
    unjudged = Verdict(
        metric=metric,
        outcome=Outcome.INSUFFICIENT_DATA,
        value=finite(value),
        bounds=None,
        rule=rule_of(condition),
        severity=condition.severity,
        unit=unit,
        condition="" if key == metric else key,
    )
    if condition.curve is not None:
        verdict = curve_verdict(unjudged, condition, condition.curve, earlier)
    elif condition.success_threshold.change_point is None:
        verdict = _compared(unjudged, condition, earlier)
    else:
        verdict = _plausible(level_verdict(unjudged, condition, earlier), condition, earlier)
    if verdict.reason and (note := note_on_baseline(metric, condition, earlier)):
        verdict = replace(verdict, reason=f"{verdict.reason}; {note}")
    if value is None:
        return replace(verdict, outcome=Outcome.MISSING, reason="the run did not produce it")
    if verdict.value is not None and condition.curve is not None:  # a distance, which the judge computes
        return verdict
    if not math.isfinite(value):
        return replace(verdict, outcome=Outcome.NON_FINITE, reason=f"the value is {value}")
    return with_words(verdict)


def verdict_without_condition(metric: str, value: float | None, *, required: bool) -> Verdict | None:
    """Return the verdict on a metric without a condition; None if it needs none."""
    severity = Severity.FAIL if required else Severity.WARN
    verdict = Verdict(metric, Outcome.PASS, finite(value), None, REQUIRED if required else "", severity=severity)
    if value is not None and not math.isfinite(value):
        return replace(verdict, outcome=Outcome.NON_FINITE, reason=f"the value is {value}")
    if not required:
        return None
    if value is None:
        return replace(
            verdict, outcome=Outcome.MISSING, reason="it is in required_metrics, and the run did not produce it"
        )
    return replace(verdict, reason="it is required, and the run produced it")


def not_judged(metric: str, value: float | None, condition: Condition | None, error: Exception) -> Verdict:
    """Return the failed verdict for a condition that could not be applied."""
    return Verdict(
        metric=metric,
        outcome=Outcome.FAIL,
        value=finite(value),
        bounds=None,
        rule="" if condition is None else condition.success_threshold.kind,
        reason=f"the condition could not be applied: {error or type(error).__name__}",
        severity=Severity.FAIL if condition is None else condition.severity,
    )


def _plausible(verdict: Verdict, condition: Condition, earlier: EarlierRuns) -> Verdict:
    """Return the verdict on a level, marked if the value of this run is implausibly good beside the recent ones."""
    value, side = verdict.value, worse_side(condition)
    if verdict.outcome is not Outcome.PASS or value is None or verdict.reference is None:
        return verdict
    if side * (value / 2 - verdict.reference / 2) >= 0:  # most runs that are near the level need no more
        return verdict
    from ml_metrics.judge.bounds import with_warning

    recent = baseline_of(verdict.metric, condition, earlier)[-RECENT_LEVEL:]
    return with_warning(verdict, condition, [row.value for row in recent if row.value is not None])


def _compared(verdict: Verdict, condition: Condition, earlier: EarlierRuns) -> Verdict:
    from ml_metrics.judge.bounds import compared, with_warning

    baseline = baseline_of(verdict.metric, condition, earlier) if uses_history(condition) else []
    needed = condition.fewest_runs
    if len(baseline) < needed:
        reason = f"the history has {len(baseline)} of the {needed} runs required"
        return replace(verdict, baseline_points=len(baseline), reason=reason)
    base = compared(condition, baseline)
    span, text = base.span, "; ".join(filter(None, (base.span.text(verdict.unit), base.note)))
    verdict = replace(
        verdict,
        baseline_points=len(base.rows),
        bounds=span.bounds,
        reference=span.reference,
        spread=span.spread,
        reason=text,
    )
    value = verdict.value
    if value is None:
        return verdict
    rows = earlier.rows(verdict.metric, condition.series_of(earlier.test)) if baseline else []
    healthy = healthy_values(base.rows, rows, max(RECENT, condition.baseline_runs))
    rate = false_alarm_rate(value, healthy, condition.comparison)
    if span.bounds.contains(value):
        passed = replace(verdict, outcome=Outcome.PASS, false_alarm_rate=rate)
        return with_warning(passed, condition, base.values)
    violated = violation(value, span.bounds, verdict.unit)
    compared_with = f"{violated} ({text})" if text else violated
    reason = "; ".join(filter(None, (compared_with, without_spread(healthy, verdict.unit))))
    return replace(verdict, outcome=Outcome.FAIL, false_alarm_rate=rate, reason=reason)
