"""The share of a metric's values that are not finite numbers: a training that diverged must not pass by the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.config.aggregation import Strategy
from ml_metrics.model import Outcome

if TYPE_CHECKING:
    from ml_metrics.config.regression import Condition
    from ml_metrics.model import Metric, Verdict

KEY = "max_non_finite"


def limited(verdict: Verdict, metric: Metric, condition: Condition | None) -> Verdict:
    """Return the verdict with the share of values that are not finite: `non_finite` if the condition allows fewer.

    The number of points, `count`, is no value of them, so NaN does not make it wrong.
    """
    if not metric.non_finite or not metric.points or metric.strategy == Strategy.COUNT:
        return verdict
    share = metric.non_finite / metric.points
    verdict, text = replace(verdict, non_finite=share), metric.non_finite_text
    if verdict.outcome is Outcome.NON_FINITE or condition is None:
        return replace(verdict, reason="; ".join(filter(None, (verdict.reason, text))))
    if share <= condition.max_non_finite:
        return replace(verdict, reason="; ".join(filter(None, (verdict.reason, f"{text}, as {KEY} allows"))))
    reason = f"{text}; {KEY} of the condition allows a share of {condition.max_non_finite:g}"
    if verdict.outcome is Outcome.FAIL:
        reason = f"{reason}; beside that, {verdict.reason}"
    return replace(verdict, outcome=Outcome.NON_FINITE, reason=reason, false_alarm_rate=None, implausible=False)
