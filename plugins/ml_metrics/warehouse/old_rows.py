"""The removal of old rows: of whole runs in all tables, then of closed incidents and of messages.

Runs that judging needs are kept, whatever their age: no verdict of a later run changes by the removal. A transaction
removes a run from all tables, so that a process that is killed leaves no half of a run. Rows that name no deployment
are kept, because they belong to every deployment; so are acceptances, which state the times of their runs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from ml_metrics.config.conditions import BEST_RUNS
from ml_metrics.core.values import BEGINNING_OF_TIME
from ml_metrics.warehouse.history import needed_runs
from ml_metrics.warehouse.incidents import Incidents
from ml_metrics.warehouse.known_tests import KnownTests
from ml_metrics.warehouse.record import MAX_POINT_DISTANCE
from ml_metrics.warehouse.tables import RUN_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ml_metrics.warehouse.database import Database


GOOD_RUNS = BEST_RUNS
"""How long a baseline may be of a test whose conditions are unknown: the longest by default."""
BEFORE_INCIDENT = timedelta(days=10)
"""A run ends before its incident is opened; runs of such a time before an open incident are kept with it."""
RUNS_IN_BATCH = 100
"""How many runs a transaction removes in SQLite and PostgreSQL: a load waits for milliseconds."""
MOST_RUNS = 50_000
"""How many runs one query reads, and one job of BigQuery removes: 2 MB of its request."""
TICK = timedelta(microseconds=1)

OLD_RUNS = """
SELECT uuid, test_name, timestamp
FROM job_history
WHERE deployment = :deployment AND timestamp >= :since AND timestamp < :until AND (timestamp > :since OR uuid > :after)
ORDER BY timestamp, uuid
LIMIT :limit
"""

TESTS = "SELECT DISTINCT test_name FROM job_history WHERE deployment = :deployment AND timestamp < :until"

REMOVE = {
    "job_history": "DELETE FROM job_history WHERE uuid IN :runs AND timestamp >= :since AND timestamp < :until",
    **{
        table.name: f"DELETE FROM {table.name} WHERE uuid IN :runs"
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
        found: dict[str, OldRuns] = {}
        for row in chain.from_iterable(self._expired()):
            first = found.get(row["test_name"], OldRuns(row["test_name"], 0, row["timestamp"]))
            found[first.test] = replace(first, runs=first.runs + 1)
        return sorted(found.values(), key=lambda one: one.test)

    def remove(self, is_late: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """Remove the rows, and yield after each transaction how many runs it removed. Stops early if it is late."""
        for batch in chain.from_iterable(map(self._batches, self._expired())):
            if is_late():
                return
            span = self._span(batch)
            started = time.monotonic()
            self.database.change_all(list(REMOVE.values()), runs=[row["uuid"] for row in batch], **span)
            if not self._bills:  # a writer of SQLite asks for the lock at intervals: half of the time is left to others
                time.sleep(time.monotonic() - started)
            yield len(batch)
        if not is_late():
            self.database.change(REMOVE_INCIDENTS, until=self.until)
            self.database.change(REMOVE_MESSAGES, until=self.until)

    def _expired(self) -> Iterator[list[dict[str, Any]]]:
        """Yield the runs that are removed, oldest first, a page at a time."""
        needed, open_since = self._needed(), self._open_since()
        since, after = BEGINNING_OF_TIME, ""
        while rows := self.database.query(OLD_RUNS, since=since, after=after, until=self.until, limit=MOST_RUNS):
            since, after = rows[-1]["timestamp"], rows[-1]["uuid"]
            yield [
                row
                for row in rows
                if row["uuid"] not in needed and row["timestamp"] < open_since.get(row["test_name"], self.until)
            ]

    def _needed(self) -> set[str]:
        """The runs that a judgement of any run after these may read."""
        known = KnownTests(self.database).windows()
        tests = [row["test_name"] for row in self.database.query(TESTS, until=self.until)]
        return needed_runs(self.database, {test: known.get(test, GOOD_RUNS) for test in tests}, self.until)

    def _open_since(self) -> dict[str, datetime]:
        found = Incidents(self.database).all_open()
        return {test: self._at_partition(one.opened_at - BEFORE_INCIDENT) for test, one in found.items()}

    def _batches(self, rows: list[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
        """The runs of each transaction: few, or all of a month where it is the partition that costs."""
        if not self._bills:
            return (rows[start : start + RUNS_IN_BATCH] for start in range(0, len(rows), RUNS_IN_BATCH))
        months = groupby(rows, key=lambda row: (row["timestamp"].year, row["timestamp"].month))
        return (list(of_month) for _, of_month in months)

    def _span(self, batch: list[dict[str, Any]]) -> dict[str, datetime]:
        """When the rows of some runs were written. Without partitions, points of any older time are removed."""
        since = batch[0]["timestamp"] if self._bills else BEGINNING_OF_TIME
        end = batch[-1]["timestamp"] + TICK if self._bills else self.until
        scan_from = since - MAX_POINT_DISTANCE if self._bills else since
        return {"since": since, "until": end, "scan_from": scan_from, "scan_to": end + MAX_POINT_DISTANCE}

    def _at_partition(self, moment: datetime) -> datetime:
        return moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0) if self._bills else moment

    @property
    def _bills(self) -> bool:
        return self.database.store.bills_bytes
