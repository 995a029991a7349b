"""The chart of a metric inside a mail: its last runs and the bounds that they were judged by."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Picture
from ml_metrics.model import JobStatus, Outcome

if TYPE_CHECKING:
    from datetime import datetime

    from ml_metrics.charts import Plotted
    from ml_metrics.model import Verdict
    from ml_metrics.reports.past import MetricPast
    from ml_metrics.warehouse import MetricValue

log = logging.getLogger(__name__)

SHOWN = 30
"""How many runs a phone's screen tells apart."""


def picture_of(number: int, verdict: Verdict, past: MetricPast, run_key: str, at: datetime) -> Picture | None:
    """Draw it. A mail goes out without its picture rather than not at all."""
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
    points = [*(plotted(value) for value in past.values[-SHOWN:]), now]
    try:
        png = as_png(metric_chart("", points, width=560, height=180))
    except Exception:  # whatever the drawing library stumbles over
        log.exception("the chart of %s could not be drawn", verdict.metric)
        return None
    return Picture(f"metric-{number}", png, f"{verdict.metric} in its last {len(points)} runs, with its bounds")


def plotted(value: MetricValue) -> Plotted:
    """A row of the warehouse as a point of a chart."""
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
