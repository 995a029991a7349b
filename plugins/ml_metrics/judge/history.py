"""The history before a run: the earlier rows in order, each run once, and those that a metric is compared with."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property
from itertools import dropwhile
from operator import attrgetter, lt
from statistics import median
from typing import TYPE_CHECKING, Any

from ml_metrics.core.model import BROKEN, CURVE_SUFFIX, SWEEP, JobStatus, Outcome, StoredMetric, Sweep, TagCurve
from ml_metrics.core.units import factor_between
from ml_metrics.core.values import as_utc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.config.conditions import Condition, RegressionTestConfig
    from ml_metrics.judge.level import LevelRule, Levels, LevelState
    from ml_metrics.judge.siblings import Sibling

CurvesOfRuns = Mapping[tuple[str, str], TagCurve | Sweep]
"""Curves by run key and tag, or the metric of a sweep."""
ReadCurves = Callable[[Sequence[str], Sequence[str]], CurvesOfRuns]
"""Reads the curves of some runs, by their keys, and some tags."""
Dated = tuple[float, int, str]
"""A value, the weekday of its run, and the run that this one runs again; empty if it runs none again."""
Moment = tuple[datetime, str]
"""The end and the key of a run, which also order runs that end at the same time."""
Accepted = tuple[Moment, datetime]
"""The first run of an accepted level, and the time of the acceptance."""
PRESENT_RUNS = 5
"""A metric that this many runs in a row produced is expected in the next."""
RECENT = 2 * PRESENT_RUNS
"""The number of newest rows to read for the checks of the last runs; some may be of failed jobs."""
BY_TIME = attrgetter("timestamp", "run_key")


class Curves:
    """The curves of a judgement or a replay. Curves of past runs are read at most once, for all tags together."""

    def __init__(self, own: CurvesOfRuns | None = None, read: ReadCurves | None = None) -> None:
        self._found = dict(own or {})
        self._tags = sorted({tag for _, tag in self._found})
        self._read_from = read
        self._read: set[str] = set()

    def of(self, run_key: str, metric: str) -> TagCurve | Sweep | None:
        """The curve of a tag, or that of a sweep."""
        return self._found.get((run_key, metric if metric.startswith(SWEEP) else metric.removesuffix(CURVE_SUFFIX)))

    def read(self, run_keys: Sequence[str]) -> None:
        """Read the curves of past runs."""
        unread = [key for key in run_keys if key not in self._read]
        if unread and self._read_from is not None:
            self._found = {**self._read_from(unread, self._tags), **self._found}
            self._read.update(unread)

    def past(self, metric: str, run_keys: Sequence[str]) -> list[TagCurve]:
        """The curves of past runs, in the order of their keys, without those that are not stored."""
        self.read(run_keys)
        curves = (self.of(key, metric) for key in run_keys)
        return [curve for curve in curves if isinstance(curve, TagCurve) and curve.steps]


NO_CURVES = Curves()


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The acceptance of a metric's new level by a user. The baseline starts with this run."""

    test: str
    metric: str
    run_key: str
    """The first run of the new level."""
    accepted_at: datetime
    accepted_by: str = ""
    reason: str = ""
    timestamp: datetime | None = None
    """The end of that run; looked up in the history if None."""
    value: float | None = None


def by_series(acceptances: Iterable[Acceptance], test: str) -> dict[tuple[str, str], list[Acceptance]]:
    """Acceptances without a test are of the given one."""
    found: dict[tuple[str, str], list[Acceptance]] = defaultdict(list)
    for each in acceptances:
        found[each.test or test, each.metric].append(each)
    return found


def moment_of(row: StoredMetric) -> Moment:
    return as_utc(row.timestamp), row.run_key


def worse_side(condition: Condition | None) -> int:
    """1 if greater values of a metric are worse, -1 if smaller ones are, and 0 if both or unknown."""
    return 0 if condition is None else condition.comparison.bounds_above - condition.comparison.bounds_below


