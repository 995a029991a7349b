"""Decides which broken verdicts become alerts, and which need the confirmation of another run."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from ml_metrics.config.confirm import Confirm, ConfirmBy
from ml_metrics.judge.judgement import Alert, AlertKind, Unconfirmed
from ml_metrics.model import BROKEN, JobStatus, Outcome
from ml_metrics.units import quantities

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ml_metrics.config.confirm import Near
    from ml_metrics.config.regression import RegressionTestConfig
    from ml_metrics.judge.history import EarlierRuns
    from ml_metrics.model import Bounds, Verdict

AT_ONCE = Confirm(runs=1)
SECOND_FAILURE = 2
"""The number of failures that `alert_after_second_test_failure` requires."""


def job_alerts(
    config: RegressionTestConfig, earlier: EarlierRuns, status: JobStatus, failure_reason: str | None
) -> tuple[Alert, ...]:
    """Return the alert about a job that failed. Its metrics do not alert."""
    failed_before = bool(earlier.runs) and earlier.runs[-1].job_status is not JobStatus.SUCCESS
    if not config.alert_for_failed_jobs or (config.alert_after_second_test_failure and not failed_before):
        return ()
    message = f"job_status was `{status}` for test `{earlier.test}`"
    return (Alert(AlertKind.JOB_STATUS, None, message, failure_reason or ""),)


def metric_alerts(
    config: RegressionTestConfig, verdicts: Iterable[Verdict], test: str, missing: Mapping[str, str]
) -> tuple[Alert, ...]:
    """Return the alerts about verdicts that are broken or implausible, and not muted."""
    wanted = [verdict for verdict in verdicts if _alerts(verdict, config, missing)]
    warnings = (_warning(verdict, test) for verdict in wanted if verdict.implausible)
    return (*(_alert(verdict, config, test, missing) for verdict in wanted if verdict.broken), *warnings)


def confirmed(
    config: RegressionTestConfig, verdicts: Iterable[Verdict], earlier: EarlierRuns, missing: Mapping[str, str]
) -> tuple[tuple[Verdict, ...], tuple[Unconfirmed, ...]]:
    """Return the verdicts with their state of confirmation in the reason, and those that are not confirmed yet."""
    found: list[Verdict] = []
    unconfirmed: list[Unconfirmed] = []
    for verdict in verdicts:
        confirm = _confirmation(verdict, config) if verdict.broken and _alerts(verdict, config, missing) else AT_ONCE
        if confirm.runs == 1:
            found.append(verdict)
            continue
        broken = 1 + _broken_before(verdict.metric, earlier)
        if broken < confirm.runs:
            unconfirmed.append(Unconfirmed(verdict.metric, broken, confirm.runs, confirm.by is ConfirmBy.RERUN))
            state = f"not yet confirmed: {broken} of {confirm.runs} runs"
        else:
            state = f"confirmed by {broken} runs"
        found.append(replace(verdict, reason=f"{verdict.reason}; {state}" if verdict.reason else state))
    return tuple(found), tuple(unconfirmed)


def _confirmation(verdict: Verdict, config: RegressionTestConfig) -> Confirm:
    """Return how a broken verdict is to be confirmed.

    `confirm` is about noise: a metric that is missing, not a number or not judged alerts at once.
    """
    second = Confirm(runs=SECOND_FAILURE, by=ConfirmBy.NEXT) if config.alert_after_second_test_failure else AT_ONCE
    condition = config.condition_for(verdict.metric)
    given = condition.confirm if condition is not None else None
    if given is None or verdict.value is None or verdict.bounds is None or verdict.outcome is not Outcome.FAIL:
        return second
    if given.within is not None and not _is_near(verdict.value, verdict.bounds, given.within):
        return second
    return given if given.runs >= second.runs else second


def _is_near(value: float, bounds: Bounds, near: Near) -> bool:
    """Whether a value is at most so far beyond the bound that it violates."""
    bound = bounds.lower if value <= bounds.lower else bounds.upper
    width = max(near.absolute or 0.0, abs(bound) * (near.percent or 0.0) / 100)
    return abs(value - bound) <= width + math.ulp(bound)  # a value at this distance is near, whatever the rounding


def _alerts(verdict: Verdict, config: RegressionTestConfig, missing: Mapping[str, str]) -> bool:
    """Whether a verdict alerts. Settings can mute a condition, but not a required metric that is missing."""
    metric = verdict.metric
    if metric in missing or (config.requires(metric) and verdict.value is None):
        return True
    if config.condition_for(metric) is None and not config.requires(metric):
        return False
    return config.alert_for_oob_metrics and config.may_alert(metric)


def _broken_before(metric: str, earlier: EarlierRuns) -> int:
    """Return how many of the newest runs that were judged by this metric were broken, as stored, without a gap."""
    judged = (row.outcome for row in reversed(earlier.rows(metric)) if row.outcome is not Outcome.SKIPPED)
    return sum(1 for _ in takewhile(BROKEN.__contains__, judged))


def _warning(verdict: Verdict, test: str) -> Alert:
    message = f"Metric `{verdict.metric}` passed for test `{test}` and should be checked: it is {verdict.reason}"
    return Alert(AlertKind.IMPLAUSIBLE, verdict.metric, message)


def _alert(verdict: Verdict, config: RegressionTestConfig, test: str, missing: Mapping[str, str]) -> Alert:
    metric, reason = verdict.metric, verdict.reason
    if verdict.outcome is Outcome.MISSING or metric in missing:
        return Alert(AlertKind.MISSING, metric, f"Metric `{metric}` is missing for test `{test}`: {reason}")
    if verdict.outcome is Outcome.NON_FINITE:
        what = "is not a finite number" if verdict.value is None else "is made of values that are not all finite"
        return Alert(AlertKind.NON_FINITE, metric, f"Metric `{metric}` {what} for test `{test}`: {reason}")
    if verdict.value is None or verdict.bounds is None:
        return Alert(AlertKind.NOT_JUDGED, metric, f"Metric `{metric}` was not judged for test `{test}`: {reason}")
    condition = config.condition_for(metric)
    if condition is not None and condition.success_threshold.change_point is not None:
        return Alert(AlertKind.CHANGE_POINT, metric, f"Metric `{metric}` changed its level for test `{test}`: {reason}")
    lower, upper, value = quantities([verdict.bounds.lower, verdict.bounds.upper, verdict.value], verdict.unit)
    message = (
        f"Metric `{metric}` was out of bounds for test `{test}`. Bounds were ({lower}, {upper}) and value was {value}"
    )
    return Alert(AlertKind.OUT_OF_BOUNDS, metric, message)
