"""The stored metrics of runs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from ml_metrics.core.kinds import kind_of
from ml_metrics.core.model import JobStatus, Outcome, Severity, StoredMetric
from ml_metrics.core.values import as_utc
from ml_metrics.judge import KNOWN_RUNS, LEVEL_RULE_IN_SQL, Sibling
from ml_metrics.measure.efficiency import run_costs
from ml_metrics.warehouse.database import OF_DEPLOYMENT, of_deployment
from ml_metrics.warehouse.history import history_point, read_history
from ml_metrics.warehouse.record import DAY, MAX_POINT_DISTANCE, METRIC_FIELDS
from ml_metrics.warehouse.runs import Runs
from ml_metrics.warehouse.tables import METRIC_HISTORY, VERDICT_IS_BROKEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.judge import HistoryNeeds
    from ml_metrics.measure.efficiency import RunCost
    from ml_metrics.warehouse.database import Database
    from ml_metrics.warehouse.record import Place


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
"""
"""Trials are among them: their chips cost as much. A run without such a metric has one row."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Queries for the cost of runs."""

    database: Database

    def between(self, since: datetime, until: datetime) -> list[RunCost]:
        """Every run that stopped in a time span with its cost, trials included, oldest first."""
        return run_costs(self.database.query(BETWEEN, **_span(since, until)))


TESTS_AT_ONCE = 20
"""The tests of one query where nothing is billed: their rows are sorted in memory."""
MOST_TESTS = 10_000
"""The tests of one query of BigQuery, whose names fit into a request."""

RANKED = f"""(
  SELECT uuid, test_name, timestamp, job_status,
    ROW_NUMBER() OVER (PARTITION BY test_name ORDER BY timestamp DESC, uuid DESC) AS place
  FROM job_history
  WHERE {OF_DEPLOYMENT} AND test_name IN :tests AND timestamp >= :since AND trial IS NULL
)"""

OLDEST = f"""
SELECT MIN(ranked.timestamp) AS oldest
FROM {RANKED.replace(":since", ":horizon").replace(" uuid, test_name, timestamp, job_status,", " timestamp,")} AS ranked
WHERE place <= :recent
"""

OF_NEWEST = f"""
SELECT job.test_name, job.uuid AS run_key, job.timestamp, COALESCE(metric.metric_name, '') AS metric,
  metric.metric_value AS value, job.job_status, metric.verdict AS outcome, metric.non_finite
FROM {RANKED} AS job
LEFT JOIN (
  SELECT uuid, metric_name, metric_value, verdict, non_finite FROM metric_history
  WHERE test_name IN :tests AND timestamp >= :scan_from
) AS metric ON metric.uuid = job.uuid
WHERE job.place <= :recent
ORDER BY job.test_name, metric, job.timestamp, job.uuid
"""

FIRST_OF_RUNS = f"""
SELECT uuid AS run_key, metric_name AS metric, metric_value AS value, verdict, unit, of_run
FROM (
  SELECT uuid, test_name, metric_name, metric_value, verdict, unit,
    COUNT(*) OVER (PARTITION BY uuid) AS of_run,
    ROW_NUMBER() OVER (
      PARTITION BY uuid ORDER BY CASE WHEN rule IS NULL THEN 1 ELSE 0 END, metric_name
    ) AS place
  FROM metric_history
  WHERE {OF_DEPLOYMENT} AND uuid IN :runs AND test_name IN :tests AND timestamp >= :scan_from
) AS numbered
WHERE place <= :most
ORDER BY place, test_name
LIMIT :limit
"""
"""What is judged first. If there are too many, all runs lack some, and none lacks all."""


class FirstOfRun(NamedTuple):
    """The first values of a run: what is judged, then the others by name."""

    rows: list[tuple[str, float | None, str, str]]
    """The metric, its value, verdict and unit."""
    left_out: int
    """How many other values it has."""


MOST_BROKEN, MOST_BROKEN_OF_TEST = 25, 5000
"""How many broken metrics of one run, and of one test, a page shows."""
MOST_NAMES, MOST_SCANNED = 20_000, 100_000
"""How many names of metrics a page lists, and how many rows are read for them."""
MOST_VALUES = 200_000
DAYS_OF_SIBLINGS = 3 * DAY

