"""The removal of old rows: of whole runs in all tables, then of closed incidents and of messages.

A transaction removes a run from all tables, so that a process that is killed leaves no half of a run. Rows that name no
deployment are kept, because they belong to every deployment; so are acceptances, which state the times of their runs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ml_metrics.values import BEGINNING_OF_TIME
from ml_metrics.warehouse.deployment import OF_DEPLOYMENT
from ml_metrics.warehouse.incidents import Incidents
from ml_metrics.warehouse.record import MAX_POINT_DISTANCE
from ml_metrics.warehouse.tables import RUN_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ml_metrics.warehouse.database import Database

GOOD_RUNS = 100
"""How many of the newest good runs of a test are kept, whatever their age: the default window of a baseline."""
BEFORE_INCIDENT = timedelta(days=10)
"""A run ends before its incident is opened; runs of such a time before an open incident are kept with it."""
RUNS_IN_BATCH = 100
"""How many runs a transaction removes in SQLite and PostgreSQL: a load waits for milliseconds."""
MOST_RUNS = 50_000
"""How many runs one query reads, and one job of BigQuery removes: 2 MB of its request."""
TICK = timedelta(microseconds=1)

OLDEST_NEEDED = f"""
SELECT test_name, MIN(timestamp) AS oldest
FROM (
  SELECT test_name, timestamp, ROW_NUMBER() OVER (PARTITION BY test_name ORDER BY timestamp DESC) AS place
  FROM job_history
  WHERE {OF_DEPLOYMENT} AND timestamp >= :horizon AND trial IS NULL
    AND job_status = 'success' AND (verdict IS NULL OR verdict <> 'fail')
) AS good
WHERE place <= :window
GROUP BY test_name
HAVING MIN(timestamp) < :until
"""  # noqa: S608  (constants)
"""The tests whose baseline may start before a time, with the oldest run that it needs."""

OLD_RUNS = """
SELECT uuid, timestamp
FROM job_history
WHERE deployment = :deployment AND timestamp < :until AND test_name NOT IN :spared
ORDER BY timestamp, uuid
LIMIT :limit
"""
OLD_RUNS_OF_TEST = OLD_RUNS.replace("test_name NOT IN :spared", "test_name = :test")

COUNT = """
SELECT test_name, COUNT(*) AS runs, MIN(timestamp) AS oldest
FROM job_history
WHERE deployment = :deployment AND timestamp < :until AND test_name NOT IN :spared
GROUP BY test_name
ORDER BY test_name
"""
COUNT_OF_TEST = COUNT.replace("test_name NOT IN :spared", "test_name = :test")

REMOVE = {
    "job_history": "DELETE FROM job_history WHERE uuid IN :runs AND timestamp >= :since AND timestamp < :until",
    **{
        table.name: f"DELETE FROM {table.name} WHERE uuid IN :runs"  # noqa: S608  (names of our own)
        " AND (timestamp IS NULL OR (timestamp >= :scan_from AND timestamp < :scan_to))"
        for table in RUN_TABLES[1:]
    },
}
"""The job comes first, as in a load. The bounds select partitions, and spare a run that was just loaded again."""

REMOVE_INCIDENTS = """
DELETE FROM alerts
WHERE deployment = :deployment AND opened_by IN (
  SELECT ended.opened_by FROM alerts AS ended
  WHERE ended.deployment = :deployment AND ended.kind = 'closed' AND ended.timestamp < :until
) AND opened_by NOT IN (
  SELECT later.opened_by FROM alerts AS later WHERE later.deployment = :deployment AND later.timestamp >= :until
)
"""
"""All rows of an incident at once: without `closed` alone, it would be open again."""

REMOVE_MESSAGES = """
DELETE FROM messages
WHERE deployment = :deployment AND timestamp < :until AND state IN ('sent', 'summarised', 'dead')
"""


@dataclass(frozen=True, slots=True)
class OldRuns:
    """The runs of a test that are old enough."""

    test: str
    runs: int
    oldest: datetime


@dataclass(frozen=True, slots=True)
class OldRows:
    """The rows of a deployment that are older than a time, except those that are still needed."""

    database: Database
    before: datetime

    @property
    def until(self) -> datetime:
        """The time before which rows are removed. Where bytes are billed, the beginning of its month: a partition."""
        return self._at_partition(self.before)

    def count(self) -> list[OldRuns]:
        """Return the runs that `remove` would remove, by test."""
        needed = self._needed()
        found = self.database.query(COUNT, until=self.until, spared=_names(needed))
        for test, until in needed.items():
            found += self.database.query(COUNT_OF_TEST, until=until, test=test)
        return sorted(
            (OldRuns(row["test_name"], row["runs"], row["oldest"]) for row in found), key=lambda one: one.test
        )

    def remove(self, is_late: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """Remove the rows, and yield after each transaction how many runs it removed. Stops early if it is late."""
        needed = self._needed()
        yield from self._remove_runs(OLD_RUNS, self.until, is_late, spared=_names(needed))
        for test, until in needed.items():
            yield from self._remove_runs(OLD_RUNS_OF_TEST, until, is_late, test=test)
        if not is_late():
            self.database.change(REMOVE_INCIDENTS, until=self.until)
            self.database.change(REMOVE_MESSAGES, until=self.until)

    def _remove_runs(self, query: str, until: datetime, is_late: Callable[[], bool], **which: Any) -> Iterator[int]:
        while not is_late() and (rows := self.database.query(query, until=until, limit=MOST_RUNS, **which)):
            for batch in self._batches(rows):
                if is_late():
                    return
                span = self._span(batch, until)
                started = time.monotonic()
                self.database.change_all(list(REMOVE.values()), runs=[row["uuid"] for row in batch], **span)
                if (
                    not self._bills
                ):  # a writer of SQLite asks for the lock at intervals: half of the time is left to others
                    time.sleep(time.monotonic() - started)
                yield len(batch)

    def _batches(self, rows: list[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
        """Return the runs of each transaction: few, or all of a month where it is the partition that costs."""
        if not self._bills:
            return (rows[start : start + RUNS_IN_BATCH] for start in range(0, len(rows), RUNS_IN_BATCH))
        months = groupby(rows, key=lambda row: (row["timestamp"].year, row["timestamp"].month))
        return (list(of_month) for _, of_month in months)

    def _span(self, batch: list[dict[str, Any]], until: datetime) -> dict[str, datetime]:
        """Return when the rows of some runs were written. Without partitions, points of any older time are removed."""
        since = batch[0]["timestamp"] if self._bills else BEGINNING_OF_TIME
        end = batch[-1]["timestamp"] + TICK if self._bills else until
        scan_from = since - MAX_POINT_DISTANCE if self._bills else since
        return {"since": since, "until": end, "scan_from": scan_from, "scan_to": end + MAX_POINT_DISTANCE}

    def _needed(self) -> dict[str, datetime]:
        """Return the time from which on all runs of a test are kept, for each test that needs older ones."""
        rows = self.database.query(OLDEST_NEEDED, window=GOOD_RUNS, until=self.until)
        needed = {row["test_name"]: row["oldest"] for row in rows}
        for test, incident in Incidents(self.database).all_open().items():
            since = incident.opened_at - BEFORE_INCIDENT
            if since < self.until:
                needed[test] = min(since, needed.get(test, since))
        return {test: self._at_partition(since) for test, since in sorted(needed.items())}

    def _at_partition(self, moment: datetime) -> datetime:
        return moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0) if self._bills else moment

    @property
    def _bills(self) -> bool:
        return self.database.store.bills_bytes


def _names(tests: Iterable[str]) -> list[str]:
    """Return the names as a list that is not empty: PostgreSQL does not know the type of an empty one."""
    return ["", *tests]