def worst(rows: Sequence[StoredMetric], side: int, earlier: Sequence[StoredMetric]) -> StoredMetric:
    """The worst of some rows by their values alone; one without a finite value is worse than any other."""
    return rows[0] if len(rows) == 1 else max(rows, key=_badness(side, earlier or rows))


def _badness(side: int, rows: Sequence[StoredMetric]) -> Callable[[StoredMetric], tuple[bool, float, float]]:
    """Orders values from better to worse; without a side, the worse is farther from the median of some rows."""
    values = [row.value for row in rows if row.value is not None and math.isfinite(row.value)]
    middle = median(value / 2 for value in values) if values else 0.0

    def key(row: StoredMetric) -> tuple[bool, float, float]:
        if row.value is None or not math.isfinite(row.value):
            return True, 0.0, 0.0
        return False, side * row.value if side else abs(row.value / 2 - middle), row.value

    return key


def nights_of(origins: Sequence[str]) -> list[int]:
    """By run: the index of the first run of its night. `origins`: which run each runs again, or empty."""
    nights: list[int] = []
    for place, origin in enumerate(origins):
        again = origin and place and origins[place - 1] in {"", origin}
        nights.append(nights[-1] if again else place)
    return nights


def in_units_of(known: Mapping[str, tuple[str, float | None]], rows: Iterable[StoredMetric]) -> list[StoredMetric]:
    """The rows in the units of a run, which `known` has with its values: a program may go on in s instead of ms.

    If only the unit was stated wrongly, the values go on as they were: rows that are nearer as they are stay so.
    """
    rows = list(rows)
    factors = {}
    for metric, unit in set(map(attrgetter("metric", "unit"), rows)):
        own, value = known.get(metric, ("", None))
        factor = factor_between(unit, own) if unit != own else None
        if factor is None or not value or not math.isfinite(value):
            continue
        old = [abs(row.value) for row in rows if (row.metric, row.unit) == (metric, unit) and row.value]
        if old and abs(math.log(abs(value)) - math.log(median(old)) - math.log(factor)) < abs(math.log(factor)) / 2:
            factors[metric, unit] = factor
    if not factors:
        return rows
    return [
        replace(row, unit=known[row.metric][0], **_multiplied(row, factor))
        if (factor := factors.get((row.metric, row.unit)))
        else row
        for row in rows
    ]


def _multiplied(row: StoredMetric, factor: float) -> dict[str, Any]:
    fields = ("value", "lower", "upper", "reference", "spread")
    return {name: number * factor for name in fields if (number := getattr(row, name)) is not None}


def in_newest_units(rows: Iterable[StoredMetric]) -> list[StoredMetric]:
    """The rows in the units of the newest run of each metric."""
    rows = list(rows)
    units = {(row.metric, row.unit) for row in rows if row.unit}
    if len(units) == len(dict(units)):  # nearly always
        return rows
    newest = {row.metric: (row.unit, row.value) for row in sorted(rows, key=BY_TIME) if row.unit and row.value}
    return in_units_of(newest, rows)


