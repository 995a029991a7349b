"""The small curves of many tests: of each its most important metric, with its newest values.

Two statements for all of them, each bounded in time: the newest runs, and what they and earlier runs measured.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ml_metrics.kinds import kind_of
from ml_metrics.model import BROKEN
from ml_metrics.warehouse.deployment import OF_DEPLOYMENT, of_deployment
from ml_metrics.warehouse.record import MAX_POINT_DISTANCE
from ml_metrics.warehouse.tables import VERDICT_IS_BROKEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from typing import Any

    from ml_metrics.warehouse.database import Database

NEWEST = f"""
SELECT test_name, uuid, dag_id, timestamp
FROM (
  SELECT test_name, uuid, dag_id, timestamp,
    ROW_NUMBER() OVER (PARTITION BY test_name ORDER BY timestamp DESC, uuid DESC) AS place
  FROM job_history
  WHERE {OF_DEPLOYMENT} AND test_name IN :tests AND timestamp >= :since AND trial IS NULL
) AS ranked
WHERE place = 1
"""  # noqa: S608  (constants)

VALUES = f"""
SELECT test_name, metric_name, metric_value, verdict, unit
FROM (
  SELECT metric.test_name, metric.metric_name, metric.metric_value, metric.verdict, metric.unit, metric.timestamp,
    metric.uuid,
    ROW_NUMBER() OVER (PARTITION BY metric.test_name ORDER BY metric.timestamp DESC, metric.uuid DESC) AS ago
  FROM (
    SELECT test_name, metric_name,
      ROW_NUMBER() OVER (
        PARTITION BY test_name ORDER BY CASE WHEN {VERDICT_IS_BROKEN} THEN 0 ELSE 1 END, metric_name
      ) AS place
    FROM metric_history
    WHERE {OF_DEPLOYMENT} AND uuid IN :runs AND test_name IN :tests AND timestamp >= :scan_from
      AND verdict IS NOT NULL AND metric_name <> 'goodput' AND metric_name NOT LIKE 'badput_%_percent'
  ) AS judged
  JOIN metric_history AS metric
    ON metric.test_name = judged.test_name AND metric.metric_name = judged.metric_name
  WHERE judged.place = 1 AND {of_deployment("metric")} AND metric.test_name IN :tests
    AND metric.timestamp >= :scan_from AND metric.trial IS NULL AND metric.metric_value IS NOT NULL
) AS found
WHERE ago <= :most
ORDER BY test_name, ago DESC
"""  # noqa: S608  (constants)
"""The metric that failed in the newest run, else the first by name with a condition; parts of its time are neither."""


class NewestRun(NamedTuple):
    """The newest run of a test."""

    run_key: str
    test: str
    dag_id: str
    at: datetime


class SmallCurve(NamedTuple):
    """The newest values of a metric, oldest first."""

    metric: str
    unit: str
    values: tuple[float, ...]
    broken: tuple[int, ...]
    """The places of those that broke their condition."""


def newest_of(database: Database, tests: Iterable[str], since: datetime) -> list[NewestRun]:
    """Return the newest run of each of some tests that has one since a time."""
    named = sorted(set(tests))
    rows = database.query(NEWEST, tests=named, since=since) if named else ()
    return [
        NewestRun(row["uuid"], row["test_name"], row["dag_id"] or row["test_name"], row["timestamp"]) for row in rows
    ]


def small_curves(
    database: Database, runs: Mapping[str, tuple[str, datetime]], since: datetime, most: int
) -> dict[str, SmallCurve]:
    """Return the metric that matters in each run, with the newest `most` values of its test since a time, by test.

    `runs` has the test and the end of each run. A value whose point was written before that time may be among them.
    """
    if not runs:
        return {}
    which = {"tests": sorted({test for test, _ in runs.values()}), "runs": sorted(runs), "most": most}
    rows = database.query(VALUES, scan_from=since - MAX_POINT_DISTANCE, **which)
    return {test: _curve(list(of_test)) for test, of_test in groupby(rows, key=lambda row: str(row["test_name"]))}


def _curve(rows: list[dict[str, Any]]) -> SmallCurve:
    metric, unit = rows[-1]["metric_name"], rows[-1]["unit"]
    places = tuple(place for place, row in enumerate(rows) if row["verdict"] in BROKEN)
    values = tuple(row["metric_value"] for row in rows)
    return SmallCurve(metric, kind_of(metric).unit if unit is None else unit, values, places)