COLUMNS = ", ".join(
    [
        *(f"job.{name}" for name in ("dag_id", "timestamp", "job_status", "trial")),
        "job.uuid AS run_key",
        "job.test_name AS test",
        *(
            f"metric.{name} AS {METRIC_FIELDS.get(name, name)}"
            for name in METRIC_HISTORY.names
            if name not in {"uuid", "test_name", "trial", "deployment"}
        ),
    ]
)
"""The fields of a `StoredMetric`."""

ALL_COLUMNS = ", ".join(METRIC_HISTORY.names)

METRICS = f"""
SELECT {COLUMNS}
FROM job_history AS job
JOIN metric_history AS metric ON metric.uuid = job.uuid"""

METRIC_AT_PLACE = f"""{OF_DEPLOYMENT} AND uuid = :run AND test_name = :test
  AND timestamp >= :scan_from AND timestamp < :scan_to"""
"""Selects the rows of one run whose place is known: BigQuery reads one or two partitions."""


def joined(*both: str, more: str = "") -> str:
    """Selects runs of a time span with their metrics by conditions on the columns of both, and by `more`."""
    conditions = [f"{table}.{one}" for one in both for table in ("job", "metric")]
    return f"""{of_deployment("job")} AND {" AND ".join(conditions)}
  AND job.timestamp >= :since AND job.timestamp < :until
  AND metric.timestamp >= :scan_from AND metric.timestamp < :scan_to{f" AND {more}" if more else ""}"""


AT_PLACE = joined("uuid = :run", "test_name = :test")

PAGE_OF_RUN = f"""{METRICS}
WHERE {AT_PLACE}
ORDER BY CASE WHEN {VERDICT_IS_BROKEN.replace("verdict", "metric.verdict")} THEN 0 WHEN metric.rule IS NOT NULL THEN 1
  ELSE 2 END, metric.metric_name
LIMIT :limit OFFSET :skipped
"""
"""Broken metrics first, then those with a condition: they are on the first page of a run that has many others."""

COUNT_OF_RUN = f"SELECT COUNT(*) AS metrics FROM metric_history WHERE {METRIC_AT_PLACE}"

NAMED_OF_RUN = f"{METRICS} WHERE {AT_PLACE} AND metric.metric_name IN :metrics"

ONLY_IN = f"""
SELECT metric_name FROM metric_history
WHERE {METRIC_AT_PLACE}
  AND metric_name NOT IN (
    SELECT other.metric_name FROM metric_history AS other
    WHERE {of_deployment("other")} AND other.uuid = :other AND other.test_name = :test
      AND other.timestamp >= :other_from AND other.timestamp < :other_to
  )
ORDER BY metric_name
LIMIT :limit
"""

OF_TEST = f"""{METRICS}
WHERE {joined("test_name = :test", more="metric.metric_name IN :metrics")}
ORDER BY metric.metric_name
LIMIT :limit
"""

NAMED = """metric_name AS metric, CASE WHEN rule IS NULL THEN 0 ELSE 1 END AS judged,
      CASE WHEN metric_value = 0 THEN 0 ELSE 1 END AS other_than_zero,
      CASE WHEN trial IS NULL THEN 1 ELSE 0 END AS regular"""

NAMES_OF_TEST = f"""
SELECT metric, MAX(judged) AS judged, MAX(other_than_zero) AS other_than_zero, MAX(regular) AS regular
FROM (
  SELECT * FROM (
    SELECT {NAMED} FROM metric_history
    WHERE {OF_DEPLOYMENT} AND uuid = :newest AND test_name = :test
      AND timestamp >= :newest_from AND timestamp < :newest_to
    ORDER BY 2 DESC, 1
    LIMIT :limit
  ) AS newest
  UNION ALL
  SELECT * FROM (
    SELECT {NAMED} FROM metric_history
    WHERE {OF_DEPLOYMENT} AND test_name = :test AND timestamp >= :scan_from AND timestamp < :scan_to
    LIMIT :scanned
  ) AS earlier
) AS found
GROUP BY metric
ORDER BY 2 DESC, 1
LIMIT :limit
"""
"""All names of the newest run, and those of earlier runs as far as they are read. A missing value is not zero."""

OF_TESTS = f"""{METRICS}
WHERE {joined("test_name IN :tests", more="metric.metric_name IN :metrics AND job.trial IS NULL")}
ORDER BY metric.metric_name, job.test_name, job.timestamp, job.uuid
LIMIT :limit
"""

