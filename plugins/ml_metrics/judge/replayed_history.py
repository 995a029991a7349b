"""The history of a replay: each run is added once, after it was judged."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from ml_metrics.judge.baseline import is_measured
from ml_metrics.judge.curves.source import NO_CURVES
from ml_metrics.judge.history import EarlierRuns, by_series, unknown_side
from ml_metrics.values import BEGINNING_OF_TIME, as_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.judge.curves.source import Curves
    from ml_metrics.judge.history import Acceptance, Levels, Moment, Rule
    from ml_metrics.model import StoredMetric


class ReplayedHistory(EarlierRuns):
    """The runs before the one that a replay judges now.

    The rows of the test itself are added in the order of its runs, so they need no sorting. The rows of other tests are
    sorted once.
    """

    def __init__(  # noqa: PLR0913  (as `EarlierRuns`)
        self,
        others: Iterable[StoredMetric],
        acceptances: Sequence[Acceptance] = (),
        *,
        test: str,
        series: Mapping[str, Sequence[float]],
        attributes: Mapping[str, Mapping[str, str]] | None = None,
        side_of: Callable[[str], int] = unknown_side,
        curves: Curves = NO_CURVES,
    ) -> None:
        """Begin with the rows of other tests. `series` has all values that the replay will reach, by metric."""
        super().__init__(
            others, test=test, run_key="", now=BEGINNING_OF_TIME, attributes=attributes, side_of=side_of, curves=curves
        )
        self._all_acceptances = acceptances
        self._series = {metric: _KnownSeries(values) for metric, values in series.items()}
        self._others = {key: sorted(rows, key=_moment) for key, rows in self._rows.items()}
        self._runs: list[StoredMetric] = []

    def begin(self, run_key: str, now: datetime) -> None:
        """Go on to the next run, which ended at `now`. An acceptance applies from its own time on."""
        self.run_key, self.now = run_key, now
        if self._all_acceptances:
            in_force = [each for each in self._all_acceptances if as_utc(each.accepted_at) <= now]
            self._acceptances = by_series(in_force, self.test)
        for key in self._others:
            self._ordered.pop(key, None)

    def add(self, rows: Sequence[StoredMetric]) -> None:
        """Add the rows of the judged run, one for each metric."""
        for row in rows:
            key = (self.test, row.metric)
            if key not in self._rows:
                self._rows[key] = self._ordered[key] = []
            self._rows[key].append(row)
            if row.metric in self._series and is_measured(row):
                self._series[row.metric].reached += 1
        self._runs += rows[:1]

    @property
    def runs(self) -> list[StoredMetric]:
        """One row of each earlier run of this test, oldest run first."""
        return self._runs

    def rows(self, metric: str, test: str | None = None) -> list[StoredMetric]:
        """Return the earlier rows of a metric, oldest first, one for each run."""
        key = (test or self.test, metric)
        if key in self._others and key not in self._ordered:
            rows = self._others[key]
            self._ordered[key] = self._in_order(rows[: bisect_left(rows, (self.now, self.run_key), key=_moment)])
        return self._ordered.get(key, [])

    def levels(
        self, metric: str, values: Sequence[float], rule: Rule, follow: Callable[[Sequence[float], Rule], Levels]
    ) -> tuple[Levels, int]:
        """Return the levels of a series that continues after its newest value, at `index`, if it is in the replay."""
        known = self._series.get(metric)
        return super().levels(metric, values, rule, follow) if known is None else known.levels(values, rule, follow)


class _KnownSeries:
    """All values of a metric that a replay will reach, and what a rule found in them."""

    def __init__(self, values: Sequence[float]) -> None:
        self._values = list(values)
        self.reached = 0
        """The number of values in the runs before the judged one."""
        self._followed: dict[Any, tuple[int, Any]] = {}
        """By rule: the index at which the values began in the run before, and the levels that were found from there."""

    def levels(
        self, values: Sequence[float], rule: Rule, follow: Callable[[Sequence[float], Rule], Levels]
    ) -> tuple[Levels, int]:
        """Follow the values, together with those to come if they begin where those of the run before did.

        Only then are they likely to begin there in the next run, too: an acceptance or a `time_window` moves the start.
        """
        last = len(values) - 1
        start = self._start_of(values)
        if start is None:
            return follow(values, rule), last
        begun, levels = self._followed.get(rule, (None, None))
        if begun != start:
            self._followed[rule] = (start, None)
            return follow(values, rule), last
        if levels is None:
            levels = follow(self._values[start:], rule)
            self._followed[rule] = (start, levels)
        return levels, last

    def _start_of(self, values: Sequence[float]) -> int | None:
        """Return the index at which these values are in the series, if they end with the judged run or before it."""
        for end in (self.reached + 1, self.reached):
            start = end - len(values)
            if start >= 0 and self._values[start:end] == list(values):
                return start
        return None


def _moment(row: StoredMetric) -> Moment:
    return as_utc(row.timestamp), row.run_key
