"""The stored cost of runs: their cost metrics, in one query for all runs of a time span."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.efficiency.week import run_costs
from ml_metrics.values import as_utc
from ml_metrics.warehouse.deployment import of_deployment
from ml_metrics.warehouse.record import MAX_POINT_DISTANCE

if TYPE_CHECKING:
    from datetime import datetime

    from ml_metrics.efficiency.week import RunCost
    from ml_metrics.warehouse.database import Database

BETWEEN = f"""
SELECT job.uuid AS run_key, job.test_name AS test, job.dag_id, job.owner, job.timestamp, job.job_status, job.trial,
  cost.metric_name AS metric, cost.metric_value AS value
FROM job_history AS job
LEFT JOIN (
  SELECT uuid, metric_name, metric_value FROM metric_history
  WHERE {of_deployment()} AND timestamp >= :scan_from AND timestamp < :scan_to
    AND (metric_name = 'chip_hours' OR metric_name LIKE 'cost_%')
) AS cost ON cost.uuid = job.uuid
WHERE {of_deployment("job")} AND job.timestamp >= :since AND job.timestamp < :until
ORDER BY job.timestamp, job.uuid
"""  # noqa: S608  (constants)
"""Trials are among them: their chips cost as much. A run without such a metric has one row."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Queries for the cost of runs."""

    database: Database

    def between(self, since: datetime, until: datetime) -> list[RunCost]:
        """Return every run that stopped in a time span with its cost, trials included, oldest first."""
        start, end = as_utc(since), as_utc(until)
        scan = {"scan_from": start - MAX_POINT_DISTANCE, "scan_to": end + MAX_POINT_DISTANCE}
        rows: list[dict[str, Any]] = self.database.query(BETWEEN, since=start, until=end, **scan)
        return run_costs(rows)