NAMES = f"""
SELECT DISTINCT metric_name
FROM (
  SELECT metric_name FROM metric_history
  WHERE {OF_DEPLOYMENT} AND test_name IN :tests AND timestamp >= :since AND timestamp < :until
    AND trial IS NULL
  LIMIT :scanned
) AS found
ORDER BY metric_name
LIMIT :limit
"""


def _broken(of_metrics: str, of_jobs: str, order: str) -> str:
    """The query for the broken metrics of runs, the first of each.

    The cross join makes SQLite begin with the few broken metrics, which have an index of their own. A metric that is
    finite comes before others, since the letter of a run depends on whether there is one.
    """
    return f"""
SELECT {COLUMNS}
FROM (
  SELECT * FROM (
    SELECT {ALL_COLUMNS},
      ROW_NUMBER() OVER (
        PARTITION BY uuid ORDER BY CASE verdict WHEN 'non_finite' THEN 1 ELSE 0 END, metric_name
      ) AS place_in_run
    FROM metric_history
    WHERE {VERDICT_IS_BROKEN} AND timestamp >= :scan_from AND timestamp < :scan_to{of_metrics}
  ) AS of_runs
  WHERE place_in_run <= :most
) AS metric
CROSS JOIN job_history AS job
WHERE job.uuid = metric.uuid AND {of_deployment("job")} AND job.timestamp >= :since AND job.timestamp < :until{of_jobs}
ORDER BY {order}
"""


BROKEN = _broken("", "\n  AND job.trial IS NULL", "job.uuid, metric.metric_name")

BROKEN_OF_TEST = _broken(" AND test_name = :test", "", "job.timestamp DESC, job.uuid, metric.metric_name\nLIMIT :limit")

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

OF_RUNS = f"{METRICS} WHERE {joined('uuid IN :runs', 'test_name = :test')} ORDER BY job.uuid, metric.metric_name"

JUDGED = f"""{METRICS}
WHERE {joined("uuid IN :runs", more="metric.reference IS NOT NULL")}
ORDER BY job.test_name, metric.metric_name
"""

JUDGED_BY_OWNER = f"""
SELECT owner, COUNT(*) AS judged, SUM(by_level) AS by_level
FROM (
  SELECT job.owner, MAX(CASE WHEN metric.rule LIKE '{LEVEL_RULE_IN_SQL}' THEN 1 ELSE 0 END) AS by_level
  FROM job_history AS job
  JOIN metric_history AS metric ON metric.uuid = job.uuid
  WHERE {of_deployment("job")} AND job.timestamp >= :since AND job.timestamp < :until
    AND metric.timestamp >= :scan_from AND metric.timestamp < :scan_to
    AND job.trial IS NULL AND metric.verdict IN ('pass', 'fail')
  GROUP BY job.owner, metric.test_name, metric.metric_name
) AS found
GROUP BY owner
"""

SIBLINGS = f"""
SELECT metric.test_name AS test, metric.metric_name AS metric, AVG(metric.spread / ABS(metric.reference)) AS noise
FROM job_history AS job
JOIN metric_history AS metric ON metric.uuid = job.uuid
WHERE {joined("trial IS NULL", more="(metric.metric_name IN :metrics OR metric.test_name = :test)")}
  AND metric.rule LIKE '{LEVEL_RULE_IN_SQL}' AND metric.verdict = 'pass' AND metric.baseline_points >= {KNOWN_RUNS}
  AND metric.spread > 0 AND metric.reference <> 0
GROUP BY metric.test_name, metric.metric_name
LIMIT :limit
"""

OF_RUN = f"{METRICS} WHERE {AT_PLACE} ORDER BY metric.metric_name"


@dataclass(frozen=True, slots=True)
class NamedMetric:
    """A metric of a test by its name."""

    judged: bool = False
    """Whether a condition covers it."""
    always_zero: bool = False
    """Whether each value that was read is 0."""
    regular: bool = True
    """Whether a run that is no trial has it."""


