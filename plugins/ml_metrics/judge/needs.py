"""The part of the history that a judgement needs, for a single windowed query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.judge.baseline import in_baseline
from ml_metrics.judge.history import RECENT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ml_metrics.config.regression import Condition, RegressionTestConfig
    from ml_metrics.model import StoredMetric


@dataclass(frozen=True, slots=True)
class HistoryNeeds:
    """The rows that a judgement can depend on. More rows do not change it.

    For each test and metric: the newest `window` rows that may be in a baseline, and the newest `recent` rows of any
    kind, with NULL values, failed jobs and failed verdicts.
    """

    tests: tuple[str, ...]
    """The test itself, then the tests of `compare_to`."""
    window: int
    """0 if no condition uses the history."""
    recent: int
    earliest: datetime | None
    """No baseline starts before this time; None for no limit. It does not limit the `recent` rows."""

    def select(self, rows: Sequence[StoredMetric]) -> list[StoredMetric]:
        """Return the needed rows of one metric. Both lists are ordered oldest first."""
        older = rows[: -self.recent] if self.recent else rows
        eligible = sum(in_baseline(row) for row in rows[len(older) :])
        wanted = max(0, self.window - eligible)
        good = [row for row in older if in_baseline(row) and (self.earliest is None or row.timestamp >= self.earliest)]
        return [*(good[-wanted:] if wanted else []), *rows[len(older) :]]


def history_needs(config: RegressionTestConfig, test: str) -> HistoryNeeds:
    """Return the history to read before a run of a test is judged."""
    conditions = list(config.metric_success_conditions.values())
    historical = [condition for condition in conditions if uses_history(condition)]
    others = dict.fromkeys(condition.compare_to for condition in historical if condition.compare_to)
    window = max((condition.baseline_runs for condition in historical), default=0)
    starts = [condition.since for condition in historical]
    return HistoryNeeds(
        tests=tuple(dict.fromkeys([test, *others])),
        window=window,
        recent=max(RECENT, window),
        earliest=None if None in starts else min((start for start in starts if start is not None), default=None),
    )


def uses_history(condition: Condition) -> bool:
    """Whether the verdict of a condition depends on the history."""
    threshold = condition.success_threshold
    waits = (condition.wait_for_n_points_of_history or 0) > 0
    percent_of_value = threshold.percent is not None and threshold.percent.value is not None
    return waits or not (threshold.kind in {"fixed_value", "within_bounds"} or percent_of_value)
