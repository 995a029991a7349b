"""The chart of a metric in a mail: its last runs with their bounds."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Picture
from ml_metrics.model import JobStatus, Outcome

if TYPE_CHECKING:
    from datetime import datetime

    from ml_metrics.charts import Plotted
    from ml_metrics.model import Verdict
    from ml_metrics.reports.metric import MetricHistory
    from ml_metrics.warehouse import MetricValue

log = logging.getLogger(__name__)

MAX_POINTS = 30
"""More runs are indistinguishable on a phone."""


def picture_of(number: int, verdict: Verdict, history: MetricHistory, run_key: str, at: datetime) -> Picture | None:
    """Draw the chart, or return None if that fails: the mail is then sent without it."""
    from ml_metrics.charts import Plotted, as_png, metric_chart

    bounds = verdict.bounds
    now = Plotted(
        run_key=run_key,
        at=at,
        value=verdict.value,
        lower=None if bounds is None or bounds.lower == float("-inf") else bounds.lower,
        upper=None if bounds is None or bounds.upper == float("inf") else bounds.upper,
        outcome=verdict.outcome,
    )
    points = [*(plotted(value) for value in history.values[-MAX_POINTS:]), now]
    try:
        png = as_png(metric_chart("", points, width=560, height=180))
    except Exception:  # any error of the drawing library
        log.exception("the chart of %s could not be drawn", verdict.metric)
        return None
    return Picture(f"metric-{number}", png, f"{verdict.metric} in its last {len(points)} runs, with its bounds")


def plotted(value: MetricValue) -> Plotted:
    """Return a row of the warehouse as a point of a chart."""
    from ml_metrics.charts import Plotted

    return Plotted(
        run_key=value.run_key,
        at=value.timestamp,
        value=value.value,
        lower=value.lower,
        upper=value.upper,
        outcome=Outcome(value.verdict) if value.verdict in set(Outcome) else None,
        counts=value.job_status == JobStatus.SUCCESS and value.verdict != Outcome.FAIL,
    )