class Judged(NamedTuple):
    """How many metrics were judged."""

    metrics: int
    by_level: int
    """Those whose condition is about their level."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Queries for metrics. Those about one run include trials; the others leave them out unless stated."""

    database: Database

    def of_run(self, run: str | Place) -> list[StoredMetric]:
        """The metrics of one run, by name. A run by its key alone costs another query, for its place."""
        place = Runs(self.database).place(run) if isinstance(run, str) else run
        return [] if place is None else self._read(OF_RUN, **place.span)

    def of_runs(self, test: str, ends: Mapping[str, datetime]) -> dict[str, list[StoredMetric]]:
        """The metrics of some runs of a test, which `ends` names with the times of their ends, by run."""
        span = _span(min(ends.values()) - DAY, max(ends.values()) + DAY)
        found: dict[str, list[StoredMetric]] = {key: [] for key in ends}
        for one in self._read(OF_RUNS, test=test, runs=list(ends), **span):
            found[one.run_key].append(one)
        return found

    def judged(self, ends: Mapping[str, datetime]) -> list[StoredMetric]:
        """The metrics of some runs that were compared with a level; `ends` has the times of their ends."""
        span = _span(min(ends.values()) - DAY, max(ends.values()) + DAY)
        return self._read(JUDGED, runs=list(ends), **span)

    def judged_by_owner(self, since: datetime, until: datetime) -> dict[str, Judged]:
        """How many metrics of the tests of each owner were judged in a time span."""
        rows = self.database.query(JUDGED_BY_OWNER, **_span(since, until))
        return {row["owner"] or "": Judged(int(row["judged"]), int(row["by_level"])) for row in rows}

    def siblings(self, test: str, metrics: Sequence[str], until: datetime) -> list[Sibling]:
        """The noise of some metrics in other tests, and of other metrics of a test, where it is known."""
        span = _span(until - DAYS_OF_SIBLINGS, until)
        rows = self.database.query(SIBLINGS, test=test, metrics=list(metrics), limit=MOST_NAMES, **span)
        return [Sibling(row["test"], row["metric"], float(row["noise"])) for row in rows]

    def values(self, test: str, metric: str, limit: int = 50, *, trials: bool = False) -> list[StoredMetric]:
        """Newest first. Where bytes are billed, the newest runs are read, and older ones only for lack of values."""
        named = {"test": test, "metric": metric, "limit": limit}
        query, start = VALUES_WITH_TRIALS if trials else VALUES, self.database.store.horizon
        if self.database.store.bills_bytes:
            oldest = Runs(self.database).oldest(test, limit, trials=trials)
            if oldest is None:
                return []
            newest = self._read(query, since=oldest, scan_from=oldest - MAX_POINT_DISTANCE, **named)
            if len(newest) == limit:
                return newest
        return self._read(query, since=start, scan_from=start - MAX_POINT_DISTANCE, **named)

    def history(
        self, needs: HistoryNeeds, *, exclude: str = "", before: datetime | None = None, metrics: Iterable[str] = ()
    ) -> list[StoredMetric]:
        """What the judge needs of the runs before `exclude`, which stopped at `before`, in a few queries.

        A run without metrics is one row with an empty metric name. `metrics` are read although no recent run may have
        them.
        """
        return read_history(self.database, needs, exclude=exclude, before=before, metrics=set(metrics))

    def of_newest_runs(self, tests: Sequence[str], recent: int) -> Iterator[tuple[str, list[StoredMetric]]]:
        """Yield each of some tests that has runs, with all rows of its newest runs; one test at a time is in memory.

        Trials are left out. A run without metrics is one row with an empty metric name.
        """
        size = MOST_TESTS if self.database.store.bills_bytes else TESTS_AT_ONCE
        ordered = sorted(set(tests))
        for start in range(0, len(ordered), size):
            which = {"tests": ordered[start : start + size], "recent": recent}
            oldest = self.database.query(OLDEST, **which)[0]["oldest"]
            if oldest is None:
                continue
            span = {"since": oldest, "scan_from": oldest - MAX_POINT_DISTANCE}
            with closing(self.database.stream(OF_NEWEST, **which, **span)) as rows:
                for test, of_test in groupby(rows, key=lambda row: str(row.pop("test_name"))):
                    yield test, [history_point(test, row) for row in of_test]

    def first_of_runs(
        self, runs: Mapping[str, tuple[str, datetime]], *, most: int, limit: int
    ) -> dict[str, FirstOfRun]:
        """At most `most` values of each run, and `limit` of all, by run. `runs` has the test and end of each."""
        if not runs:
            return {}
        oldest = min(at for _, at in runs.values())
        which = {"runs": list(runs), "tests": sorted({test for test, _ in runs.values()})}
        scan_from = oldest - DAY - MAX_POINT_DISTANCE
        found: dict[str, FirstOfRun] = {}
        for row in self.database.query(FIRST_OF_RUNS, **which, scan_from=scan_from, most=most, limit=limit):
            metric, unit = row["metric"], row["unit"]
            one = found.setdefault(row["run_key"], FirstOfRun([], row["of_run"]))
            one.rows.append(
                (metric, row["value"], row["verdict"] or "", kind_of(metric).unit if unit is None else unit)
            )
        return {run: one._replace(left_out=one.left_out - len(one.rows)) for run, one in found.items()}

    def page_of_run(self, run: Place, limit: int, skipped: int = 0) -> list[StoredMetric]:
        """Some metrics of one run: broken ones first, then those with a condition, then by name."""
        return self._read(PAGE_OF_RUN, limit=limit, skipped=skipped, **run.span)

    def count_of_run(self, run: Place) -> int:
        return int(self.database.query(COUNT_OF_RUN, **run.span)[0]["metrics"])

    def named_of_run(self, run: Place, metrics: Sequence[str]) -> dict[str, StoredMetric]:
        found = self._read(NAMED_OF_RUN, metrics=list(metrics), **run.span) if metrics else ()
        return {one.metric: one for one in found}

    def only_in(self, run: Place, other: Place, limit: int) -> list[str]:
        span = {"other": other.run_key, "other_from": other.span["scan_from"], "other_to": other.span["scan_to"]}
        rows = self.database.query(ONLY_IN, limit=limit, **span, **run.span)
        return [row["metric_name"] for row in rows]

    def names_of_test(self, test: str, newest: Place, since: datetime, until: datetime) -> dict[str, NamedMetric]:
        """What is known of each metric in a time span: all names of the newest run, and of many others the first."""
        limits = {"limit": MOST_NAMES, "scanned": MOST_SCANNED}
        newest_span = {"newest_from": newest.span["scan_from"], "newest_to": newest.span["scan_to"]}
        which = {"test": test, "newest": newest.run_key, **newest_span, **_span(since, until)}
        rows = self.database.query(NAMES_OF_TEST, **which, **limits)
        return {
            row["metric"]: NamedMetric(bool(row["judged"]), not row["other_than_zero"], bool(row["regular"]))
            for row in rows
        }

    def of_test(self, test: str, metrics: Sequence[str], since: datetime, until: datetime) -> list[StoredMetric]:
        """The values of some metrics of a test's runs in a time span, by name. Trials are included."""
        named = {"test": test, "metrics": list(metrics), "limit": MOST_VALUES}
        return self._read(OF_TEST, **named, **_span(since, until)) if metrics else []

    def of_tests(
        self, tests: Sequence[str], metrics: Sequence[str], since: datetime, until: datetime, limit: int
    ) -> list[StoredMetric]:
        """The values of some metrics of some tests, by metric, test and time."""
        named = {"tests": list(tests), "metrics": list(metrics), "limit": limit}
        return self._read(OF_TESTS, **named, **_span(since, until)) if tests and metrics else []

    def names(self, tests: Sequence[str], since: datetime, until: datetime) -> list[str]:
        """The names of the metrics of some tests; of very many, the first."""
        if not tests:
            return []
        limits = {"limit": MOST_NAMES, "scanned": MOST_SCANNED}
        rows = self.database.query(NAMES, tests=list(tests), **_span(since, until), **limits)
        return [row["metric_name"] for row in rows]

    def broken(self, since: datetime, until: datetime) -> list[StoredMetric]:
        """The first metrics of each run in a time span that are out of bounds, missing or not finite."""
        return self._read(BROKEN, most=MOST_BROKEN, **_span(since, until))

    def broken_of_test(self, test: str, since: datetime, until: datetime) -> list[StoredMetric]:
        """The same of one test, newest run first. Trials are included."""
        limits = {"most": MOST_BROKEN, "limit": MOST_BROKEN_OF_TEST}
        return self._read(BROKEN_OF_TEST, test=test, **limits, **_span(since, until))

    def _read(self, query: str, **parameters: Any) -> list[StoredMetric]:
        return [_stored_metric(row) for row in self.database.query(query, **parameters)]


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
    return StoredMetric(**row | known | facts)
