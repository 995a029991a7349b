"""The stored metrics of runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.kinds import kind_of
from ml_metrics.model import JobStatus, Outcome, Severity, StoredMetric
from ml_metrics.values import as_utc
from ml_metrics.warehouse import page_queries as pages
from ml_metrics.warehouse.deployment import of_deployment
from ml_metrics.warehouse.history import read_history
from ml_metrics.warehouse.newest_runs import FirstOfRun, first_of_runs, of_newest_runs
from ml_metrics.warehouse.page_queries import METRICS
from ml_metrics.warehouse.record import DAY, MAX_POINT_DISTANCE
from ml_metrics.warehouse.runs import Runs
from ml_metrics.warehouse.small_curves import SmallCurve, small_curves

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.judge import HistoryNeeds
    from ml_metrics.warehouse.database import Database
    from ml_metrics.warehouse.record import Place

STATUSES = {status.value: status for status in JobStatus}
OUTCOMES = {outcome.value: outcome for outcome in Outcome}

VALUES = f"""{METRICS}
WHERE {of_deployment("job")} AND job.test_name = :test AND metric.test_name = :test AND metric.metric_name = :metric
  AND job.timestamp >= :since AND metric.timestamp >= :scan_from
  AND job.trial IS NULL
ORDER BY job.timestamp DESC, job.uuid DESC
LIMIT :limit
"""

VALUES_WITH_TRIALS = VALUES.replace("  AND job.trial IS NULL\n", "")

OF_RUNS = f"""{METRICS}
WHERE {of_deployment("job")} AND job.uuid IN :runs AND job.test_name = :test
  AND job.timestamp >= :since AND job.timestamp < :until
  AND metric.uuid IN :runs AND metric.test_name = :test
  AND metric.timestamp >= :scan_from AND metric.timestamp < :scan_to
