"""What the judge has to know of the past, so that one windowed query can fetch it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.judge.baseline import counts
from ml_metrics.judge.history import RECENT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ml_metrics.config.regression import Condition, RegressionTestConfig
    from ml_metrics.model import StoredMetric


@dataclass(frozen=True, slots=True)
class HistoryNeeds:
    """The rows that a judgement can depend on; more do no harm.

    For each test and metric: the newest `window` rows that may be in a baseline, and the newest `recent` rows of any
    kind, with NULL values, failed jobs and failed verdicts.
    """

    tests: tuple[str, ...]
    """The test itself, then those that its conditions compare it to."""
    window: int
    """0 if no condition looks at history."""
    recent: int
    earliest: datetime | None
    """No baseline reaches back before this time; None if one may. It does not limit the `recent` rows."""

    def select(self, rows: Sequence[StoredMetric]) -> list[StoredMetric]:
        """Of the rows of one metric, oldest first, those that are needed."""
        older = rows[: -self.recent] if self.recent else rows
        eligible = sum(counts(row) for row in rows[len(older) :])
        wanted = max(0, self.window - eligible)
        good = [row for row in older if counts(row) and (self.earliest is None or row.timestamp >= self.earliest)]
        return [*(good[-wanted:] if wanted else []), *rows[len(older) :]]


def history_needs(config: RegressionTestConfig, test: str) -> HistoryNeeds:
    """What to read of the warehouse before a run of a test is judged."""
    conditions = list(config.metric_success_conditions.values())
    historical = [condition for condition in conditions if looks_back(condition)]
    others = dict.fromkeys(condition.compare_to for condition in historical if condition.compare_to)
    window = max((condition.baseline_runs for condition in historical), default=0)
    starts = [condition.since for condition in historical]
    return HistoryNeeds(
        tests=tuple(dict.fromkeys([test, *others])),
        window=window,
        recent=max(RECENT, window),
        earliest=None if None in starts else min((start for start in starts if start is not None), default=None),
    )


def looks_back(condition: Condition) -> bool:
    """Whether a condition's verdict depends on history."""
    threshold = condition.success_threshold
    waits = (condition.wait_for_n_points_of_history or 0) > 0
    percent_of_value = threshold.percent is not None and threshold.percent.value is not None
    return waits or not (threshold.kind in {"fixed_value", "within_bounds"} or percent_of_value)
