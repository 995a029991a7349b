"""The decisions of users about tests: accepted levels and quarantines. Rows are only added, but for undone ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.core.values import as_utc
from ml_metrics.warehouse.database import OF_DEPLOYMENT
from ml_metrics.warehouse.metrics import AT_PLACE
from ml_metrics.warehouse.runs import Runs

if TYPE_CHECKING:
    from ml_metrics.judge import Acceptance, HistoryNeeds
    from ml_metrics.warehouse.database import Database


ACCEPTANCES = f"""
SELECT test_name AS test, metric_name AS metric, uuid AS run_key, timestamp, metric_value AS value, accepted_at,
  accepted_by, reason
FROM acceptances
WHERE {OF_DEPLOYMENT} AND test_name = :test
ORDER BY timestamp, metric_name, accepted_at
"""

ACCEPT = f"""
INSERT INTO acceptances
  (test_name, metric_name, uuid, timestamp, metric_value, accepted_at, accepted_by, reason, deployment)
SELECT job.test_name, metric.metric_name, job.uuid, job.timestamp, metric.metric_value,
  :accepted_at, :accepted_by, :reason, job.deployment
FROM job_history AS job
JOIN metric_history AS metric ON metric.uuid = job.uuid
WHERE {AT_PLACE} AND metric.metric_name = :metric
  AND job.trial IS NULL
  AND NOT EXISTS (
    SELECT 1 FROM acceptances AS earlier WHERE earlier.uuid = :run AND earlier.metric_name = :metric
  )
"""

QUARANTINES = f"""
SELECT test_name, timestamp, until, reason, said_by
FROM (
  SELECT test_name, timestamp, until, reason, said_by,
    ROW_NUMBER() OVER (PARTITION BY test_name ORDER BY timestamp DESC) AS place
  FROM quarantines
  WHERE {OF_DEPLOYMENT}
) AS newest
WHERE place = 1
ORDER BY test_name
"""

QUARANTINE = """
INSERT INTO quarantines (test_name, timestamp, until, reason, said_by, deployment)
SELECT :test, :at, :until, :reason, :said_by, :deployment
FROM (SELECT 1 AS one) AS alone
WHERE NOT EXISTS (SELECT 1 FROM quarantines AS other WHERE other.test_name = :test AND other.timestamp = :at)
"""

UNDO = f"DELETE FROM quarantines WHERE {OF_DEPLOYMENT} AND said_by = :by AND timestamp = :at"

TICK = timedelta(microseconds=1)
"""The difference between the times of two quarantines of tests with one name: the key of the table is their time."""


@dataclass(frozen=True, slots=True)
class QuarantineRow:
    """A quarantine of a test: its alerts are muted until a time."""

    test: str
    at: datetime
    until: datetime
    """The end of the quarantine; the same as `at` in a row that lifts an earlier one."""
    reason: str
    by: str

    @property
    def last_day(self) -> date:
        """The last day (UTC) of which the quarantine has a part."""
        return (self.until - TICK).date()

    def holds(self, now: datetime) -> bool:
        return as_utc(now) < self.until


@dataclass(frozen=True, slots=True)
class Acceptances:
    """The levels of metrics that users accepted."""

    database: Database

    def add(self, run_key: str, metric: str, *, reason: str, by: str, at: datetime | None = None) -> bool:
        """Accept the level of a metric since a run. False for one accepted before, an unknown metric or a trial."""
        place = Runs(self.database).place(run_key)
        row = {"metric": metric, "reason": reason, "accepted_by": by, "accepted_at": as_utc(at or datetime.now(UTC))}
        return place is not None and self.database.change(ACCEPT, **row, **place.span) > 0

    def of_history(self, needs: HistoryNeeds) -> list[Acceptance]:
        """The accepted levels of every test that a judgement compares with, by the names in its rows."""
        found = [one for test in needs.tests for one in self.of_test(test)]
        for other in needs.elsewhere:
            there = Acceptances(self.database.in_deployment(other.deployment)).of_test(other.test)
            found += [replace(one, test=other.series) for one in there]
        return found

    def of_test(self, test: str) -> list[Acceptance]:
        """The accepted levels of a test's metrics, in the order of their runs."""
        from ml_metrics.judge import Acceptance

        return [Acceptance(**row) for row in self.database.query(ACCEPTANCES, test=test)]


@dataclass(frozen=True, slots=True)
class Quarantines:
    """The quarantines of tests."""

    database: Database

    def set(self, test: str, *, until: datetime, reason: str, by: str, at: datetime | None = None) -> QuarantineRow:
        """Quarantine a test until a time. A time in the past lifts the quarantine."""
        row = QuarantineRow(test, as_utc(at or datetime.now(UTC)), as_utc(until), reason, by)
        named = {"test": test, "until": row.until, "reason": reason, "said_by": by}
        while not self.database.change(QUARANTINE, at=row.at, **named):
            row = replace(row, at=row.at + TICK)
        return row

    def undo(self, *, by: str, at: datetime) -> bool:
        """Forget the quarantines that a user set at a moment: those before them hold again. False if there is none."""
        return self.database.change(UNDO, by=by, at=as_utc(at)) > 0

    def newest(self) -> dict[str, QuarantineRow]:
        """The newest row of each test that was ever quarantined; `holds` returns whether it is in force."""
        rows = [QuarantineRow(*row.values()) for row in self.database.query(QUARANTINES)]
        return {row.test: row for row in rows}