ORDER BY job.uuid, metric.metric_name
"""

OF_RUN = f"""{METRICS}
WHERE {pages.AT_PLACE}
ORDER BY metric.metric_name
"""


@dataclass(frozen=True, slots=True)
class NamedMetric:
    """A metric of a test by its name."""

    judged: bool = False
    """Whether a condition covers it."""
    always_zero: bool = False
    """Whether each value that was read is 0."""
    regular: bool = True
    """Whether a run that is no trial has it."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Queries for metrics. Those about one run include trials; the others leave them out unless stated."""

    database: Database

    def of_run(self, run: str | Place) -> list[StoredMetric]:
        """Return the metrics of one run, by name. A run by its key alone costs another query, for its place."""
        place = Runs(self.database).place(run) if isinstance(run, str) else run
        if place is None:
            return []
        return [_stored_metric(row) for row in self.database.query(OF_RUN, **place.span)]

    def of_runs(self, test: str, ends: Mapping[str, datetime]) -> dict[str, list[StoredMetric]]:
        """Return the metrics of some runs of a test, which `ends` names with the times of their ends, by run."""
        span = _span(min(ends.values()) - DAY, max(ends.values()) + DAY)
        found: dict[str, list[StoredMetric]] = {key: [] for key in ends}
        for row in self.database.query(OF_RUNS, test=test, runs=list(ends), **span):
            found[row["run_key"]].append(_stored_metric(row))
        return found

    def values(self, test: str, metric: str, limit: int = 50, *, trials: bool = False) -> list[StoredMetric]:
        """Return the newest values of a metric, newest first; of trials as well if that is wanted.

        Where bytes are billed, the newest runs are read first, and older ones only if these have too few values.
        """
        named = {"test": test, "metric": metric, "limit": limit}
        query, start = VALUES_WITH_TRIALS if trials else VALUES, self.database.store.horizon
        if self.database.store.bills_bytes:
            oldest = Runs(self.database).oldest(test, limit, trials=trials)
            if oldest is None:
                return []
            rows = self.database.query(query, since=oldest, scan_from=oldest - MAX_POINT_DISTANCE, **named)
            if len(rows) == limit:
                return [_stored_metric(row) for row in rows]
        rows = self.database.query(query, since=start, scan_from=start - MAX_POINT_DISTANCE, **named)
        return [_stored_metric(row) for row in rows]

    def history(
        self, needs: HistoryNeeds, *, exclude: str = "", before: datetime | None = None, metrics: Iterable[str] = ()
    ) -> list[StoredMetric]:
        """Return the rows that the judge needs of the runs before a run, with a constant number of queries.

        The run `exclude` and those after it are left out; it stopped at `before`. A run without metrics is one row
        with an empty metric name. `metrics` names metrics to read although no recent run may have them.
        """
        return read_history(self.database, needs, exclude=exclude, before=before, metrics=set(metrics))

    def of_newest_runs(self, tests: Sequence[str], recent: int) -> Iterator[tuple[str, list[StoredMetric]]]:
        """Yield each of some tests that has runs, with all rows of its newest runs, with two queries for all tests."""
        return of_newest_runs(self.database, tests, recent)

    def first_of_runs(
        self, runs: Mapping[str, tuple[str, datetime]], *, most: int, limit: int
    ) -> dict[str, FirstOfRun]:
        """Return the first values of each run, with one query for all. `runs` has the test and end of each."""
        return first_of_runs(self.database, runs, most=most, limit=limit)

    def small_curves(
        self, runs: Mapping[str, tuple[str, datetime]], since: datetime, most: int
    ) -> dict[str, SmallCurve]:
        """Return the metric that matters in each run, with the newest values of its test since a time, by test."""
        return small_curves(self.database, runs, since, most)

    def page_of_run(self, run: Place, limit: int, skipped: int = 0) -> list[StoredMetric]:
        """Return some metrics of one run: broken ones first, then those with a condition, then by name."""
        rows = self.database.query(pages.PAGE_OF_RUN, limit=limit, skipped=skipped, **run.span)
        return [_stored_metric(row) for row in rows]

    def count_of_run(self, run: Place) -> int:
        """Return the number of metrics of one run."""
        return int(self.database.query(pages.COUNT_OF_RUN, **_points(run))[0]["metrics"])

    def named_of_run(self, run: Place, metrics: Sequence[str]) -> dict[str, StoredMetric]:
        """Return those metrics of one run that have one of some names."""
        rows = self.database.query(pages.NAMED_OF_RUN, metrics=list(metrics), **run.span) if metrics else ()
        return {row["metric"]: _stored_metric(row) for row in rows}

    def only_in(self, run: Place, other: Place, limit: int) -> list[str]:
        """Return the names of the first metrics that one run of a test has and another has not."""
        span = {"other": other.run_key, "other_from": other.span["scan_from"], "other_to": other.span["scan_to"]}
        rows = self.database.query(pages.ONLY_IN, limit=limit, **span, **_points(run))
        return [row["metric_name"] for row in rows]

    def names_of_test(self, test: str, newest: Place, since: datetime, until: datetime) -> dict[str, NamedMetric]:
        """Return the names of a test's metrics in a time span, each with what is known of all its values.

        All names of its newest run are among them, and of very many others the first.
        """
        span = {name: when for name, when in _span(since, until).items() if name.startswith("scan")}
        limits = {"limit": pages.MOST_NAMES, "scanned": pages.MOST_SCANNED}
        newest_span = {"newest_from": newest.span["scan_from"], "newest_to": newest.span["scan_to"]}
        newest_run = {"newest": newest.run_key, **newest_span}
        rows = self.database.query(pages.NAMES_OF_TEST, test=test, **newest_run, **limits, **span)
        return {
            row["metric"]: NamedMetric(bool(row["judged"]), not row["other_than_zero"], bool(row["regular"]))
            for row in rows
        }

    def of_test(self, test: str, metrics: Sequence[str], since: datetime, until: datetime) -> list[StoredMetric]:
        """Return the values of some metrics of a test's runs in a time span, by name. Trials are included."""
        if not metrics:
            return []
        span = _span(since, until)
        rows = self.database.query(pages.OF_TEST, test=test, metrics=list(metrics), limit=pages.MOST_VALUES, **span)
        return [_stored_metric(row) for row in rows]

    def of_tests(
        self, tests: Sequence[str], metrics: Sequence[str], since: datetime, until: datetime, limit: int
    ) -> list[StoredMetric]:
        """Return the values of some metrics of some tests, by metric, test and time."""
        if not tests or not metrics:
            return []
        names = {"tests": list(tests), "metrics": list(metrics)}
        rows = self.database.query(pages.OF_TESTS, **names, limit=limit, **_span(since, until))
        return [_stored_metric(row) for row in rows]

    def names(self, tests: Sequence[str], since: datetime, until: datetime) -> list[str]:
        """Return the names of the metrics of some tests; of very many, the first."""
        if not tests:
            return []
        span = {"since": as_utc(since), "until": as_utc(until)}
        limits = {"limit": pages.MOST_NAMES, "scanned": pages.MOST_SCANNED}
        rows = self.database.query(pages.NAMES, tests=list(tests), **span, **limits)
        return [row["metric_name"] for row in rows]

    def broken(self, since: datetime, until: datetime) -> list[StoredMetric]:
        """Return the first metrics of each run in a time span that are out of bounds, missing or not finite."""
        rows = self.database.query(pages.BROKEN, most=pages.MOST_BROKEN, **_span(since, until))
        return [_stored_metric(row) for row in rows]

    def broken_of_test(self, test: str, since: datetime, until: datetime) -> list[StoredMetric]:
        """Return the same of one test, newest run first. Trials are included."""
        limits = {"most": pages.MOST_BROKEN, "limit": pages.MOST_BROKEN_OF_TEST}
        rows = self.database.query(pages.BROKEN_OF_TEST, test=test, **limits, **_span(since, until))
        return [_stored_metric(row) for row in rows]


def _points(run: Place) -> dict[str, Any]:
    """The parameters of a query for the metrics of one run alone."""
    return {name: value for name, value in run.span.items() if name not in {"since", "until"}}


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
