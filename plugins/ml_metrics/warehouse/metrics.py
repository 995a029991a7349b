"""The stored metrics of runs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ml_metrics.values import as_utc
from ml_metrics.warehouse.history import read_history
from ml_metrics.warehouse.record import FARTHEST_POINT, MetricRow
from ml_metrics.warehouse.rows import MetricValue, ShownMetric

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ml_metrics.judge import HistoryNeeds
    from ml_metrics.model import HistoryPoint
    from ml_metrics.warehouse.database import Database

VALUES = """
SELECT
  job.uuid, job.timestamp, metric.metric_value, metric.metric_lower_bound, metric.metric_upper_bound,
  job.job_status, metric.verdict, metric.rule, metric.baseline_points, metric.step
FROM job_history AS job
JOIN metric_history AS metric ON metric.uuid = job.uuid
WHERE job.test_name = :test AND metric.test_name = :test AND metric.metric_name = :metric
ORDER BY job.timestamp DESC, job.uuid DESC
LIMIT :limit
"""

OF_RUN = """
SELECT * FROM metric_history
WHERE uuid = :run
ORDER BY metric_name
"""

OF_TEST = """
SELECT
  metric.uuid, metric.metric_name, metric.metric_value, metric.metric_lower_bound, metric.metric_upper_bound,
  metric.verdict, metric.rule, metric.reference, metric.spread
FROM job_history AS job
JOIN metric_history AS metric ON metric.uuid = job.uuid
WHERE job.test_name = :test AND job.timestamp >= :since AND job.timestamp < :until
  AND metric.test_name = :test AND metric.timestamp >= :scan_from AND metric.timestamp < :scan_to
ORDER BY metric.metric_name
"""

OF_TESTS = """
SELECT
  job.uuid, job.test_name, job.dag_id, job.timestamp, metric.metric_name, metric.metric_value,
  metric.metric_lower_bound, metric.metric_upper_bound, metric.verdict
FROM job_history AS job
JOIN metric_history AS metric ON metric.uuid = job.uuid
WHERE job.test_name IN :tests AND job.timestamp >= :since AND job.timestamp < :until
  AND metric.test_name IN :tests AND metric.timestamp >= :scan_from AND metric.timestamp < :scan_to
  AND metric.metric_name IN :metrics
ORDER BY metric.metric_name, job.test_name, job.timestamp, job.uuid
LIMIT :limit
"""

NAMES = """
SELECT DISTINCT metric_name
FROM metric_history
WHERE test_name IN :tests AND timestamp >= :since AND timestamp < :until
ORDER BY metric_name
"""

BROKEN_BETWEEN = """
SELECT uuid, metric_name, metric_value, metric_lower_bound, metric_upper_bound, verdict
FROM metric_history
WHERE verdict IN ('fail', 'missing', 'non_finite') AND timestamp >= :since AND timestamp < :until
ORDER BY uuid, metric_name
"""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Queries for metrics."""

    database: Database

    def of_run(self, run_key: str) -> list[MetricRow]:
        """Return the metrics of one run, by name."""
        rows = self.database.query(OF_RUN, run=run_key)
        return [MetricRow(**{field.name: row[field.name] for field in fields(MetricRow)}) for row in rows]

    def values(self, test: str, metric: str, limit: int = 50) -> list[MetricValue]:
        """Return the newest values of a metric with the bounds that they were judged by, newest first."""
        return [
            MetricValue(
                run_key=row["uuid"],
                timestamp=row["timestamp"],
                value=row["metric_value"],
                lower=row["metric_lower_bound"],
                upper=row["metric_upper_bound"],
                job_status=row["job_status"],
                verdict=row["verdict"],
                rule=row["rule"],
                baseline_points=row["baseline_points"],
                step=row["step"],
            )
            for row in self.database.query(VALUES, test=test, metric=metric, limit=limit)
        ]

    def history(
        self, needs: HistoryNeeds, *, exclude: str = "", before: datetime | None = None, metrics: Iterable[str] = ()
    ) -> list[HistoryPoint]:
        """Return the rows that the judge needs of the runs before a run, with a constant number of queries.

        The run `exclude` and runs that stopped at or after `before` are left out. A run without metrics is one row
        with an empty metric name. `metrics` names metrics to read although no recent run may have them.
        """
        return read_history(self.database, needs, exclude=exclude, before=before, metrics=set(metrics))

    def of_test(self, test: str, since: datetime, until: datetime) -> list[ShownMetric]:
        """Return every metric of a test's runs in a time span, by name."""
        return [_shown_metric(row) for row in self.database.query(OF_TEST, test=test, **_span(since, until))]

    def of_tests(
        self, tests: Sequence[str], metrics: Sequence[str], since: datetime, until: datetime, limit: int
    ) -> list[ShownMetric]:
        """Return the values of some metrics of some tests, by metric, test and time."""
        if not tests or not metrics:
            return []
        names = {"tests": list(tests), "metrics": list(metrics)}
        rows = self.database.query(OF_TESTS, **names, limit=limit, **_span(since, until))
        return [_shown_metric(row) for row in rows]

    def names(self, tests: Sequence[str], since: datetime, until: datetime) -> list[str]:
        """Return the names of the metrics of some tests."""
        if not tests:
            return []
        rows = self.database.query(NAMES, tests=list(tests), since=as_utc(since), until=as_utc(until))
        return [row["metric_name"] for row in rows]

    def broken(self, since: datetime, until: datetime) -> list[ShownMetric]:
        """Return every metric that is out of bounds, missing or not finite, of runs in a time span."""
        start, end = as_utc(since) - FARTHEST_POINT, as_utc(until) + FARTHEST_POINT
        return [_shown_metric(row) for row in self.database.query(BROKEN_BETWEEN, since=start, until=end)]


def _span(since: datetime, until: datetime) -> dict[str, datetime]:
    """A time span of runs, and the wider span that their points may have been written in."""
    start, end = as_utc(since), as_utc(until)
    return {"since": start, "until": end, "scan_from": start - FARTHEST_POINT, "scan_to": end + FARTHEST_POINT}


def _shown_metric(row: dict[str, Any]) -> ShownMetric:
    return ShownMetric(
        run_key=row["uuid"],
        metric=row["metric_name"],
        value=row["metric_value"],
        lower=row["metric_lower_bound"],
        upper=row["metric_upper_bound"],
        verdict=row["verdict"],
        rule=row.get("rule"),
        test=row.get("test_name", ""),
        dag_id=row.get("dag_id") or row.get("test_name", ""),
        at=row.get("timestamp"),
        reference=row.get("reference"),
        spread=row.get("spread"),
    )
