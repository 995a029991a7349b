"""The rows before a run, as far as the judge needs them.

Trials are left out. The place of a run in the history is the time at which its workload stopped,
`job_history.timestamp`, and then its key: a cluster states such times in whole seconds. The `timestamp` of a metric is
bounded as well, only to limit the partitions that BigQuery reads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ml_metrics.core.errors import WarehouseError
from ml_metrics.core.model import JobStatus, Outcome, StoredMetric
from ml_metrics.core.values import END_OF_TIME, as_utc
from ml_metrics.judge import in_baseline, recent_rows
from ml_metrics.warehouse.database import OF_DEPLOYMENT, of_deployment
from ml_metrics.warehouse.record import MAX_POINT_DISTANCE
from ml_metrics.warehouse.runs import BEFORE_RUN, GOOD, before_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from ml_metrics.judge import HistoryNeeds
    from ml_metrics.warehouse.database import Database


TESTS_IN_QUERY = 500
"""Of how many tests the old runs are looked at by one query."""

Member = TypeVar("Member", JobStatus, Outcome)


def _earliest(kind: str, since: str, condition: str) -> str:
    return f"""
SELECT '{kind}' AS kind, COUNT(*) AS runs, MIN({kind}_runs.timestamp) AS oldest
FROM (
  SELECT timestamp
  FROM job_history
  WHERE {OF_DEPLOYMENT} AND test_name = :test AND timestamp >= {since} AND {BEFORE_RUN}
    AND trial IS NULL{condition}
) AS {kind}_runs
"""


EARLIEST_RUNS = "UNION ALL".join(
    [
        _earliest("clean", ":earliest", f"\n    AND {GOOD}\n  ORDER BY timestamp DESC\n  LIMIT :window"),
        _earliest("any", ":horizon", "\n  ORDER BY timestamp DESC\n  LIMIT :recent"),
        _earliest("first", ":earliest", "\n  ORDER BY timestamp\n  LIMIT 1"),
    ]
)
"""How far back to read. `window` runs that did not fail usually hold `window` good values of every metric."""

PASSED = """((metric.verdict IS NULL AND COALESCE(metric.non_finite, 0) = 0)
      OR metric.verdict NOT IN ('fail', 'non_finite'))"""
"""The rows that a baseline takes, as in `ml_metrics.judge.history`."""


def _newest(
    columns: str, of_test: str, of_jobs: str, part: str, *, of_metrics: str = "", more: str = "", units: str = ""
) -> str:
    """The query for the newest `recent` rows of past runs, and the newest `window` good ones.

    A run without any metric is included under an empty metric name: its failure can matter. `part` has the columns that
    rows are counted within, and `more` columns that are read besides.
    """
    newest = "ORDER BY timestamp DESC, uuid DESC"
    return f"""
SELECT {columns}
FROM (
  SELECT past.*,
    ROW_NUMBER() OVER (PARTITION BY {part} {newest}) AS place,
    ROW_NUMBER() OVER (PARTITION BY {part}, good {newest}) AS place_among_alike
  FROM (
    SELECT
      job.uuid, job.test_name, job.timestamp, {more}COALESCE(metric.metric_name, '') AS metric_name,
      CASE WHEN job.job_status = 'success' AND metric.metric_value IS NOT NULL
        AND {PASSED} THEN 1 ELSE 0 END AS good
    FROM job_history AS job
    LEFT JOIN (
      SELECT uuid, metric_name, metric_value, verdict, non_finite{units} FROM metric_history
      WHERE test_name {of_test} AND timestamp >= :scan_from{of_metrics}
    ) AS metric ON metric.uuid = job.uuid
    WHERE {of_deployment("job")} AND job.test_name {of_test} AND {of_jobs} AND job.trial IS NULL
  ) AS past
) AS ranked
WHERE place <= :recent OR (good = 1 AND place_among_alike <= :window)
"""


POINT = """uuid AS run_key, timestamp, metric_name AS metric, metric_value AS value, job_status, verdict AS outcome,
  non_finite, unit, rerun"""
RERUN = "CASE WHEN job.run_id LIKE 'confirm%' THEN job.run_id END AS rerun"
"""Nearly always null, so that no row is sent with the text of a run id."""
UNIT = "COALESCE(metric.unit, '') AS unit"
BY_METRIC = "ORDER BY metric_name, timestamp, uuid\n"

RECENT_HISTORY = (
    _newest(
        POINT,
        "= :test",
        f"job.timestamp >= :oldest AND {before_run('job')}",
        "metric_name",
        more=f"job.job_status, metric.verdict, metric.metric_value, metric.non_finite, {UNIT}, {RERUN}, ",
        units=", unit",
    )
    + BY_METRIC
)

NEEDED_RUNS = _newest(
    "DISTINCT uuid",
    "IN :tests",
    "job.timestamp >= :horizon AND job.timestamp < :until",
    "test_name, metric_name",
    of_metrics=" AND timestamp < :scan_to",
)
"""The runs that have a row which a judgement at a time may read, or at any later time: the places of rows only grow."""

OLDER_HISTORY = f"""
SELECT {POINT}
FROM (
  SELECT
    job.uuid, job.timestamp, metric.metric_name, metric.metric_value, job.job_status, metric.verdict, metric.non_finite,
    {UNIT}, {RERUN},
    ROW_NUMBER() OVER (PARTITION BY metric.metric_name ORDER BY job.timestamp DESC, job.uuid DESC) AS place
  FROM metric_history AS metric
  CROSS JOIN job_history AS job
  WHERE job.uuid = metric.uuid AND {of_deployment("job")}
    AND metric.test_name = :test AND metric.metric_name IN :metrics AND metric.timestamp >= :scan_from
    AND metric.metric_value IS NOT NULL AND {PASSED}
    AND job.test_name = :test AND job.uuid <> :run AND job.job_status = 'success'
    AND job.timestamp >= :earliest AND job.timestamp < :oldest
    AND job.trial IS NULL
) AS ranked
WHERE place <= :window
{BY_METRIC}"""
"""Older good values, for metrics that only some runs have or that were broken in many.