class EarlierRuns:
    """The history of one or more tests before a run.

    The given rows may be in any order and may contain the run itself, later runs and duplicates, which are ignored. A
    row without a metric represents a run without metrics. Of two rows of one run with the same time, the worse counts;
    `side_of` returns by metric whether greater values (1) or smaller ones (-1) are worse. `siblings` reads the noise of
    other series, which a young one borrows.
    """

    keeps_levels = False
    """Whether another run is judged after this one."""

    def __init__(
        self,
        history: Iterable[StoredMetric],
        acceptances: Sequence[Acceptance] = (),
        *,
        test: str,
        run_key: str,
        now: datetime,
        run_id: str = "",
        attributes: Mapping[str, Mapping[str, str]] | None = None,
        side_of: Callable[[str], int] = lambda _: 0,
        curves: Curves = NO_CURVES,
        siblings: Callable[[], Sequence[Sibling]] = tuple,
    ) -> None:
        self.curves = curves
        self.siblings = cache(siblings)
        self.run_id = run_id
        self.attributes = attributes or {}
        self.now = as_utc(now)
        self.run_key = run_key
        self.test = test
        self._worse_side = side_of
        self._acceptances = by_series(acceptances, test)
        self._ordered: dict[tuple[str, str], list[StoredMetric]] = {}
        self._levels: dict[tuple[str, LevelRule], tuple[list[Dated], Levels]] = {}
        rows: dict[tuple[str, str], list[StoredMetric]] = defaultdict(list)
        for row in history:
            rows[row.test or test, row.metric].append(row)
        self._rows = dict(rows)

    def rows(self, metric: str, test: str | None = None) -> list[StoredMetric]:
        """The earlier rows of a metric, oldest first, one for each run."""
        key = (test or self.test, metric)
        if key not in self._ordered:
            self._ordered[key] = self._in_order(self._rows.get(key, []))
        return self._ordered[key]

    def level_of(self, metric: str, values: list[Dated], rule: LevelRule) -> LevelState:
        """The level of a metric as the newest of its values leaves it. A replay goes on from run to run."""
        from ml_metrics.judge.level import follow  # imports numpy, which no other rule needs

        before, levels = self._levels.get((metric, rule), ([], None))
        if levels is None or values[: len(before)] != before or not levels.goes_on(values, len(before)):
            series, weekdays, origins = zip(*values, strict=True)
            levels = follow(series, rule, weekdays, nights_of(origins))
        if self.keeps_levels:
            self._levels[metric, rule] = values, levels
        return levels.at(-1)

    def metrics(self) -> list[str]:
        return sorted(metric for test, metric in self._rows if test == self.test and metric)

    @cached_property
    def runs(self) -> list[StoredMetric]:
        """The newest row of each earlier run of this test, oldest run first."""
        state = attrgetter("run_key", "timestamp", "job_status")
        distinct: dict[object, StoredMetric] = {}  # mostly one for each run, of thousands of rows
        for (test, _), rows in self._rows.items():
            if test == self.test:
                distinct.update(zip(map(state, rows), rows, strict=True))
        newest: dict[str, tuple[datetime, bool, StoredMetric]] = {}
        for row in distinct.values():
            candidate = (as_utc(row.timestamp), row.job_status is not JobStatus.SUCCESS, row)
            current = newest.get(row.run_key)
            if current is None or candidate[:2] > current[:2]:
                newest[row.run_key] = candidate
        return self._in_order([row for _, _, row in newest.values()])

    def accepted(self, metric: str, test: str | None = None) -> Accepted | None:
        """What was accepted of a metric last. Acceptances of later runs are ignored."""
        owner = test or self.test
        own = self._acceptances.get((owner, metric), ())
        found = ((self._moment_of(each, owner), as_utc(each.accepted_at)) for each in own)
        return max((each for each in found if each[0] <= (self.now, self.run_key)), default=None)

    def _moment_of(self, acceptance: Acceptance, test: str) -> Moment:
        """The end of the accepted run, or the time of the acceptance if the run is not in the history."""
        if acceptance.run_key == self.run_key and test == self.test:
            return (self.now, self.run_key)
        if acceptance.timestamp is not None:
            return (as_utc(acceptance.timestamp), acceptance.run_key)
        own = self._rows.get((test, acceptance.metric), [])
        others = (row for (owner, _), group in self._rows.items() if owner == test for row in group)
        for rows in (own, others):
            if ended := [as_utc(row.timestamp) for row in rows if row.run_key == acceptance.run_key]:
                return max(ended), acceptance.run_key
        return as_utc(acceptance.accepted_at), acceptance.run_key

    def _in_order(self, rows: list[StoredMetric]) -> list[StoredMetric]:
        if self._is_in_order(rows):
            return rows
        if None in [row.timestamp.tzinfo for row in rows]:
            rows = [replace(row, timestamp=as_utc(row.timestamp)) for row in rows]
        earlier = [row for row in rows if row.run_key != self.run_key and BY_TIME(row) < (self.now, self.run_key)]
        earlier.sort(key=BY_TIME)
        if len({row.run_key for row in earlier}) == len(earlier):
            return earlier
        badness = _badness(self._worse_side(earlier[0].metric), earlier)

        def rank(row: StoredMetric) -> tuple[object, ...]:
            failed, broken = row.job_status is not JobStatus.SUCCESS, row.outcome in BROKEN
            return (*BY_TIME(row), failed, broken, row.outcome or "", *badness(row))

        return sorted({row.run_key: row for row in sorted(earlier, key=rank)}.values(), key=BY_TIME)

    def _is_in_order(self, rows: list[StoredMetric]) -> bool:
        """Whether rows are in order already, as a warehouse nearly always returns them. This makes no call per row."""
        times, keys = list(map(attrgetter("timestamp"), rows)), set(map(attrgetter("run_key"), rows))
        if len(keys) < len(rows) or self.run_key in keys or not rows or times[0].tzinfo is None:
            return False
        try:
            return times[-1] < self.now and all(map(lt, times, times[1:]))
        except TypeError:  # another time is naive
            return False


