"""The stored runs and the tests that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ml_metrics.core.model import FAILED_TASKS, JobStatus, Outcome
from ml_metrics.core.values import (
    BEGINNING_OF_TIME,
    END_OF_TIME,
    as_utc,
    by_storable_name,
    storable_name,
    storable_text,
)
from ml_metrics.judge import without_unique
from ml_metrics.warehouse.database import OF_DEPLOYMENT, of_deployment
from ml_metrics.warehouse.record import JobRow, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from ml_metrics.warehouse.database import Database

    Own = tuple[str, Callable[[], Mapping[str, str]]]

GOOD = "job_status = 'success' AND (verdict IS NULL OR verdict <> 'fail')"
"""Selects the runs that did not fail."""
SCHEDULED = """(run_id IS NULL OR NOT (run_id LIKE 'manual%' OR run_id LIKE 'confirm%' OR run_id LIKE 'backfill%'
    OR run_id LIKE 'import%'))"""
"""Selects the runs that their schedule started."""

MAX_VALUE_LENGTH = 500
"""The part of a text that is compared. Long texts are reports rather than attributes."""

RESULTS = ("cost.", "mfu.")
"""Metadata about how a result was computed, which does not explain a change."""


def select(columns: str, which: str, order: str = "", *, trials: bool = False) -> str:
    """The query for the runs of a deployment; with `trials`, trials are among them."""
    regular = "" if trials else " AND trial IS NULL"
    return f"SELECT {columns} FROM job_history\nWHERE {OF_DEPLOYMENT} AND {which}{regular}\n{order}"


IN_SPAN = "timestamp >= :since AND timestamp < :until"

COLUMNS = select(
    "uuid, image, accelerator, framework_version AS framework",
    "uuid IN :runs AND test_name IN :tests AND timestamp >= :since",
    trials=True,
)

METADATA = f"""
SELECT uuid, metadata_key, SUBSTR(metadata_value, 1, {MAX_VALUE_LENGTH}) AS metadata_value
FROM metadata_history
WHERE uuid IN :runs AND (timestamp IS NULL OR timestamp >= :since) AND uuid IN (
  SELECT uuid FROM job_history
  WHERE uuid IN :runs AND {OF_DEPLOYMENT} AND test_name IN :tests AND timestamp >= :since
)
"""


class RunAttributes(Mapping[str, Mapping[str, str]]):
    """The attributes of runs by run key. The first access reads them all, with two queries.

    Most judgements find no change that attributes could explain, so they read nothing.
    """

    def __init__(
        self,
        database: Database,
        tests: Sequence[str],
        ends: Mapping[str, datetime],
        own: Own | None = None,
        deployments: Sequence[str] = (),
    ) -> None:
        self._databases = database.with_others(deployments)
        self._tests, self._ends, self._own = list(tests), ends, own
        self._keys = dict.fromkeys([*ends, *([own[0]] if own else [])])

    def __getitem__(self, run_key: str) -> Mapping[str, str]:
        return self._read[run_key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    @cached_property
    def _read(self) -> dict[str, dict[str, str]]:
        columns, texts = ({key: dict[str, str]() for key in self._keys} for _ in range(2))
        own = self._own[0] if self._own else None
        stored = [key for key in self._ends if key != own]
        if stored:
            which = {"runs": stored, "tests": self._tests, "since": min(as_utc(self._ends[key]) for key in stored)}
            for database in self._databases:
                for row in database.query(COLUMNS, **which):
                    key = row.pop("uuid")
                    columns[key] = {name: text for name, text in row.items() if text}
                for row in database.query(METADATA, **which):
                    name = storable_name(row["metadata_key"])  # older versions stored other names
                    if not name.startswith(RESULTS):
                        texts[row["uuid"]][name] = row["metadata_value"] or ""
        found = {key: {**texts[key], **columns[key]} for key in self._keys}
        if self._own is not None:
            key, attributes = self._own
            named, _ = by_storable_name(attributes().items())
            found[key] = {name: storable_text(text)[:MAX_VALUE_LENGTH] for name, text in named.items() if text}
        return without_unique(found)


NEWEST_OF_IMAGE = f"""
SELECT test_name, job_status, verdict, failed_tasks
FROM (
  SELECT job.test_name, job.job_status, job.verdict, failed.metadata_value AS failed_tasks,
    ROW_NUMBER() OVER (PARTITION BY job.test_name ORDER BY job.timestamp DESC, job.uuid DESC) AS place
  FROM job_history AS job
  JOIN metadata_history AS image ON image.uuid = job.uuid
  LEFT JOIN (
    SELECT uuid, metadata_value FROM metadata_history
    WHERE metadata_key = '{FAILED_TASKS}' AND timestamp >= :since
  ) AS failed ON failed.uuid = job.uuid
  WHERE {of_deployment("job")} AND job.timestamp >= :since AND job.trial IS NULL
    AND job.run_id IS NOT NULL AND NOT job.run_id LIKE 'import%'
    AND image.metadata_key = 'image_digest' AND image.metadata_value LIKE :image AND image.timestamp >= :since
) AS ranked
WHERE place = 1
ORDER BY test_name
"""


def green_tests(database: Database, digest: str, since: datetime) -> frozenset[str]:
    """The tests whose newest run with an image of this digest passed its gate. Trials and imports do not count."""
    rows = database.query(NEWEST_OF_IMAGE, image=f"%{digest}", since=since)
    return frozenset(
        row["test_name"]
        for row in rows
        if row["job_status"] == JobStatus.SUCCESS and row["verdict"] == Outcome.PASS and not row["failed_tasks"]
    )


VALUE = """(
  SELECT MAX(SUBSTR(metadata_value, 1, 20000)) FROM metadata_history
  WHERE metadata_history.uuid = job.uuid AND metadata_key = '{key}'
    AND (metadata_history.timestamp IS NULL
      OR (metadata_history.timestamp >= :since AND metadata_history.timestamp < :until))
)"""
"""Of one run: a subquery, because PostgreSQL would read the whole table for a join."""

NODES = f"""
SELECT job.uuid AS run_key, {VALUE.format(key="node")} AS node, {VALUE.format(key="nodes")} AS nodes
FROM job_history AS job
WHERE {of_deployment("job")} AND job.test_name IN :tests AND job.timestamp >= :since AND job.timestamp < :until
  AND job.trial IS NULL