The cross join makes SQLite begin with the few rows of these metrics instead of every run of the test.
"""


def read_history(
    database: Database, needs: HistoryNeeds, *, exclude: str, before: datetime | None, metrics: set[str]
) -> list[StoredMetric]:
    span = {"run": exclude, "before": as_utc(before) if before else END_OF_TIME}
    found = [point for test in needs.tests for point in _of_test(database, test, needs, span, metrics)]
    for other in needs.elsewhere:
        rows = _of_test(database.in_deployment(other.deployment), other.test, needs, span, metrics)
        found += [replace(point, test=other.series) for point in rows]
    return found


def needed_runs(database: Database, windows: Mapping[str, int], until: datetime) -> set[str]:
    """Those before a time that judging a run after it may read. `windows` has the longest baseline of each test."""
    horizon = database.store.horizon
    found: set[str] = set()
    if until <= horizon:
        return found
    scan = {"scan_from": horizon - MAX_POINT_DISTANCE, "scan_to": until + MAX_POINT_DISTANCE, "until": until}
    for window in sorted(set(windows.values())):
        tests = [test for test, own in windows.items() if own == window]
        for start in range(0, len(tests), TESTS_IN_QUERY):
            # one more than that: a run that is judged again is not in its own history
            places = {"window": window + 1, "recent": recent_rows(window) + 1}
            rows = database.query(NEEDED_RUNS, tests=tests[start : start + TESTS_IN_QUERY], **places, **scan)
            found.update(row["uuid"] for row in rows)
    return found


def _of_test(
    database: Database, test: str, needs: HistoryNeeds, span: dict[str, Any], metrics: set[str]
) -> Iterator[StoredMetric]:
    horizon = database.store.horizon
    earliest = max(as_utc(needs.earliest), horizon) if needs.earliest else horizon
    span = {**span, "test": test, "window": needs.window, "recent": needs.recent}
    starts = {row["kind"]: row for row in database.query(EARLIEST_RUNS, earliest=earliest, **span)}
    if not starts["any"]["runs"]:
        return
    oldest, first = starts["any"]["oldest"], starts["first"]["oldest"]
    if needs.window and first:
        enough = starts["clean"]["runs"] == needs.window
        oldest = min(oldest, starts["clean"]["oldest"] if enough else first)
    rows = database.query(RECENT_HISTORY, oldest=oldest, scan_from=oldest - MAX_POINT_DISTANCE, **span)
    if first and first < oldest:
        good = Counter(row["metric"] for row in rows if in_baseline(history_point("", row)))
        named = metrics.union(row["metric"] for row in rows) - {""}
        short = sorted(name for name in named if good[name] < needs.window)
        older = {**span, "oldest": oldest, "earliest": earliest, "scan_from": first - MAX_POINT_DISTANCE}
        rows = [*(database.query(OLDER_HISTORY, metrics=short, **older) if short else ()), *rows]
    yield from (history_point(test, row) for row in rows)


def history_point(test: str, row: dict[str, Any]) -> StoredMetric:
    status = _member(JobStatus, row, "job_status")
    outcome = _member(Outcome, row, "outcome") if row["outcome"] is not None else None
    return StoredMetric(**{**row, "job_status": status, "outcome": outcome, "test": test})


def _member(members: type[Member], row: dict[str, Any], field: str) -> Member:
    try:
        return members(row[field])
    except ValueError as error:
        column = "verdict" if field == "outcome" else field
        raise WarehouseError(
            f"run {row['run_key']}: column {column} holds {row[field]!r}, which is not one of {', '.join(members)}"
        ) from error