def uses_history(condition: Condition) -> bool:
    return condition.is_relative or (condition.wait_for_n_points_of_history or 0) > 0


def baseline_of(metric: str, condition: Condition, earlier: EarlierRuns) -> list[StoredMetric]:
    """The runs that a metric is compared with, oldest first.

    These are the newest `baseline_runs` runs that succeeded with a finite value and whose verdict was not `fail`; none
    is before `since`, the accepted run or `time_window`. `same` selects the comparable ones among them.
    """
    return alike(_newest_good(metric, condition, earlier), condition, earlier)[0]


def series_of(metric: str, condition: Condition, earlier: EarlierRuns) -> list[StoredMetric]:
    """The values of a metric, passed or failed, by which its level is followed.

    These are the newest `baseline_runs` runs, and as many older good ones as have failed since: while a loss is open,
    the level before it must not be forgotten. Older failures are left out, since they were reported long ago.
    """
    return alike(_newest_values(metric, condition, earlier), condition, earlier)[0]


def note_on_baseline(metric: str, condition: Condition, earlier: EarlierRuns) -> str:
    """Which runs `same` selected, for the reason of a verdict; empty without `same`."""
    if condition.baseline is None:
        return ""
    is_series = condition.success_threshold.change_point is not None
    rows = (_newest_values if is_series else _newest_good)(metric, condition, earlier)
    return alike(rows, condition, earlier)[1]


def alike(rows: Sequence[StoredMetric], condition: Condition, earlier: EarlierRuns) -> tuple[list[StoredMetric], str]:
    """The rows of comparable runs, and a note for the reason; all rows if too few are comparable."""
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
    needed = condition.fewest_runs if waits else max(9, condition.fewest_runs)
    where = " and ".join(f"{name.replace('_', ' ')} {value}" for name, value in wanted.items())
    if len(found) < needed:
        return rows, f"{len(found)} of {needed} runs on {where}: compared with all"
    return found, f"compared with runs on {where}"


def _newest_good(metric: str, condition: Condition, earlier: EarlierRuns) -> list[StoredMetric]:
    accepted = earlier.accepted(metric, condition.series_of(earlier.test))
    rows = _rows_from_start(metric, condition, earlier, accepted)
    good = _good(rows[-condition.baseline_runs :], accepted)  # rarely is more of a long history needed
    if len(good) < condition.baseline_runs < len(rows):
        good = _good(rows, accepted)[-condition.baseline_runs :]
    newest = next((row for row in reversed(rows) if is_measured(row)), None)
    return _in_time_window(good, good, newest, condition, earlier)


