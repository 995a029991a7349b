"""The stored metrics of runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.kinds import kind_of
from ml_metrics.model import JobStatus, Outcome, Severity, StoredMetric
from ml_metrics.values import as_utc
from ml_metrics.warehouse.deployment import OF_DEPLOYMENT, of_deployment
from ml_metrics.warehouse.history import read_history
from ml_metrics.warehouse.record import MAX_POINT_DISTANCE
from ml_metrics.warehouse.tables import VERDICT_IS_BROKEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ml_metrics.judge import HistoryNeeds
    from ml_metrics.warehouse.database import Database

STATUSES = {status.value: status for status in JobStatus}
OUTCOMES = {outcome.value: outcome for outcome in Outcome}

COLUMNS = """job.uuid AS run_key, job.test_name AS test, job.dag_id, job.timestamp, job.job_status,
  metric.metric_name AS metric, metric.metric_value AS value, metric.metric_lower_bound AS lower,
  metric.metric_upper_bound AS upper, metric.verdict AS outcome, metric.rule, metric.baseline_points, metric.reference,
  metric.spread, metric.step, metric.timestamp AS written_at, metric.condition,
  metric.unit, metric.better, metric.non_finite, metric.severity, job.trial"""
"""The fields of a `StoredMetric`."""

METRICS = f"""
SELECT {COLUMNS}
FROM job_history AS job
JOIN metric_history AS metric ON metric.uuid = job.uuid"""  # noqa: S608

VALUES = f"""{METRICS}
WHERE {of_deployment("job")} AND job.test_name = :test AND metric.test_name = :test AND metric.metric_name = :metric
  AND job.trial IS NULL
ORDER BY job.timestamp DESC, job.uuid DESC
LIMIT :limit
"""

VALUES_WITH_TRIALS = VALUES.replace("  AND job.trial IS NULL\n", "")

OF_RUN = f"""{METRICS}
WHERE {of_deployment("job")} AND job.uuid = :run AND metric.uuid = :run
ORDER BY metric.metric_name
"""

OF_TEST = f"""{METRICS}
WHERE {of_deployment("job")} AND job.test_name = :test AND job.timestamp >= :since AND job.timestamp < :until
  AND metric.test_name = :test AND metric.timestamp >= :scan_from AND metric.timestamp < :scan_to
ORDER BY metric.metric_name
"""

OF_TESTS = f"""{METRICS}
WHERE {of_deployment("job")} AND job.test_name IN :tests AND job.timestamp >= :since AND job.timestamp < :until
  AND metric.test_name IN :tests AND metric.timestamp >= :scan_from AND metric.timestamp < :scan_to
  AND metric.metric_name IN :metrics
  AND job.trial IS NULL
ORDER BY metric.metric_name, job.test_name, job.timestamp, job.uuid
LIMIT :limit
"""

NAMES = f"""
SELECT DISTINCT metric_name
FROM metric_history
WHERE {OF_DEPLOYMENT} AND test_name IN :tests AND timestamp >= :since AND timestamp < :until
  AND trial IS NULL
ORDER BY metric_name
"""  # noqa: S608  (constants)

BROKEN = f"""
SELECT {COLUMNS}
FROM (
  SELECT * FROM metric_history
  WHERE {VERDICT_IS_BROKEN} AND timestamp >= :scan_from AND timestamp < :scan_to
) AS metric
CROSS JOIN job_history AS job
WHERE job.uuid = metric.uuid AND {of_deployment("job")} AND job.timestamp >= :since AND job.timestamp < :until
  AND job.trial IS NULL
ORDER BY job.uuid, metric.metric_name
"""  # noqa: S608  (constants)
"""The cross join makes SQLite begin with the few broken metrics, which have an index of their own."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Queries for metrics. Those about one run include trials; the others leave them out unless stated."""

    database: Database

    def of_run(self, run_key: str) -> list[StoredMetric]:
        """Return the metrics of one run, by name."""
        return [_stored_metric(row) for row in self.database.query(OF_RUN, run=run_key)]

    def values(self, test: str, metric: str, limit: int = 50, *, trials: bool = False) -> list[StoredMetric]:
        """Return the newest values of a metric, newest first; of trials as well if that is wanted."""
        rows = self.database.query(VALUES_WITH_TRIALS if trials else VALUES, test=test, metric=metric, limit=limit)
        return [_stored_metric(row) for row in rows]

    def history(
        self, needs: HistoryNeeds, *, exclude: str = "", before: datetime | None = None, metrics: Iterable[str] = ()
    ) -> list[StoredMetric]:
        """Return the rows that the judge needs of the runs before a run, with a constant number of queries.

        The run `exclude` and runs that stopped at or after `before` are left out. A run without metrics is one row
        with an empty metric name. `metrics` names metrics to read although no recent run may have them.
        """
        return read_history(self.database, needs, exclude=exclude, before=before, metrics=set(metrics))

    def of_test(self, test: str, since: datetime, until: datetime) -> list[StoredMetric]:
        """Return every metric of a test's runs in a time span, by name. Trials are included."""
        return [_stored_metric(row) for row in self.database.query(OF_TEST, test=test, **_span(since, until))]

    def of_tests(
        self, tests: Sequence[str], metrics: Sequence[str], since: datetime, until: datetime, limit: int
    ) -> list[StoredMetric]:
        """Return the values of some metrics of some tests, by metric, test and time."""
        if not tests or not metrics:
            return []
        names = {"tests": list(tests), "metrics": list(metrics)}
        rows = self.database.query(OF_TESTS, **names, limit=limit, **_span(since, until))
        return [_stored_metric(row) for row in rows]

    def names(self, tests: Sequence[str], since: datetime, until: datetime) -> list[str]:
        """Return the names of the metrics of some tests."""
        if not tests:
            return []
        rows = self.database.query(NAMES, tests=list(tests), since=as_utc(since), until=as_utc(until))
        return [row["metric_name"] for row in rows]

    def broken(self, since: datetime, until: datetime) -> list[StoredMetric]:
        """Return every metric that is out of bounds, missing or not finite, of runs in a time span."""
        return [_stored_metric(row) for row in self.database.query(BROKEN, **_span(since, until))]


def _span(since: datetime, until: datetime) -> dict[str, datetime]:
    """A time span of runs, and the wider span that their points may have been written in."""
    start, end = as_utc(since), as_utc(until)
    return {"since": start, "until": end, "scan_from": start - MAX_POINT_DISTANCE, "scan_to": end + MAX_POINT_DISTANCE}


def _stored_metric(row: dict[str, Any]) -> StoredMetric:
    """Build a metric from its row. Unknown statuses, from an older system, count as failures."""
    status, outcome = STATUSES.get(row["job_status"], JobStatus.FAILURE), OUTCOMES.get(row["outcome"])
    kind = kind_of(row["metric"])
    facts = {name: getattr(kind, name) if row[name] is None else row[name] for name in ("unit", "better")}
    severity = Severity.WARN if row["severity"] == Severity.WARN else None
    known = {"severity": severity, "job_status": status, "outcome": outcome, "dag_id": row["dag_id"] or row["test"]}
    return StoredMetric(**{**row, **known, **facts})
