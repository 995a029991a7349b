"""The rule `change_point`, and change points as chart annotations."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from ml_metrics.judge.baseline import baseline_of, is_measured, series_of
from ml_metrics.judge.bounds import PLATEAU, minimum_change
from ml_metrics.model import Bounds, JobStatus, Outcome, StoredMetric

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.config.regression import ChangePoint, Condition, MinChange
    from ml_metrics.judge.history import EarlierRuns
    from ml_metrics.model import Verdict


@dataclass(frozen=True, slots=True)
class Change:
    """A lasting change of the level of a metric."""

    run_key: str
    """The first run of the new level."""
    timestamp: datetime
    index: int
    """The index of that run among the rows with a finite value, oldest first."""
    before: float
    after: float
    in_noise: float
    """The size of the change as a multiple of the noise of the series."""
    certainty: float
    """The estimated share of such places that most people mark as a change of level."""
    differs: tuple[str, ...] = ()
    """The differences from the run before, for example `image_digest: sha256:a -> sha256:b`."""

    @property
    def percent(self) -> float | None:
        """The change in percent of the magnitude of the old level; None if that is 0."""
        return None if self.before == 0 else (self.after - self.before) / abs(self.before) * 100

    def __str__(self) -> str:
        way = "rose" if self.after > self.before else "fell"
        share = "" if self.percent is None else f" ({self.percent:+.3g} %)"
        first = f"first in run {self.run_key} of {self.timestamp:%Y-%m-%d %H:%M}"
        differs = f", where {', '.join(self.differs)}" if self.differs else ""
        return f"the level {way} from {self.before:.6g} to {self.after:.6g}{share}, {first}{differs}"


def changes_in(
    rows: Iterable[StoredMetric],
    *,
    certainty: float = 0.5,
    min_change: MinChange | None = None,
    attributes: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Change]:
    """Return the lasting changes of the level of a metric, oldest first. Rows without a finite value are skipped.

    Args:
        rows: the values of one metric.
        certainty: what each change should have at least.
        min_change: the least size of a change.
        attributes: what is recorded about each run, by its key.
    """
    from ml_metrics.judge.changepoint import change_points  # imports numpy, which no other rule needs

    measured = [(row, row.value) for row in rows if row.value is not None and math.isfinite(row.value)]
    measured.sort(key=lambda each: (each[0].timestamp, each[0].run_key))
    ordered = [row for row, _ in measured]
    return [
        Change(
            run_key=ordered[step.index].run_key,
            timestamp=ordered[step.index].timestamp,
            index=step.index,
            before=step.before,
            after=step.after,
            in_noise=step.in_noise,
            certainty=step.certainty,
            differs=differences(attributes or {}, ordered[step.index - 1].run_key, ordered[step.index].run_key),
        )
        for step in change_points([value for _, value in measured], certainty=certainty)
        if abs(step.after - step.before) >= minimum_change(min_change, step.before)
    ]


def differences(attributes: Mapping[str, Mapping[str, str]], before: str, after: str) -> tuple[str, ...]:
    """Return the attributes that differ between two runs, by name."""
    old, new = attributes.get(before, {}), attributes.get(after, {})
    return tuple(
        f"{name}: {old.get(name, 'none')} -> {new.get(name, 'none')}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    )


def level_verdict(verdict: Verdict, condition: Condition, earlier: EarlierRuns) -> Verdict:
    """Judge the current level of a metric against its best earlier level.

    A single spike does not change the level. An improvement becomes the level to keep. A loss fails until the level
    returns or is accepted, even after the runs of the old level have left the window.
    """
    rule = condition.success_threshold.change_point
    if rule is None:
        raise TypeError("the condition has no change_point")
    rows = series_of(verdict.metric, condition, earlier)
    verdict = replace(verdict, baseline_points=len(rows))
    needed = max(condition.wait_for_n_points_of_history or 0, 2 * rule.min_runs - 1)
    if len(rows) < needed:
        return replace(verdict, reason=f"the history has {len(rows)} of the {needed} runs required")
    if verdict.value is not None:
        own = (earlier.run_key, earlier.now, verdict.metric, verdict.value)
        rows = [*rows, StoredMetric(*own, JobStatus.SUCCESS, None, earlier.test)]
    changes = _changes_by(rule, rows, condition.min_change, earlier.attributes)
    levels = [changes[0].before, *(change.after for change in changes)] if changes else [_median(rows)]
    before = _level_before_the_loss(verdict.metric, condition, rule, earlier)
    good = levels[0] if before is None else before
    loss: Change | None = None
    bounds = _bounds(good, condition, rule)
    for level, change in zip(levels, [None, *changes], strict=True):
        if bounds.contains(level):
            loss = None
            good = _better(good, level, condition)
            bounds = _bounds(good, condition, rule)
        else:
            loss = loss or change
    verdict = replace(verdict, bounds=bounds, reference=good)
    if bounds.contains(levels[-1]):
        return replace(
            verdict, outcome=Outcome.PASS, reason=f"the level is {levels[-1]:.6g}, not worse than {good:.6g}"
        )
    reason = f"{loss}" if loss else f"the level is {levels[-1]:.6g}; the last good level was {good:.6g}"
    return replace(verdict, outcome=Outcome.FAIL, reason=reason)


def _changes_by(
    rule: ChangePoint,
    rows: Sequence[StoredMetric],
    min_change: MinChange | None,
    attributes: Mapping[str, Mapping[str, str]],
) -> list[Change]:
    from ml_metrics.judge.older_change_points import change_points

    ordered = sorted(rows, key=lambda row: (row.timestamp, row.run_key))
    steps = change_points(
        [row.value for row in ordered if row.value is not None],
        p_value=rule.p_value,
        min_change_percent=max(rule.min_change_percent, (min_change.percent if min_change else None) or 0.0),
        min_runs=rule.min_runs,
        min_change=(min_change.absolute if min_change else None) or 0.0,
    )
    return [
        Change(
            run_key=(first := ordered[step.index]).run_key,
            timestamp=first.timestamp,
            index=step.index,
            before=step.before,
            after=step.after,
            in_noise=0.0,
            certainty=1 - step.p_value,
            differs=differences(attributes, ordered[step.index - 1].run_key, first.run_key),
        )
        for step in steps
    ]


def _level_before_the_loss(metric: str, condition: Condition, rule: ChangePoint, earlier: EarlierRuns) -> float | None:
    """Return the level of the last good runs while a loss is open, because they may have left the window.

    The first runs of the loss passed, since a change has to last; they are fewer than half of the runs used here.
    """
    judged = [row for row in earlier.rows(metric) if is_measured(row)]
    if not judged or judged[-1].outcome is not Outcome.FAIL:
        return None
    good = baseline_of(metric, condition, earlier)
    return _median(good[-max(PLATEAU, 2 * rule.min_runs) :]) if good else None


def _better(good: float, level: float, condition: Condition) -> float:
    if not condition.comparison.bounds_above:
        return max(good, level)
    return min(good, level) if not condition.comparison.bounds_below else good


def _bounds(level: float, condition: Condition, rule: ChangePoint) -> Bounds:
    margin = max(abs(level) * rule.min_change_percent / 100, minimum_change(condition.min_change, level))
    return Bounds(
        level - margin if condition.comparison.bounds_below else -math.inf,
        level + margin if condition.comparison.bounds_above else math.inf,
        inclusive=True,
    )


def _median(rows: Sequence[StoredMetric]) -> float:
    return median(row.value for row in rows if row.value is not None)