ORDER BY job.timestamp DESC, job.uuid
LIMIT :limit
"""


def nodes_of_runs(
    database: Database, tests: Sequence[str], since: datetime, until: datetime, limit: int
) -> dict[str, tuple[str, ...]]:
    """The nodes of the newest runs of some tests, by run key. Runs whose node is unknown are left out."""
    span = {"since": as_utc(since), "until": as_utc(until)}
    rows = database.query(NODES, tests=list(tests), limit=limit, **span) if tests else ()
    found = {}
    for row in rows:
        named = sorted({name for part in (row["nodes"] or "").split(",") if (name := part.strip())})
        # a list without the first host's node is a text of the workload
        if nodes := named if row["node"] in named else list(filter(None, [row["node"]])):
            found[row["run_key"]] = tuple(nodes)
    return found


_SUMMARY = (
    "uuid, test_name, NULLIF(dag_id, test_name) AS dag_id, timestamp, job_status, verdict, failure_reason, goodput"
)

BETWEEN = select(_SUMMARY, IN_SPAN, "ORDER BY timestamp")
"""In the order of an index that covers the query. A DAG id that equals the test name, as nearly all do, is not sent."""

BETWEEN_OF_TESTS = select(_SUMMARY, f"{IN_SPAN} AND test_name IN :tests", "ORDER BY test_name, timestamp")

SUMS = select(
    f"""test_name AS test, COALESCE(dag_id, test_name) AS dag_id, COUNT(*) AS runs, COUNT(goodput) AS measured,
  COALESCE(SUM(goodput), 0.0) AS goodput, SUM(CASE WHEN {GOOD} THEN 1 ELSE 0 END) AS good""",
    IN_SPAN,
    "GROUP BY test_name, COALESCE(dag_id, test_name)",
)

MOST_NAMED = 1_000
"""The tests of one query: SQLite and PostgreSQL have a limit of parameters."""


class RunSummary(NamedTuple):
    """The columns of a run that a cell of the heatmap shows. A tuple, because a page reads thirty thousand."""

    run_key: str
    test: str
    dag_id: str
    """The DAG in Airflow; for a run of an older system, the test's name."""
    at: datetime
    job_status: str
    verdict: str | None
    failure_reason: str | None
    goodput: float | None = None


class NewestRun(NamedTuple):
    """The newest run of a test."""

    run_key: str
    test: str
    dag_id: str
    at: datetime


class RunSums(NamedTuple):
    """The sums of the runs of a test in one DAG."""

    test: str
    dag_id: str
    runs: int
    good: int
    """Those that did not fail."""
    measured: int
    """Those with a goodput."""
    goodput: float
    """Its sum."""


