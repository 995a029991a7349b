"""The history before a run: the earlier rows in order, each run once, and the accepted levels."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from operator import attrgetter, lt
from statistics import median
from typing import TYPE_CHECKING

from ml_metrics.core.model import BROKEN, CURVE_SUFFIX, SWEEP, JobStatus, StoredMetric, Sweep, TagCurve
from ml_metrics.core.values import as_utc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.config.conditions import Condition
    from ml_metrics.judge.level import LevelRule, Levels

    Rank = tuple[datetime, str, bool, bool, str, bool, float, float]


CurvesOfRuns = Mapping[tuple[str, str], TagCurve | Sweep]
"""Curves by run key and tag, or the metric of a sweep."""
ReadCurves = Callable[[Sequence[str], Sequence[str]], CurvesOfRuns]
"""Reads the curves of some runs, by their keys, and some tags."""


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

    def past(self, metric: str, run_keys: Sequence[str]) -> list[TagCurve]:
        """Return the curves of past runs, in the order of their keys, without those that are not stored."""
        unread = [key for key in run_keys if key not in self._read]
        if unread and self._read_from is not None:
            self._found = {**self._read_from(unread, self._tags), **self._found}
            self._read.update(unread)
        curves = (self.of(key, metric) for key in run_keys)
        return [curve for curve in curves if isinstance(curve, TagCurve) and curve.steps]


NO_CURVES = Curves()


def moment_of(row: StoredMetric) -> Moment:
    return as_utc(row.timestamp), row.run_key


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
    return sorted(newest.values(), key=moment_of)


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
    failed, broken = row.job_status is not JobStatus.SUCCESS, row.outcome in BROKEN
    return (*moment_of(row), failed, broken, row.outcome or "", *_badness(row, side, middle))


def _badness(row: StoredMetric, side: int, middle: float) -> tuple[bool, float, float]:
    """Order values from better to worse; without a side, the worse is farther from the median."""
    if row.value is None or not math.isfinite(row.value):
        return True, 0.0, 0.0
    return False, side * row.value if side else abs(row.value / 2 - middle / 2), row.value


Dated = tuple[float, int, str]
"""A value, the weekday of its run, and the run that this one runs again; empty if it runs none again."""
Moment = tuple[datetime, str]
"""The end and the key of a run, which also order runs that end at the same time."""
PRESENT_RUNS = 5
"""A metric that this many runs in a row produced is expected in the next."""
RECENT = 2 * PRESENT_RUNS
"""The number of newest rows to read for the checks of the last runs; some may be of failed jobs."""
_MOMENT = attrgetter("timestamp", "run_key")
_STATE = attrgetter("run_key", "timestamp", "job_status")
_TIME, _KEY = attrgetter("timestamp"), attrgetter("run_key")


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


def followed(values: Sequence[Dated], rule: LevelRule) -> Levels:
    """Return the levels of a series. What is found at a value depends on that value and those before it alone."""
    from ml_metrics.judge.level import follow  # imports numpy, which no other rule needs

    nights = nights_of([origin for _, _, origin in values])
    return follow([value for value, _, _ in values], rule, [day for _, day, _ in values], nights)


def nights_of(origins: Sequence[str]) -> list[int]:
    """By run: the index of the first run of its night. `origins`: which run each runs again, or empty."""
    nights: list[int] = []
    for place, origin in enumerate(origins):
        again = origin and place and origins[place - 1] in {"", origin}
        nights.append(nights[-1] if again else place)
    return nights


def unknown_side(_: str) -> int:
    return 0


class EarlierRuns:
    """The history of one or more tests before a run.

    The given rows may be in any order and may contain the run itself, later runs and duplicates, which are ignored. A
    row without a metric represents a run without metrics. Of two rows of one run with the same time, the worse counts;
    `side_of` returns by metric whether greater values (1) or smaller ones (-1) are worse.
    """

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
        side_of: Callable[[str], int] = unknown_side,
        curves: Curves = NO_CURVES,
    ) -> None:
        self.curves = curves
        self.run_id = run_id
        self.attributes = attributes or {}
        self.now = as_utc(now)
        self.run_key = run_key
        self.test = test
        self._worse_side = side_of
        self._acceptances = by_series(acceptances, test)
        self._ordered: dict[tuple[str, str], list[StoredMetric]] = {}
        rows: dict[tuple[str, str], list[StoredMetric]] = defaultdict(list)
        for row in history:
            rows[row.test or test, row.metric].append(row)
        self._rows = dict(rows)

    def rows(self, metric: str, test: str | None = None) -> list[StoredMetric]:
        """Return the earlier rows of a metric, oldest first, one for each run."""
        key = (test or self.test, metric)
        if key not in self._ordered:
            self._ordered[key] = self._in_order(self._rows.get(key, []))
        return self._ordered[key]

    def levels(self, metric: str, values: Sequence[Dated], rule: LevelRule) -> tuple[Levels, int]:
        """Return the levels of a series, and the index of its newest value. A replay follows each series only once."""
        del metric  # only a replay remembers what it followed
        return followed(values, rule), len(values) - 1

    def metrics(self) -> list[str]:
        return sorted(metric for test, metric in self._rows if test == self.test and metric)

    @cached_property
    def runs(self) -> list[StoredMetric]:
        """The newest row of each earlier run of this test, oldest run first."""
        distinct: dict[object, StoredMetric] = {}  # mostly one for each run, of thousands of rows
        for (test, _), rows in self._rows.items():
            if test == self.test:
                distinct.update(zip(map(_STATE, rows), rows, strict=True))
        newest: dict[str, tuple[datetime, bool, StoredMetric]] = {}
        for row in distinct.values():
            candidate = (as_utc(row.timestamp), row.job_status is not JobStatus.SUCCESS, row)
            current = newest.get(row.run_key)
            if current is None or candidate[:2] > current[:2]:
                newest[row.run_key] = candidate
        return self._in_order([row for _, _, row in newest.values()])

    def accepted(self, metric: str, test: str | None = None) -> tuple[Moment, datetime] | None:
        """Return the first run of a metric's accepted level and the time of the acceptance, or None.

        Acceptances of later runs are ignored.
        """
        owner = test or self.test
        own = self._acceptances.get((owner, metric), ())
        found = ((self._moment_of(each, owner), as_utc(each.accepted_at)) for each in own)
        return max((each for each in found if each[0] <= (self.now, self.run_key)), default=None)

    def _moment_of(self, acceptance: Acceptance, test: str) -> Moment:
        """Return the end of the accepted run, or the time of the acceptance if the run is not in the history."""
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
        earlier = [row for row in rows if row.timestamp <= self.now and row.run_key != self.run_key]
        earlier.sort(key=_MOMENT)
        while earlier and _MOMENT(earlier[-1]) >= (self.now, self.run_key):
            earlier.pop()
        if len({row.run_key for row in earlier}) == len(earlier):
            return earlier
        return each_run_once(earlier, self._worse_side(earlier[0].metric))

    def _is_in_order(self, rows: list[StoredMetric]) -> bool:
        """Whether rows are in order already, as a warehouse nearly always returns them. This makes no call per row."""
        times, keys = list(map(_TIME, rows)), set(map(_KEY, rows))
        if len(keys) < len(rows) or self.run_key in keys or not rows or times[0].tzinfo is None:
            return False
        try:
            return times[-1] < self.now and all(map(lt, times, times[1:]))
        except TypeError:  # another time is naive
            return False


def by_series(acceptances: Iterable[Acceptance], test: str) -> dict[tuple[str, str], list[Acceptance]]:
    """Acceptances without a test are of the given one."""
    found: dict[tuple[str, str], list[Acceptance]] = defaultdict(list)
    for each in acceptances:
        found[each.test or test, each.metric].append(each)
    return found