def _newest_values(metric: str, condition: Condition, earlier: EarlierRuns) -> list[StoredMetric]:
    accepted = earlier.accepted(metric)
    rows = _rows_from_start(metric, condition, earlier, accepted)
    first_recent = max(0, len(rows) - recent_rows(condition.baseline_runs))
    recent = _measured(rows[first_recent:])
    wanted = condition.baseline_runs - len(_passed(recent))
    older = _passed(_measured(rows[:first_recent]))[-wanted:] if wanted > 0 else []
    values = [*older, *recent]
    young = _in_time_window(values, _passed(values), values[-1] if values else None, condition, earlier)
    if len(young) < len(values):  # a loss without the level before it would be taken for the level to keep
        young = list(dropwhile(lambda row: not in_baseline(row, accepted), young))
    return young


def _in_time_window(
    rows: list[StoredMetric],
    good: list[StoredMetric],
    newest: StoredMetric | None,
    condition: Condition,
    earlier: EarlierRuns,
) -> list[StoredMetric]:
    """The rows that are young enough.

    The window of a failing metric does not move. Otherwise a long regression would end without an alert.
    """
    if condition.time_window is None:
        return rows
    end = good[-1].timestamp if good and newest is not good[-1] else earlier.now
    return [row for row in rows if row.timestamp >= end - condition.time_window]


def _rows_from_start(
    metric: str, condition: Condition, earlier: EarlierRuns, accepted: Accepted | None
) -> list[StoredMetric]:
    rows, since = earlier.rows(metric, condition.series_of(earlier.test)), condition.since
    if since is not None:
        rows = [row for row in rows if row.timestamp >= since]
    if accepted is not None:
        rows = [row for row in rows if BY_TIME(row) >= accepted[0]]
    return rows


def in_baseline(row: StoredMetric, accepted: Accepted | None = None) -> bool:
    """Whether a row can be part of a baseline.

    Verdicts from before an acceptance compared with the old level, so between the accepted run and the acceptance a
    failed verdict does not exclude its run.
    """
    if not is_measured(row):
        return False
    if row.outcome is not Outcome.FAIL:
        return True
    return accepted is not None and accepted[0] <= BY_TIME(row) and row.timestamp <= accepted[1]


def is_measured(row: StoredMetric) -> bool:
    """Whether a row has a finite value of a successful run, made of finite points or of as many as were allowed."""
    return bool(_measured([row]))


def _good(rows: list[StoredMetric], accepted: Accepted | None) -> list[StoredMetric]:
    if accepted is None:  # nearly every metric
        return _passed(_measured(rows))
    return [row for row in rows if in_baseline(row, accepted)]


def _measured(rows: list[StoredMetric]) -> list[StoredMetric]:
    """The rows that `is_measured` holds for, without a call for each: there may be a million.

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
        """The needed rows of one metric. Both lists are ordered oldest first."""
        older = rows[: -self.recent] if self.recent else rows
        wanted = max(0, self.window - sum(map(in_baseline, rows[len(older) :])))
        good = [row for row in older if in_baseline(row) and (self.earliest is None or row.timestamp >= self.earliest)]
        return [*(good[-wanted:] if wanted else []), *rows[len(older) :]]


def history_needs(config: RegressionTestConfig, test: str) -> HistoryNeeds:
    historical = [condition for condition in config.conditions.values() if uses_history(condition)]
    others = dict.fromkeys(condition.compare_to for condition in historical if condition.compare_to)
    near = [other.test or test for other in others if other.deployment is None]
    far = [Elsewhere(other.deployment, other.test or test, other.series(test)) for other in others if other.deployment]
    window = max((condition.baseline_runs for condition in historical), default=0)
    starts = [condition.since for condition in historical]
    known = [start for start in starts if start is not None]
    earliest = min(known) if known and len(known) == len(starts) else None
    return HistoryNeeds(tuple(dict.fromkeys([test, *near])), window, recent_rows(window), earliest, tuple(far))


def recent_rows(window: int) -> int:
    """How many of the newest rows, good or not, are read with a baseline of so many good ones."""
    return max(RECENT, window)