def summary_of(row: dict[str, Any]) -> RunSummary:
    dag_id = row["dag_id"] or row["test_name"]
    status = row["job_status"], row["verdict"], row["failure_reason"], row["goodput"]
    return RunSummary(row["uuid"], row["test_name"], dag_id, row["timestamp"], *status)


JOB_COLUMNS = ", ".join(field.name for field in fields(JobRow))


def before_run(table: str = "") -> str:
    """Selects the runs before another one. Runs that end at once have the order of their keys."""
    key, end = (f"{table}.uuid", f"{table}.timestamp") if table else ("uuid", "timestamp")
    return f"{key} <> :run AND {end} <= :before AND ({end} < :before OR {key} < :run)"


BEFORE_RUN = before_run()

ROW = select(JOB_COLUMNS, f"uuid = :run AND test_name = :test AND {IN_SPAN}", trials=True)
"""One run whose place is known: BigQuery reads one or two partitions."""

_PLACE = "uuid, test_name, timestamp"

PLACE = select(_PLACE, "uuid = :run AND timestamp >= :horizon", trials=True)

PLACE_OF_LAST_PASSED = select(
    _PLACE,
    f"test_name = :test AND timestamp >= :horizon AND {BEFORE_RUN} AND {GOOD}",
    "ORDER BY timestamp DESC, uuid DESC LIMIT 1",
)

PLACE_OF_DAG_RUN = select(
    _PLACE,
    "dag_id = :dag AND run_id = :run AND timestamp >= :horizon",
    "ORDER BY timestamp DESC, uuid LIMIT 1",
    trials=True,
)

_OF_TEST = (
    JOB_COLUMNS,
    f"test_name = :test AND timestamp >= :since AND {BEFORE_RUN}",
    "ORDER BY timestamp DESC, uuid DESC LIMIT :limit",
)

OF_TEST = select(*_OF_TEST)

OF_TEST_WITH_TRIALS = select(*_OF_TEST, trials=True)


def _oldest(*, trials: bool) -> str:
    """From when on the newest runs of a test are: a query of two small columns, before one of all."""
    which = f"test_name = :test AND timestamp >= :horizon AND {BEFORE_RUN}"
    newest = select("timestamp", which, "ORDER BY timestamp DESC LIMIT :limit", trials=trials)
    return f"SELECT MIN(newest.timestamp) AS oldest FROM ({newest}) AS newest"


OLDEST_OF_TEST = _oldest(trials=False)
OLDEST_WITH_TRIALS = _oldest(trials=True)

DEPLOYMENTS = """
SELECT DISTINCT deployment FROM job_history
WHERE deployment IS NOT NULL AND timestamp >= :horizon
ORDER BY deployment
"""

TEST_OF_DAG = select(
    "test_name",
    "(dag_id = :dag OR test_name = :dag) AND timestamp >= :horizon",
    "ORDER BY timestamp DESC LIMIT 1",
    trials=True,
)

NEWEST = f"""
SELECT test_name, uuid, COALESCE(dag_id, test_name) AS dag_id, timestamp
FROM (
  SELECT test_name, uuid, dag_id, timestamp,
    ROW_NUMBER() OVER (PARTITION BY test_name ORDER BY timestamp DESC, uuid DESC) AS place
  FROM job_history
  WHERE {OF_DEPLOYMENT} AND test_name IN :tests AND timestamp >= :since AND trial IS NULL
) AS ranked
WHERE place = 1
"""

TRIALS = select(
    "test_name, COUNT(*) AS trials",
    "trial IS NOT NULL AND timestamp >= :horizon",
    "GROUP BY test_name ORDER BY test_name",
    trials=True,
)

METADATA_OF_RUNS = f"""
SELECT metadata_key, metadata_value FROM metadata_history
WHERE uuid = :run AND (timestamp IS NULL OR (timestamp >= :since AND timestamp < :until)) AND EXISTS (
  SELECT 1 FROM job_history
  WHERE uuid = :run AND {OF_DEPLOYMENT} AND test_name = :test AND timestamp >= :since AND timestamp < :until
)
ORDER BY metadata_key
"""

_TESTS = f"""
SELECT
  job.uuid, job.test_name, job.dag_id, job.timestamp, job.job_status, job.verdict, job.failure_reason, job.goodput,
  job.owner, job.framework_version, job.accelerator, newest.last_good
FROM newest
JOIN job_history AS job ON job.test_name = newest.test_name AND job.timestamp = newest.last_run
WHERE {of_deployment("job")} AND (job.timestamp IS NULL OR job.timestamp >= :horizon)
  AND job.trial IS NULL
ORDER BY job.test_name, job.uuid
"""
"""The newest run of every test, and the time of its last good run.

No time is null: with the plain comparison, SQLite would search the index for all runs of a test since the horizon."""

