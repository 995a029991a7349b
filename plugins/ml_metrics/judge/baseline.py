"""The baseline of a metric, which is the newest good runs before the judged one, and the history that it needs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.core.model import JobStatus, Outcome
from ml_metrics.core.values import short_digests
from ml_metrics.judge.history import RECENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from ml_metrics.config.conditions import Condition, RegressionTestConfig
    from ml_metrics.core.model import StoredMetric
    from ml_metrics.judge.history import EarlierRuns, Moment


LEAST_RUNS = 9
"""How many comparable runs suffice if the condition does not state it."""


def alike(rows: Sequence[StoredMetric], condition: Condition, earlier: EarlierRuns) -> tuple[list[StoredMetric], str]:
    """Return the rows of comparable runs, and a note for the reason; all rows if too few are comparable."""
    rows = list(rows)
    if condition.baseline is None or not rows:
        return rows, ""
    own = earlier.attributes.get(earlier.run_key) or {}
    unknown = [name for name in condition.baseline.same if not own.get(name)]
    if unknown:
        return rows, f"{', '.join(unknown)} of this run is not recorded: compared with all"
    wanted = {name: own[name] for name in condition.baseline.same}
    found = [row for row in rows if wanted.items() <= (earlier.attributes.get(row.run_key) or {}).items()]
    waits = (condition.wait_for_n_points_of_history or 0) > 0
    needed = condition.fewest_runs if waits else max(LEAST_RUNS, condition.fewest_runs)
    where = " and ".join(f"{name.replace('_', ' ')} {value}" for name, value in wanted.items())
    if len(found) < needed:
        return rows, f"{len(found)} of {needed} runs on {where}: compared with all"
    return found, f"compared with runs on {where}"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A test of another deployment."""

    deployment: str
    test: str
    series: str
    """The name of the test in the rows: two deployments may have tests of one name."""


