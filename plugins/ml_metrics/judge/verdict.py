"""The verdict on one metric of one run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.judge.baseline import baseline_of
from ml_metrics.judge.bounds import points_needed, span_of
from ml_metrics.judge.change import level_verdict
from ml_metrics.judge.needs import looks_back
from ml_metrics.judge.wording import beside, rule_of
from ml_metrics.model import Outcome, Severity, Verdict
from ml_metrics.values import finite

if TYPE_CHECKING:
    from ml_metrics.config.regression import Condition
    from ml_metrics.judge.history import Past

REQUIRED = "required"
"""The rule of a metric that only has to be there."""


def verdict_on(metric: str, value: float | None, condition: Condition, past: Past) -> Verdict:
    """Judge a value by its condition; `None` if the run did not produce it.

    Bounds are told wherever the history allows them, whatever the verdict: they are the lines in the chart.
    """
    unjudged = Verdict(
        metric=metric,
        outcome=Outcome.INSUFFICIENT_DATA,
        value=finite(value),
        bounds=None,
        rule=rule_of(condition),
        severity=condition.severity,
    )
    if condition.success_threshold.change_point is None:
        verdict = _compared(unjudged, condition, past)
    else:
        verdict = level_verdict(unjudged, condition, past)
    if value is None:
        return replace(verdict, outcome=Outcome.MISSING, reason="the run did not produce it")
    if not math.isfinite(value):
        return replace(verdict, outcome=Outcome.NON_FINITE, reason=f"the value is {value}")
    return verdict


def verdict_without_condition(metric: str, value: float | None, *, required: bool) -> Verdict | None:
    """The verdict on a metric that no condition covers; None if there is nothing to say."""
    severity = Severity.FAIL if required else Severity.WARN
    verdict = Verdict(metric, Outcome.PASS, finite(value), None, REQUIRED if required else "", severity=severity)
    if value is not None and not math.isfinite(value):
        return replace(verdict, outcome=Outcome.NON_FINITE, reason=f"the value is {value}")
    if not required:
        return None
    if value is None:
        return replace(
            verdict, outcome=Outcome.MISSING, reason="required_metrics names it, and the run did not produce it"
        )
    return replace(verdict, reason="required, and the run produced it")


def not_judged(metric: str, value: float | None, condition: Condition | None, error: Exception) -> Verdict:
    """The verdict where the rule itself broke: what could not be checked has not passed."""
    return Verdict(
        metric=metric,
        outcome=Outcome.FAIL,
        value=finite(value),
        bounds=None,
        rule="" if condition is None else condition.success_threshold.kind,
        reason=f"the condition could not be applied: {error or type(error).__name__}",
        severity=Severity.FAIL if condition is None else condition.severity,
    )


def _compared(verdict: Verdict, condition: Condition, past: Past) -> Verdict:
    values: list[float] = []
    if looks_back(condition):
        values = [row.value for row in baseline_of(verdict.metric, condition, past) if row.value is not None]
    verdict = replace(verdict, baseline_points=len(values))
    needed = points_needed(condition)
    if len(values) < needed:
        return replace(verdict, reason=f"the history has {len(values)} of the {needed} runs that this needs")
    span = span_of(condition, values)
    verdict = replace(verdict, bounds=span.bounds, reference=span.reference, spread=span.spread, reason=span.text)
    if verdict.value is None:
        return verdict
    if span.bounds.contains(verdict.value):
        return replace(verdict, outcome=Outcome.PASS)
    why = beside(verdict.value, span.bounds)
    return replace(verdict, outcome=Outcome.FAIL, reason=f"{why} ({span.text})" if span.text else why)