TESTS = f"""
WITH newest AS (
  SELECT test_name, MAX(timestamp) AS last_run, MAX(CASE WHEN {GOOD} THEN timestamp END) AS last_good
  FROM job_history
  WHERE {OF_DEPLOYMENT} AND timestamp >= :horizon AND trial IS NULL
  GROUP BY test_name
){_TESTS}"""

_LAST = f"""(
    SELECT timestamp FROM job_history
    WHERE {OF_DEPLOYMENT} AND timestamp >= :horizon AND trial IS NULL AND test_name = names.test_name{{}}
    ORDER BY timestamp DESC LIMIT 1
  )"""

TESTS_BY_INDEX = f"""
WITH RECURSIVE names AS (
  SELECT MIN(test_name) AS test_name FROM job_history WHERE trial IS NULL
  UNION ALL
  SELECT (SELECT MIN(later.test_name) FROM job_history AS later WHERE later.trial IS NULL
    AND later.test_name > names.test_name)
  FROM names WHERE names.test_name IS NOT NULL
), newest AS (
  SELECT test_name, {_LAST.format("")} AS last_run, {_LAST.format(f" AND {GOOD}")} AS last_good
  FROM names WHERE test_name IS NOT NULL
){_TESTS}"""
"""The same, from the ends of an index: 30 times as fast with a year of nightly runs. BigQuery has no index."""


TESTS_SINCE = select("COUNT(DISTINCT test_name) AS tests", "timestamp >= :since")

RUNS_SINCE = select("COUNT(*) AS runs", "timestamp >= :since")

LAST_SCHEDULED = select(
    "test_name, MAX(timestamp) AS last_run", f"timestamp >= :since AND {SCHEDULED}", "GROUP BY test_name"
)


WEEK = select(
    f"""test_name, MIN(timestamp) AS first_run, MAX(timestamp) AS last_run,
  SUM(CASE WHEN timestamp >= :since AND {SCHEDULED} THEN 1 ELSE 0 END) AS runs""",
    "timestamp >= :horizon",
    "GROUP BY test_name",
)


class ScheduledRuns(NamedTuple):
    """The runs of a test as its schedule sees them."""

    first: datetime
    last: datetime
    runs: int
    """How many its schedule started since a time."""


@dataclass(frozen=True, slots=True)
class TestStatus:
    """A test with its newest run."""

    __test__ = False  # pytest would collect a class with this name

    newest: RunSummary
    owner: str
    framework: str
    accelerator: str
    last_good: datetime | None


