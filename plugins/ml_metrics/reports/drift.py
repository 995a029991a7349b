"""A level that changed before anything was out of bounds: the first bad run is then not where it began."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ml_metrics.config.regression import ChangePoint
from ml_metrics.model import HistoryPoint, JobStatus

if TYPE_CHECKING:
    from ml_metrics.judge.change import Change
    from ml_metrics.model import Run, Verdict, Workload
    from ml_metrics.reports.past import MetricPast


def drift_of(verdict: Verdict, past: MetricPast, run: Run, workload: Workload, first_bad: str) -> str:
    """A sentence on the last lasting change of the metric's level, if it came before the first bad run; else empty."""
    from ml_metrics.judge.change import changes_in

    now = HistoryPoint(
        run_key=run.key,
        timestamp=workload.ended_at or datetime.now(UTC),
        metric=verdict.metric,
        value=verdict.value,
        job_status=JobStatus.SUCCESS,
        outcome=None,
    )
    changes = changes_in([*past.measured(verdict.metric), now], ChangePoint())
    if not changes or not _is_before(changes[-1], past, first_bad):
        return ""
    return f"{verdict.metric}: {changes[-1]}"


def _is_before(change: Change, past: MetricPast, first_bad: str) -> bool:
    keys = [value.run_key for value in past.values]
    return change.run_key in (keys[: keys.index(first_bad)] if first_bad in keys else keys)
