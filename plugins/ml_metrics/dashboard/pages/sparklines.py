"""The small curves of the page of all tests, as JSON for its script: those of the rows in view."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ml_metrics.dashboard.chart_data import is_time_part
from ml_metrics.dashboard.formatting import value_text
from ml_metrics.dashboard.query import BadQueryError
from ml_metrics.model import BROKEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ml_metrics.model import StoredMetric
    from ml_metrics.warehouse import Warehouse

MAX_TESTS = 30
DAYS, MAX_VALUES, MAX_POINTS = 30, 20_000, 60
"""The newest points that a curve of so few pixels has."""


def sparklines(warehouse: Warehouse, tests: Sequence[str], now: datetime) -> dict[str, Any]:
    """Return of each test the metric that matters, with its newest values.

    It is the one that failed in the newest run, else the first by name with a condition. Bounds are not among the
    values: a reader who may see a test may see what it measured, but not what other tests it is compared with measured.
    """
    if not 1 <= len(tests) <= MAX_TESTS:
        raise BadQueryError(f"test is given {len(tests)} times; 1 to {MAX_TESTS} are possible.")
    chosen = {test: metric for test, rows in warehouse.metrics.of_newest_runs(tests, 1) if (metric := _matters(rows))}
    names = sorted(set(chosen.values()))
    values: dict[str, list[StoredMetric]] = defaultdict(list)
    for one in warehouse.metrics.of_tests(list(chosen), names, now - timedelta(days=DAYS), now, MAX_VALUES):
        if chosen[one.test] == one.metric and one.value is not None:
            values[one.test].append(one)
    return {test: _curve(rows[-MAX_POINTS:]) for test, rows in values.items()}


def _matters(rows: Iterable[StoredMetric]) -> str:
    judged = [row for row in rows if row.metric and row.outcome is not None and not is_time_part(row.metric)]
    return min(((row.outcome not in BROKEN, row.metric) for row in judged), default=(True, ""))[1]


def _curve(rows: Sequence[StoredMetric]) -> dict[str, Any]:
    newest = rows[-1]
    return {
        "metric": newest.metric,
        "values": [row.value for row in rows],
        "broken": [index for index, row in enumerate(rows) if row.outcome in BROKEN],
        "text": f"{newest.metric}: {value_text(newest)}",
    }
