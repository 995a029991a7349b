"""Which history counts: the newest good runs of the same metric, and never the run that is judged."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ml_metrics.model import JobStatus, Outcome

if TYPE_CHECKING:
    from datetime import datetime

    from ml_metrics.judge.past import Moment, Past
    from ml_metrics.model import HistoryPoint
    from ml_metrics.spec.regression import Condition


def baseline_of(metric: str, condition: Condition, past: Past) -> list[HistoryPoint]:
    """The runs that a metric is compared with, oldest first.

    The newest `reach` runs that succeeded with a finite value and whose verdict was not `fail`; not before `since`, the
    accepted run or `time_window`.
    """
    accepted = past.accepted(metric, condition.compare_to)
    rows = [row for row in past.rows(metric, condition.compare_to) if _is_after(row, condition, accepted)]
    earliest = _earliest(rows, condition, past.now, accepted)
    counted: list[HistoryPoint] = []
    for row in reversed(rows):
        if len(counted) == condition.reach or (earliest is not None and row.timestamp < earliest):
            break
        if counts(row, accepted):
            counted.append(row)
    counted.reverse()
    return counted


def series_of(metric: str, condition: Condition, past: Past) -> list[HistoryPoint]:
    """The newest `reach` values of a metric, good or bad: where a level changes, the bad ones are the point."""
    accepted = past.accepted(metric, condition.compare_to)
    earliest = None if condition.time_window is None else past.now - condition.time_window
    rows = [
        row
        for row in past.rows(metric, condition.compare_to)
        if measured(row) and _is_after(row, condition, accepted) and (earliest is None or row.timestamp >= earliest)
    ]
    return rows[-condition.reach :]


def counts(row: HistoryPoint, accepted: tuple[Moment, datetime] | None = None) -> bool:
    """Whether a row may be part of a baseline.

    A verdict from before a level was accepted was measured by the old level: from the accepted run on, it does not
    exclude its run.
    """
    if not measured(row):
        return False
    if row.outcome is not Outcome.FAIL:
        return True
    return accepted is not None and accepted[0] <= (row.timestamp, row.run_key) and row.timestamp <= accepted[1]


def measured(row: HistoryPoint) -> bool:
    """Whether a row holds a number of a whole run."""
    return row.job_status is JobStatus.SUCCESS and row.value is not None and math.isfinite(row.value)


def _is_after(row: HistoryPoint, condition: Condition, accepted: tuple[Moment, datetime] | None) -> bool:
    if condition.since is not None and row.timestamp < condition.since:
        return False
    return accepted is None or (row.timestamp, row.run_key) >= accepted[0]


def _earliest(
    rows: list[HistoryPoint], condition: Condition, now: datetime, accepted: tuple[Moment, datetime] | None
) -> datetime | None:
    """Where `time_window` begins.

    While a metric fails, its baseline stands still: else a regression would outlive the baseline that shows it, and
    end as `insufficient_data`, which nobody hears of. So the window then looks back from the last good run.
    """
    if condition.time_window is None:
        return None
    good = next((row for row in reversed(rows) if counts(row, accepted)), None)
    measured_since = next((row for row in reversed(rows) if measured(row)), None)
    fails = good is not None and measured_since is not good
    return (good.timestamp if good is not None and fails else now) - condition.time_window
