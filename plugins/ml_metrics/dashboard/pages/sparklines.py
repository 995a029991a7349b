"""The small curves of the page of all tests, as JSON for its script: those of the rows in view."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ml_metrics.dashboard.formatting import number_text
from ml_metrics.dashboard.query import BadQueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.dashboard.reader import Reader
    from ml_metrics.warehouse import Warehouse

MAX_TESTS = 30
DAYS, MAX_POINTS = timedelta(days=30), 60
"""The newest points that a curve of so few pixels has."""


def sparklines(warehouse: Warehouse, tests: Sequence[str], reader: Reader) -> dict[str, Any]:
    """Return the metric that matters of each test that the reader may see, with its newest values.

    It is the one that failed in the newest run, else the first by name with a condition. Bounds are not among the
    values: a reader who may see a test may see what it measured, but not what other tests it is compared with measured.
    """
    if not 1 <= len(tests) <= MAX_TESTS:
        raise BadQueryError(f"test is given {len(tests)} times; 1 to {MAX_TESTS} are possible.")
    since = reader.now - DAYS
    newest = warehouse.runs.newest_of(tests, since)
    dags = reader.readable({run.dag_id for run in newest})
    runs = {run.run_key: (run.test, run.at) for run in newest if run.dag_id in dags}
    return {
        test: {
            "metric": curve.metric,
            "values": curve.values,
            "broken": curve.broken,
            "text": f"{curve.metric}: {number_text(curve.values[-1], curve.unit)}",
        }
        for test, curve in warehouse.metrics.small_curves(runs, since, MAX_POINTS).items()
    }