@dataclass(frozen=True, slots=True)
class Runs:
    """Queries for runs and tests. Those about several runs leave trials out unless stated."""

    database: Database

    def newest(self, test: str, limit: int = 50, *, trials: bool = False) -> list[JobRow]:
        """Newest first."""
        return self.of_test(test, BEGINNING_OF_TIME, END_OF_TIME, limit, trials=trials)

    def latest(self, test: str) -> JobRow | None:
        """The newest run of a test, a trial or not: whether the test exists, and its DAG."""
        return next(iter(self.newest(test, 1, trials=True)), None)

    def newest_of(self, tests: Sequence[str], since: datetime) -> list[NewestRun]:
        """Of each of the tests that has a run since a time."""
        rows = self.database.query(NEWEST, tests=sorted(set(tests)), since=as_utc(since)) if tests else ()
        return [NewestRun(row["uuid"], row["test_name"], row["dag_id"], row["timestamp"]) for row in rows]

    def trials(self) -> dict[str, int]:
        return {row["test_name"]: row["trials"] for row in self.database.query(TRIALS)}

    def previous(self, test: str, before: datetime | None = None, exclude: str = "") -> JobRow | None:
        """The newest run of a test before the run `exclude`, which stopped at a time."""
        return next(iter(self.of_test(test, BEGINNING_OF_TIME, before or END_OF_TIME, 1, exclude)), None)

    def tests_since(self, moment: datetime) -> int:
        return int(self.database.query(TESTS_SINCE, since=as_utc(moment))[0]["tests"])

    def runs_since(self, moment: datetime) -> int:
        """How many runs of all tests have ended since then."""
        return int(self.database.query(RUNS_SINCE, since=as_utc(moment))[0]["runs"])

    def last_passed(self, test: str, before: datetime, exclude: str = "") -> Place | None:
        return _place(self.database.query(PLACE_OF_LAST_PASSED, test=test, before=as_utc(before), run=exclude))

    def of_test(
        self, test: str, since: datetime, until: datetime, limit: int, exclude: str = "", *, trials: bool = False
    ) -> list[JobRow]:
        """Those that stopped in a time span, which ends before the run `exclude`; newest first."""
        span = {"test": test, "before": as_utc(until), "limit": limit, "run": exclude}
        start: datetime | None = as_utc(since)
        if self.database.store.bills_bytes and since <= self.database.store.horizon:
            start = self.oldest(test, limit, until, exclude, trials=trials)
            if start is None:
                return []
        query = OF_TEST_WITH_TRIALS if trials else OF_TEST
        return [JobRow(**row) for row in self.database.query(query, since=start, **span)]

    def oldest(
        self, test: str, limit: int, until: datetime = END_OF_TIME, exclude: str = "", *, trials: bool = False
    ) -> datetime | None:
        """When the oldest of the newest runs of a test stopped; None if there is none."""
        query = OLDEST_WITH_TRIALS if trials else OLDEST_OF_TEST
        (row,) = self.database.query(query, test=test, limit=limit, before=as_utc(until), run=exclude)
        return row["oldest"]  # type: ignore[no-any-return]

    def between(self, since: datetime, until: datetime, tests: Sequence[str]) -> list[RunSummary]:
        """The runs of some tests that stopped in a time span, the oldest of each test first."""
        span = {"since": as_utc(since), "until": as_utc(until)}
        if len(tests) <= MOST_NAMED:
            rows = self.database.query(BETWEEN_OF_TESTS, tests=list(tests), **span) if tests else []
        else:
            rows = self.database.query(BETWEEN, **span)
        named = set(tests)
        return [summary_of(row) for row in rows if row["test_name"] in named]

    def sums(self, since: datetime, until: datetime) -> list[RunSums]:
        return [RunSums(**row) for row in self.database.query(SUMS, since=as_utc(since), until=as_utc(until))]

    def deployments(self) -> list[str]:
        return [row["deployment"] for row in self.database.query(DEPLOYMENTS)]

    def get(self, run: str | Place) -> JobRow | None:
        """One run. A run by its key alone costs another query, for its place."""
        return self._at(self.place(run) if isinstance(run, str) else run)

    def place(self, run_key: str) -> Place | None:
        """Where the rows of a run are; None if it is not recorded."""
        return _place(self.database.query(PLACE, run=run_key))

    def of_dag(self, dag_id: str, run_id: str) -> JobRow | None:
        return self._at(_place(self.database.query(PLACE_OF_DAG_RUN, dag=dag_id, run=run_id)))

    def _at(self, place: Place | None) -> JobRow | None:
        rows = self.database.query(ROW, **place.span) if place else ()
        return next((JobRow(**row) for row in rows), None)

    def test_of_dag(self, dag_id: str) -> str | None:
        rows = self.database.query(TEST_OF_DAG, dag=dag_id)
        return rows[0]["test_name"] if rows else None

    def metadata(self, run_key: str, place: Place | None = None) -> dict[str, str]:
        found = place or self.place(run_key)
        rows = self.database.query(METADATA_OF_RUNS, **found.span) if found else ()
        return {row["metadata_key"]: row["metadata_value"] or "" for row in rows}

    def last_scheduled(self, since: datetime) -> dict[str, datetime]:
        """When the newest run of each test ended that its schedule started, of those since a time."""
        rows = self.database.query(LAST_SCHEDULED, since=as_utc(since))
        return {row["test_name"]: row["last_run"] for row in rows}

    def scheduled(self, since: datetime) -> dict[str, ScheduledRuns]:
        """The first and the newest run of every test, and how many its schedule started since a time."""
        return {
            row["test_name"]: ScheduledRuns(row["first_run"], row["last_run"], int(row["runs"]))
            for row in self.database.query(WEEK, since=as_utc(since))
        }

    def tests(self) -> list[TestStatus]:
        """Every test with its newest run, by name."""
        # of two runs that stopped at the same time, the later row counts
        query = TESTS if self.database.store.bills_bytes else TESTS_BY_INDEX
        by_test = {row["test_name"]: row for row in self.database.query(query)}
        return [
            TestStatus(
                summary_of(row), row["owner"] or "", row["framework_version"], row["accelerator"], row["last_good"]
            )
            for row in by_test.values()
        ]


def _place(rows: list[dict[str, Any]]) -> Place | None:
    return Place(rows[0]["uuid"], rows[0]["test_name"], rows[0]["timestamp"]) if rows else None
