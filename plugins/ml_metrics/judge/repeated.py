"""Rows of one run and metric that are stored more than once, for example by two attempts of an import."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from ml_metrics.model import BROKEN, JobStatus
from ml_metrics.values import as_utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ml_metrics.config.regression import Condition
    from ml_metrics.model import StoredMetric

    Rank = tuple[datetime, str, bool, bool, str, bool, float, float]


def worse_side(condition: Condition | None) -> int:
    """Return 1 if greater values of a metric are worse, -1 if smaller ones are, and 0 if both or unknown."""
    if condition is None:
        return 0
    return condition.comparison.bounds_above - condition.comparison.bounds_below


def each_run_once(rows: Iterable[StoredMetric], side: int) -> list[StoredMetric]:
    """Return the newest row of each run, oldest run first; of two rows of the same time, the worse one."""
    rows = list(rows)
    middle = _middle(rows)
    newest = {row.run_key: row for row in sorted(rows, key=lambda row: _rank(row, side, middle))}
    return sorted(newest.values(), key=lambda row: (as_utc(row.timestamp), row.run_key))


def worst(rows: Sequence[StoredMetric], side: int, earlier: Sequence[StoredMetric]) -> StoredMetric:
    """Return the worst of some rows by their values alone; one without a finite value is worse than any other."""
    if len(rows) == 1:
        return rows[0]
    middle = _middle(earlier) if earlier else _middle(rows)
    return max(rows, key=lambda row: _badness(row, side, middle))


def _middle(rows: Sequence[StoredMetric]) -> float:
    values = [row.value for row in rows if row.value is not None and math.isfinite(row.value)]
    return median(value / 2 for value in values) * 2 if values else 0.0


def _rank(row: StoredMetric, side: int, middle: float) -> Rank:
    """Order rows by time and run, then from better to worse."""
    moment = as_utc(row.timestamp), row.run_key
    failed, broken = row.job_status is not JobStatus.SUCCESS, row.outcome in BROKEN
    return (*moment, failed, broken, row.outcome or "", *_badness(row, side, middle))


def _badness(row: StoredMetric, side: int, middle: float) -> tuple[bool, float, float]:
    """Order values from better to worse; without a side, the worse is farther from the median."""
    if row.value is None or not math.isfinite(row.value):
        return True, 0.0, 0.0
    return False, side * row.value if side else abs(row.value / 2 - middle / 2), row.value
