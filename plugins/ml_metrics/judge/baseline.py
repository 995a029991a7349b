"""Which history counts: the newest good runs of the same metric, and never the run that is judged."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ml_metrics.judge.history import RECENT
from ml_metrics.model import JobStatus, Outcome

if TYPE_CHECKING:
    from datetime import datetime

    from ml_metrics.config.regression import Condition
    from ml_metrics.judge.history import Moment, Past
    from ml_metrics.model import StoredMetric


def baseline_of(metric: str, condition: Condition, past: Past) -> list[StoredMetric]:
    """The runs that a metric is compared with, oldest first.

    The newest `baseline_runs` runs that succeeded with a finite value and whose verdict was not `fail`; not before
    `since`, the accepted run or `time_window`.
    """
    accepted = past.accepted(metric, condition.compare_to)
    rows = _rows_from_start(metric, condition, past, accepted)
    if accepted is None:  # the case of nearly every metric, without a call for each row
        good = [row for row in rows if row.outcome is not Outcome.FAIL and measured(row)]
    else:
        good = [row for row in rows if counts(row, accepted)]
    if condition.time_window is not None:
        earliest = _end_of_window(rows, good, past.now) - condition.time_window
        good = [row for row in good if row.timestamp >= earliest]
    return good[-condition.baseline_runs :]


def series_of(metric: str, condition: Condition, past: Past) -> list[StoredMetric]:
    """The newest `baseline_runs` values of a metric, good or bad: where a level changes, the bad ones are the point.

    A bad one counts among the newest rows only. One query cannot look for good and bad values without end, and a
    regression that is so many runs old has long been told.
    """
    rows = _rows_from_start(metric, condition, past, past.accepted(metric))
    earliest = None if condition.time_window is None else past.now - condition.time_window
    older = max(0, len(rows) - max(RECENT, condition.baseline_runs))
    whole = [
        row
        for number, row in enumerate(rows)
        if (measured(row) if number >= older else counts(row)) and (earliest is None or row.timestamp >= earliest)
    ]
    return whole[-condition.baseline_runs :]


def counts(row: StoredMetric, accepted: tuple[Moment, datetime] | None = None) -> bool:
    """Whether a row may be part of a baseline.

    A verdict from before a level was accepted was measured by the old level: from the accepted run on, it does not
    exclude its run.
    """
    if not measured(row):
        return False
    if row.outcome is not Outcome.FAIL:
        return True
    return accepted is not None and accepted[0] <= (row.timestamp, row.run_key) and row.timestamp <= accepted[1]


def measured(row: StoredMetric) -> bool:
    """Whether a row holds a number of a whole run."""
    return row.job_status is JobStatus.SUCCESS and row.value is not None and math.isfinite(row.value)


def _rows_from_start(
    metric: str, condition: Condition, past: Past, accepted: tuple[Moment, datetime] | None
) -> list[StoredMetric]:
    rows, since = past.rows(metric, condition.compare_to), condition.since
    if since is not None:
        rows = [row for row in rows if row.timestamp >= since]
    if accepted is not None:
        rows = [row for row in rows if (row.timestamp, row.run_key) >= accepted[0]]
    return rows


def _end_of_window(rows: list[StoredMetric], good: list[StoredMetric], now: datetime) -> datetime:
    """From when `time_window` looks back: now, or while a metric fails the last good run.

    A failing metric's baseline stands still, or else the regression would outlive the baseline that shows it, and end
    as `insufficient_data`, which nobody hears of.
    """
    newest = next((row for row in reversed(rows) if measured(row)), None)
    return good[-1].timestamp if good and newest is not good[-1] else now
