"""Decides which broken verdicts become alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.judge.judgement import Alert, AlertKind
from ml_metrics.model import BROKEN, JobStatus, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ml_metrics.config.regression import RegressionTestConfig
    from ml_metrics.judge.history import EarlierRuns
    from ml_metrics.model import Verdict


def alerts_for(  # noqa: PLR0913  (the alerts depend on all of these)
    config: RegressionTestConfig,
    verdicts: Iterable[Verdict],
    earlier: EarlierRuns,
    *,
    status: JobStatus,
    missing: Mapping[str, str],
    failure_reason: str | None,
) -> tuple[Alert, ...]:
    """Return the alerts of a run: one for the job if it failed, else one for each broken metric."""
    if status is not JobStatus.SUCCESS:
        failed_before = bool(earlier.runs) and earlier.runs[-1].job_status is not JobStatus.SUCCESS
        if not config.alert_for_failed_jobs or (config.alert_after_second_test_failure and not failed_before):
            return ()
        message = f"job_status was `{status}` for test `{earlier.test}`"
        return (Alert(AlertKind.JOB_STATUS, None, message, failure_reason or ""),)
    broken = [verdict for verdict in verdicts if verdict.broken and _alerts(verdict, config, missing)]
    if config.alert_after_second_test_failure:
        broken = [verdict for verdict in broken if _broken_before(verdict.metric, earlier)]
    return tuple(_alert(verdict, config, earlier.test, missing) for verdict in broken)


def _alerts(verdict: Verdict, config: RegressionTestConfig, missing: Mapping[str, str]) -> bool:
    """Whether a broken verdict alerts. Settings can mute a condition, but not a required metric that is missing."""
    metric = verdict.metric
    if metric in missing or (metric in config.required_metrics and verdict.value is None):
        return True
    if config.condition_for(metric) is None and metric not in config.required_metrics:
        return False
    in_subset = not config.metric_subset_to_alert or metric in config.metric_subset_to_alert
    return config.alert_for_oob_metrics and in_subset


def _broken_before(metric: str, earlier: EarlierRuns) -> bool:
    """Whether the stored verdict of the last run that was judged by this metric is broken."""
    judged = (row.outcome for row in reversed(earlier.rows(metric)) if row.outcome is not Outcome.SKIPPED)
    return next(judged, None) in BROKEN


def _alert(verdict: Verdict, config: RegressionTestConfig, test: str, missing: Mapping[str, str]) -> Alert:
    metric, reason = verdict.metric, verdict.reason
    if verdict.outcome is Outcome.MISSING or metric in missing:
        return Alert(AlertKind.MISSING, metric, f"Metric `{metric}` is missing for test `{test}`: {reason}")
    if verdict.outcome is Outcome.NON_FINITE:
        return Alert(
            AlertKind.NON_FINITE, metric, f"Metric `{metric}` is not a finite number for test `{test}`: {reason}"
        )
    if verdict.value is None or verdict.bounds is None:
        return Alert(AlertKind.NOT_JUDGED, metric, f"Metric `{metric}` was not judged for test `{test}`: {reason}")
    condition = config.condition_for(metric)
    if condition is not None and condition.success_threshold.change_point is not None:
        return Alert(AlertKind.CHANGE_POINT, metric, f"Metric `{metric}` changed its level for test `{test}`: {reason}")
    message = (
        f"Metric `{metric}` was out of bounds for test `{test}`. "
        f"Bounds were {verdict.bounds} and value was {verdict.value:.6g}"
    )
    return Alert(AlertKind.OUT_OF_BOUNDS, metric, message)
