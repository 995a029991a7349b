"""The verdict on one metric of one run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.judge.baseline import baseline_of, note_on_baseline, uses_history
from ml_metrics.judge.certainty import false_alarm_rate, healthy_values, with_words, without_spread
from ml_metrics.judge.curves.verdict import curve_verdict
from ml_metrics.judge.history import RECENT
from ml_metrics.judge.level_verdict import level_verdict
from ml_metrics.judge.repeated import worse_side
from ml_metrics.judge.wording import rule_of, violation
from ml_metrics.model import Outcome, Severity, Verdict
from ml_metrics.values import finite

if TYPE_CHECKING:
    from ml_metrics.config.regression import Condition
    from ml_metrics.judge.history import EarlierRuns

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
    from ml_metrics.judge.comparable import with_warning

    recent = baseline_of(verdict.metric, condition, earlier)[-RECENT_LEVEL:]
    return with_warning(verdict, condition, [row.value for row in recent if row.value is not None])


def _compared(verdict: Verdict, condition: Condition, earlier: EarlierRuns) -> Verdict:
    from ml_metrics.judge.comparable import compared, with_warning

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