@dataclass(frozen=True, slots=True)
class HistoryNeeds:
    """The rows that a judgement can depend on. More rows do not change it.

    For each test and metric: the newest `window` rows that may be in a baseline, and the newest `recent` rows of any
    kind, with NULL values, failed jobs and failed verdicts.
    """

    tests: tuple[str, ...]
    """The test itself, then the tests of `compare_to` in the same deployment."""
    window: int
    """0 if no condition uses the history."""
    recent: int
    earliest: datetime | None
    """No baseline starts before this time; None for no limit. It does not limit the `recent` rows."""
    elsewhere: tuple[Elsewhere, ...] = ()
    """The tests of other deployments."""

    @property
    def series(self) -> tuple[str, ...]:
        """The names of all tests, as the rows have them."""
        return (*self.tests, *(other.series for other in self.elsewhere))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tests in their deployments."""
        return tuple(dict.fromkeys((*self.tests, *(other.test for other in self.elsewhere))))

    @property
    def deployments(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(other.deployment for other in self.elsewhere))

    def select(self, rows: Sequence[StoredMetric]) -> list[StoredMetric]:
        """Return the needed rows of one metric. Both lists are ordered oldest first."""
        older = rows[: -self.recent] if self.recent else rows
        eligible = sum(in_baseline(row) for row in rows[len(older) :])
        wanted = max(0, self.window - eligible)
        good = [row for row in older if in_baseline(row) and (self.earliest is None or row.timestamp >= self.earliest)]
        return [*(good[-wanted:] if wanted else []), *rows[len(older) :]]


def history_needs(config: RegressionTestConfig, test: str) -> HistoryNeeds:
    conditions = list(config.conditions.values())
    historical = [condition for condition in conditions if uses_history(condition)]
    others = dict.fromkeys(condition.compare_to for condition in historical if condition.compare_to)
    near = [other.test or test for other in others if other.deployment is None]
    far = [Elsewhere(other.deployment, other.test or test, other.series(test)) for other in others if other.deployment]
    window = max((condition.baseline_runs for condition in historical), default=0)
    starts = [condition.since for condition in historical]
    return HistoryNeeds(
        tests=tuple(dict.fromkeys([test, *near])),
        window=window,
        recent=recent_rows(window),
        earliest=None if None in starts else min((start for start in starts if start is not None), default=None),
        elsewhere=tuple(far),
    )


def recent_rows(window: int) -> int:
    """Return how many of the newest rows, good or not, are read with a baseline of so many good ones."""
    return max(RECENT, window)


def uses_history(condition: Condition) -> bool:
    return condition.is_relative or (condition.wait_for_n_points_of_history or 0) > 0


def baseline_of(metric: str, condition: Condition, earlier: EarlierRuns) -> list[StoredMetric]:
    """Return the runs that a metric is compared with, oldest first.

    These are the newest `baseline_runs` runs that succeeded with a finite value and whose verdict was not `fail`; none
    is before `since`, the accepted run or `time_window`. `same` selects the comparable ones among them.
    """
    return alike(_newest_good(metric, condition, earlier), condition, earlier)[0]


def note_on_baseline(metric: str, condition: Condition, earlier: EarlierRuns) -> str:
    """Return which runs `same` selected, for the reason of a verdict; empty without `same`."""
    if condition.baseline is None:
        return ""
    is_series = condition.success_threshold.change_point is not None
    rows = (_newest_values if is_series else _newest_good)(metric, condition, earlier)
    return alike(rows, condition, earlier)[1]


def _newest_good(metric: str, condition: Condition, earlier: EarlierRuns) -> list[StoredMetric]:
    accepted = earlier.accepted(metric, condition.series_of(earlier.test))
    rows = _rows_from_start(metric, condition, earlier, accepted)
    good = _good(rows[-condition.baseline_runs :], accepted)  # rarely is more of a long history needed
    if len(good) < condition.baseline_runs < len(rows):
        good = _good(rows, accepted)[-condition.baseline_runs :]
    if condition.time_window is not None:
        earliest = _end_of_window(rows, good, earlier.now) - condition.time_window
        good = [row for row in good if row.timestamp >= earliest]
    return good


def series_of(metric: str, condition: Condition, earlier: EarlierRuns) -> list[StoredMetric]:
    """Return the values of a metric, passed or failed, by which its level is followed.

    These are the newest `baseline_runs` runs, and as many older good ones as have failed since: while a loss is open,
    the level before it must not be forgotten. Older failures are left out, since they were reported long ago.
    """
    return alike(_newest_values(metric, condition, earlier), condition, earlier)[0]


def _newest_values(metric: str, condition: Condition, earlier: EarlierRuns) -> list[StoredMetric]:
    rows = _rows_from_start(metric, condition, earlier, earlier.accepted(metric))
    earliest = None if condition.time_window is None else earlier.now - condition.time_window
    first_recent = max(0, len(rows) - recent_rows(condition.baseline_runs))
    recent = _measured(rows[first_recent:])
    wanted = condition.baseline_runs - len(_passed(recent))
    older = _passed(_measured(rows[:first_recent]))[-wanted:] if wanted > 0 else []
    series = [*older, *recent]
    return series if earliest is None else [row for row in series if row.timestamp >= earliest]


def in_baseline(row: StoredMetric, accepted: tuple[Moment, datetime] | None = None) -> bool:
    """Whether a row can be part of a baseline.

    Verdicts from before an acceptance compared with the old level, so between the accepted run and the acceptance a
    failed verdict does not exclude its run.
    """
    if not is_measured(row):
        return False
    if row.outcome is not Outcome.FAIL:
        return True
    return accepted is not None and accepted[0] <= (row.timestamp, row.run_key) and row.timestamp <= accepted[1]


def is_measured(row: StoredMetric) -> bool:
    """Whether a row has a finite value of a successful run, made of finite points or of as many as were allowed."""
    return bool(_measured([row]))


def _good(rows: list[StoredMetric], accepted: tuple[Moment, datetime] | None) -> list[StoredMetric]:
    if accepted is None:  # nearly every metric
        return _passed(_measured(rows))
    return [row for row in rows if in_baseline(row, accepted)]


def _measured(rows: list[StoredMetric]) -> list[StoredMetric]:
    """Return the rows that `is_measured` holds for, without a call for each: there may be a million.

    The value of a metric that diverged is that of its other points. Without a verdict, none of these was allowed.
    """
    success, is_finite, diverged = JobStatus.SUCCESS, math.isfinite, Outcome.NON_FINITE
    return [
        row
        for row in rows
        if row.job_status is success
        and row.value is not None
        and is_finite(row.value)
        and row.outcome is not diverged
        and not (row.non_finite and row.outcome is None)
    ]


def _passed(rows: list[StoredMetric]) -> list[StoredMetric]:
    failed = Outcome.FAIL
    return [row for row in rows if row.outcome is not failed]


def _rows_from_start(
    metric: str, condition: Condition, earlier: EarlierRuns, accepted: tuple[Moment, datetime] | None
) -> list[StoredMetric]:
    rows, since = earlier.rows(metric, condition.series_of(earlier.test)), condition.since
    if since is not None:
        rows = [row for row in rows if row.timestamp >= since]
    if accepted is not None:
        rows = [row for row in rows if (row.timestamp, row.run_key) >= accepted[0]]
    return rows


def _end_of_window(rows: list[StoredMetric], good: list[StoredMetric], now: datetime) -> datetime:
    """Return the end of `time_window`: now, or the time of the last good run while the metric fails.

    The baseline of a failing metric does not move. Otherwise a long regression would end as `insufficient_data`, which
    does not alert.
    """
    newest = next((row for row in reversed(rows) if is_measured(row)), None)
    return good[-1].timestamp if good and newest is not good[-1] else now


HIDDEN_KEYS = frozenset({"env", "secrets", "params"})
"""Keys of a test file whose values may be secret."""
SECRET_NAME = re.compile(r"token|secret|passw|credential|api.?key|private.?key", re.IGNORECASE)
"""Names of attributes whose values may be secret."""
MAX_LENGTH = 80
MAX_DIFFERENCES = 8
FIRST_ATTRIBUTES = ("image", "image_digest", "node_type", "accelerator", "framework")
"""Named before all others."""
UNIQUE_RUNS = 5
"""An attribute that is different in each of so many runs names the run, and explains no change."""


def differences(attributes: Mapping[str, Mapping[str, str]], before: str, after: str) -> tuple[str, ...]:
    """Return the attributes that differ between two runs, the most telling first."""
    old, new = attributes.get(before) or {}, attributes.get(after) or {}
    names = [name for name in {*old, *new} if (old.get(name) or "") != (new.get(name) or "")]
    order = {name: place for place, name in enumerate(FIRST_ATTRIBUTES)}
    names.sort(key=lambda name: (order.get(name, len(order)), name))
    texts = [change_text(name, old.get(name), new.get(name)) for name in names[:MAX_DIFFERENCES]]
    more = len(names) - MAX_DIFFERENCES
    return (*texts, f"{more} more") if more > 0 else tuple(texts)


def change_text(name: str, before: object, after: object, arrow: str = "->") -> str:
    """Return a change as text: `image: a -> b`; without the values if they may be secret."""
    if name.removeprefix("test file ") in HIDDEN_KEYS or SECRET_NAME.search(name):
        return f"{name} (values not shown)"
    return f"{name}: {_cut(before)} {arrow} {_cut(after)}"


def without_unique(attributes: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return attributes without those that only name the run because each run has another value."""
    values: dict[str, list[str]] = {}
    for of_run in attributes.values():
        for name, value in of_run.items():
            values.setdefault(name, []).append(value)
    several = {name for name, each in values.items() if len(set(each)) < len(each) or len(each) < UNIQUE_RUNS}
    kept = several.union(FIRST_ATTRIBUTES)
    return {run: {k: v for k, v in of_run.items() if k in kept} for run, of_run in attributes.items()}


def _cut(value: object) -> str:
    text = short_digests(" ".join(str("none" if value in (None, "") else value).split()))
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"
