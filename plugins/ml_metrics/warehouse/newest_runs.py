"""The metrics of the newest runs of many tests, with two queries for all of them.

Where bytes are billed, a query for one test costs almost as much as a query for all: it reads the same partitions.
"""

from __future__ import annotations

from contextlib import closing
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ml_metrics.kinds import kind_of
from ml_metrics.warehouse.deployment import OF_DEPLOYMENT
from ml_metrics.warehouse.history import history_point
from ml_metrics.warehouse.record import DAY, MAX_POINT_DISTANCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.model import StoredMetric
    from ml_metrics.warehouse.database import Database

TESTS_AT_ONCE = 20
"""The tests of one query where nothing is billed: their rows are sorted in memory."""
MOST_TESTS = 10_000
"""The tests of one query of BigQuery, whose names fit into a request."""

RANKED = f"""(
  SELECT uuid, test_name, timestamp, job_status,
    ROW_NUMBER() OVER (PARTITION BY test_name ORDER BY timestamp DESC, uuid DESC) AS place
  FROM job_history
  WHERE {OF_DEPLOYMENT} AND test_name IN :tests AND timestamp >= :since AND trial IS NULL
)"""  # noqa: S608  (constants)

OLDEST = f"""
SELECT MIN(ranked.timestamp) AS oldest
FROM {RANKED.replace(":since", ":horizon").replace(" uuid, test_name, timestamp, job_status,", " timestamp,")} AS ranked
WHERE place <= :recent
"""  # noqa: S608  (constants)

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
"""  # noqa: S608  (constants)

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
"""  # noqa: S608  (constants)
"""What is judged first. If there are too many, all runs lack some, and none lacks all."""


def of_newest_runs(database: Database, tests: Sequence[str], recent: int) -> Iterator[tuple[str, list[StoredMetric]]]:
    """Yield each test that has runs, with all rows of its newest `recent` runs; one test at a time is in memory.

    Trials are left out. A run without metrics is one row with an empty metric name.
    """
    size = MOST_TESTS if database.store.bills_bytes else TESTS_AT_ONCE
    ordered = sorted(set(tests))
    for start in range(0, len(ordered), size):
        which = {"tests": ordered[start : start + size], "recent": recent}
        oldest = database.query(OLDEST, **which)[0]["oldest"]
        if oldest is None:
            continue
        span = {"since": oldest, "scan_from": oldest - MAX_POINT_DISTANCE}
        with closing(database.stream(OF_NEWEST, **which, **span)) as rows:
            for test, of_test in groupby(rows, key=lambda row: str(row["test_name"])):
                yield test, [history_point(test, _without_test(row)) for row in of_test]


class FirstOfRun(NamedTuple):
    """The first values of a run: what is judged, then the others by name."""

    rows: list[tuple[str, float | None, str, str]]
    """The metric, its value, verdict and unit."""
    left_out: int
    """How many other values it has."""


def first_of_runs(
    database: Database, runs: Mapping[str, tuple[str, datetime]], *, most: int, limit: int
) -> dict[str, FirstOfRun]:
    """Return at most `most` values of each run, and `limit` of all, by run. `runs` has the test and end of each."""
    if not runs:
        return {}
    oldest = min(at for _, at in runs.values())
    which = {"runs": list(runs), "tests": sorted({test for test, _ in runs.values()})}
    rows = database.query(FIRST_OF_RUNS, **which, scan_from=oldest - DAY - MAX_POINT_DISTANCE, most=most, limit=limit)
    found: dict[str, FirstOfRun] = {}
    for row in rows:
        metric, unit = row["metric"], row["unit"]
        one = found.setdefault(row["run_key"], FirstOfRun([], row["of_run"]))
        one.rows.append((metric, row["value"], row["verdict"] or "", kind_of(metric).unit if unit is None else unit))
    return {run: one._replace(left_out=one.left_out - len(one.rows)) for run, one in found.items()}


def _without_test(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name != "test_name"}
