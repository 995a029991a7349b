"""The runs of a time span, as a cell of the heatmap shows them, and their sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ml_metrics.warehouse.deployment import OF_DEPLOYMENT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ml_metrics.warehouse.database import Database

BETWEEN = f"""
SELECT uuid, test_name, NULLIF(dag_id, test_name) AS dag_id, timestamp, job_status, verdict, failure_reason, goodput
FROM job_history
WHERE {OF_DEPLOYMENT} AND timestamp >= :since AND timestamp < :until
  AND trial IS NULL
ORDER BY timestamp
"""  # noqa: S608  (constants)
"""In the order of an index that covers the query. A DAG id that equals the test name, as nearly all do, is not sent."""

BETWEEN_OF_TESTS = BETWEEN.replace(
    "  AND trial IS NULL\nORDER BY timestamp",
    "  AND trial IS NULL AND test_name IN :tests\nORDER BY test_name, timestamp",
)

SUMS = f"""
SELECT test_name, COALESCE(dag_id, test_name) AS dag_id, COUNT(*) AS runs,
  SUM(CASE WHEN job_status = 'success' AND (verdict IS NULL OR verdict <> 'fail') THEN 1 ELSE 0 END) AS good,
  COUNT(goodput) AS measured, SUM(goodput) AS goodput
FROM job_history
WHERE {OF_DEPLOYMENT} AND timestamp >= :since AND timestamp < :until
  AND trial IS NULL
GROUP BY test_name, COALESCE(dag_id, test_name)
"""  # noqa: S608  (constants)

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


def between(database: Database, since: datetime, until: datetime, tests: Sequence[str]) -> list[RunSummary]:
    """Return the runs of some tests that stopped in a time span, the oldest of each test first."""
    if not tests:
        return []
    if len(tests) <= MOST_NAMED:
        rows = database.query(BETWEEN_OF_TESTS, tests=list(tests), since=since, until=until)
        return [summary_of(row) for row in rows]
    named = set(tests)
    rows = database.query(BETWEEN, since=since, until=until)
    return [summary_of(row) for row in rows if row["test_name"] in named]


def sums(database: Database, since: datetime, until: datetime) -> list[RunSums]:
    """Return the sums of the runs of every test that stopped in a time span."""
    return [
        RunSums(
            row["test_name"],
            row["dag_id"],
            int(row["runs"]),
            int(row["good"]),
            int(row["measured"]),
            row["goodput"] or 0.0,
        )
        for row in database.query(SUMS, since=since, until=until)
    ]


def summary_of(row: dict[str, Any]) -> RunSummary:
    """Return a run from its row."""
    dag_id = row["dag_id"] or row["test_name"]
    status = row["job_status"], row["verdict"], row["failure_reason"], row["goodput"]
    return RunSummary(row["uuid"], row["test_name"], dag_id, row["timestamp"], *status)
