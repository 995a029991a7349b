"""The chart of a metric in a mail: its last runs with their bounds."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Picture
from ml_metrics.model import JobStatus, Outcome, StoredMetric
from ml_metrics.values import finite

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ml_metrics.model import Verdict
    from ml_metrics.reports.metric import MetricHistory

log = logging.getLogger(__name__)

MAX_POINTS = 30
"""More runs are indistinguishable on a phone."""


def picture_of(number: int, verdict: Verdict, history: MetricHistory, run_key: str, at: datetime) -> Picture | None:
    """Draw the chart, or return None if that fails: the mail is then sent without it."""
    from ml_metrics.charts import as_png, metric_chart

    bounds = verdict.bounds
    now = StoredMetric(
        run_key=run_key,
        timestamp=at,
        metric=verdict.metric,
        value=verdict.value,
        job_status=JobStatus.SUCCESS,
        outcome=verdict.outcome,
        lower=finite(bounds.lower) if bounds else None,
        upper=finite(bounds.upper) if bounds else None,
    )
    points = [*history.values[-MAX_POINTS:], now]
    excluded = failed_runs(history.values)
    try:
        png = as_png(metric_chart("", points, excluded=excluded, width=560, height=180))
    except Exception:  # any error of the drawing library
        log.exception("the chart of %s could not be drawn", verdict.metric)
        return None
    return Picture(f"metric-{number}", png, f"{verdict.metric} in its last {len(points)} runs, with its bounds")


def failed_runs(values: Iterable[StoredMetric]) -> frozenset[str]:
    """Return the keys of the runs that failed, by their status or by the outcome of the metric."""
    return frozenset(
        value.run_key for value in values if value.job_status is not JobStatus.SUCCESS or value.outcome is Outcome.FAIL
    )
