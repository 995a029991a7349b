"""Metrics whose condition has not decided for many runs: a lasting `insufficient_data` is a pass that nobody chose."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.model import JobStatus, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.config.regression import Condition, RegressionTestConfig
    from ml_metrics.model import StoredMetric

DAY = timedelta(days=1)
PATIENCE = 2
"""A condition has this many times the runs that it needs before it is reported."""
MIN_RUNS = 20


@dataclass(frozen=True, slots=True)
class Undecided:
    """A metric without a decision for too many runs."""

    metric: str
    runs: int
    """The newest runs in a row without a decision."""
    reason: str


def patience_of(condition: Condition) -> int:
    """Return after how many runs without a decision a condition is reported."""
    return max(MIN_RUNS, PATIENCE * condition.fewest_runs)


def undecided(config: RegressionTestConfig, rows: Iterable[StoredMetric], test: str) -> list[Undecided]:
    """Return the metrics of a test whose newest stored verdicts are all `insufficient_data`, by name."""
    by_metric: dict[str, list[StoredMetric]] = defaultdict(list)
    for row in rows:
        if row.metric and (row.test or test) == test and row.job_status is JobStatus.SUCCESS:
            by_metric[row.metric].append(row)
    found = []
    for metric, own in sorted(by_metric.items()):
        condition = config.condition_for(metric)
        runs = _runs_without_decision(own)
        if condition is not None and runs > patience_of(condition):
            found.append(Undecided(metric, runs, _reason(condition)))
    return found


def _runs_without_decision(rows: list[StoredMetric]) -> int:
    count = 0
    for row in sorted(rows, key=lambda row: (row.timestamp, row.run_key), reverse=True):
        if row.outcome is Outcome.INSUFFICIENT_DATA:
            count += 1
        elif row.outcome is not Outcome.SKIPPED:
            break
    return count


def _reason(condition: Condition) -> str:
    """Return what the condition needs, and which of its keys can keep the baseline small."""
    limits = {
        "compare_to": condition.compare_to,
        "time_window": condition.time_window and f"{condition.time_window / DAY:g} days",
        "since": None if condition.since is None else f"{condition.since:%Y-%m-%d}",
    }
    given = [f"{name}: {value}" for name, value in limits.items() if value is not None]
    needs = f"{condition.kind} needs {condition.fewest_runs} earlier runs"
    return f"{needs} with {', '.join(given)}" if given else needs
