"""What came before a run: the rows of the history in order, each run once, and what people accepted."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

from ml_metrics.model import JobStatus, StoredMetric

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Moment = tuple[datetime, str]
"""When something was, and the run's key: two runs that end in the same instant still have one order."""
PRESENT_RUNS = 5
"""A metric that each of so many runs produced is expected of the next."""
RECENT = 2 * PRESENT_RUNS
"""Rows to read for the questions about the runs just before; some of them may be of failed jobs."""
_MOMENT = attrgetter("timestamp", "run_key")


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A person's word that a metric's new level is meant: its baseline begins with this run."""

    test: str
    metric: str
    run_key: str
    """The first run of the new level."""
    accepted_at: datetime
    accepted_by: str = ""
    reason: str = ""
    timestamp: datetime | None = None
    """When that run was; looked up in the history where it is not told."""
    value: float | None = None


class Past:
    """The history of one or more tests, as it was when a run ended.

    Rows may come in any order, may hold the run itself, later runs and the same run twice; none of that is the past.
    A row without a metric's name stands for a run that produced no metric.
    """

    def __init__(  # noqa: PLR0913  (what is past depends on all of these)
        self,
        history: Iterable[StoredMetric],
        acceptances: Sequence[Acceptance] = (),
        *,
        test: str,
        run_key: str,
        now: datetime,
        attributes: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.attributes = attributes or {}
        self.now = aware(now)
        self.run_key = run_key
        self.test = test
        self._acceptances: dict[tuple[str, str], list[Acceptance]] = defaultdict(list)
        for each in acceptances:
            self._acceptances[each.test or test, each.metric].append(each)
        self._rows: dict[tuple[str, str], list[StoredMetric]] = {}
        self._ordered: dict[tuple[str, str], list[StoredMetric]] = {}
        for row in history:
            key = (row.test or test, row.metric)
            if key in self._rows:
                self._rows[key].append(row)
            else:
                self._rows[key] = [row]

    def rows(self, metric: str, test: str | None = None) -> list[StoredMetric]:
        """The earlier rows of a metric, oldest first, one for each run."""
        key = (test or self.test, metric)
        if key not in self._ordered:
            self._ordered[key] = self._in_order(self._rows.get(key, []))
        return self._ordered[key]

    def metrics(self) -> list[str]:
        """The metrics that this test ever had, by name."""
        return sorted(metric for test, metric in self._rows if test == self.test and metric)

    @cached_property
    def runs(self) -> list[StoredMetric]:
        """A row of each earlier run of this test, the newest it has, oldest run first."""
        newest: dict[str, tuple[datetime, bool, StoredMetric]] = {}
        for (test, _), rows in self._rows.items():
            for row in rows if test == self.test else ():
                seen = (aware(row.timestamp), row.job_status is not JobStatus.SUCCESS, row)
                known = newest.get(row.run_key)
                if known is None or seen[:2] > known[:2]:
                    newest[row.run_key] = seen
        return self._in_order([row for _, _, row in newest.values()])

    def accepted(self, metric: str, test: str | None = None) -> tuple[Moment, datetime] | None:
        """From which run a metric's baseline begins, and when that was said; None if nobody did.

        What was accepted about a later run says nothing about this one.
        """
        whose = test or self.test
        found = [
            (self._moment_of(each, whose), aware(each.accepted_at))
            for each in self._acceptances.get((whose, metric), ())
        ]
        return max((each for each in found if each[0] <= (self.now, self.run_key)), default=None)

    def _moment_of(self, acceptance: Acceptance, test: str) -> Moment:
        """When the accepted run was. If the history does not hold it, all that is known is when it was accepted."""
        if acceptance.run_key == self.run_key and test == self.test:
            return (self.now, self.run_key)
        if acceptance.timestamp is not None:
            return (aware(acceptance.timestamp), acceptance.run_key)
        named = [row for row in self._rows.get((test, acceptance.metric), []) if row.run_key == acceptance.run_key]
        anywhere = named or [
            row
            for (of, _), rows in self._rows.items()
            if of == test
            for row in rows
            if row.run_key == acceptance.run_key
        ]
        return (
            max((aware(row.timestamp) for row in anywhere), default=aware(acceptance.accepted_at)),
            acceptance.run_key,
        )

    def _in_order(self, rows: list[StoredMetric]) -> list[StoredMetric]:
        if None in [row.timestamp.tzinfo for row in rows]:
            rows = [replace(row, timestamp=aware(row.timestamp)) for row in rows]
        past = [row for row in rows if row.timestamp <= self.now and row.run_key != self.run_key]
        past.sort(key=_MOMENT)
        while past and _MOMENT(past[-1]) >= (self.now, self.run_key):
            past.pop()
        if len({row.run_key for row in past}) == len(past):
            return past
        return _each_run_once(past)


def aware(moment: datetime) -> datetime:
    """A time without a zone is UTC, as every time in this package."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _each_run_once(rows: list[StoredMetric]) -> list[StoredMetric]:
    """The newest row of each run; of two that are equally new, the one that speaks less well of the run."""

    def rank(row: StoredMetric) -> tuple[datetime, str, bool, bool, str, float]:
        finite = row.value is not None and math.isfinite(row.value)
        outcome = row.outcome or ""
        failed = row.job_status is not JobStatus.SUCCESS
        return (*_MOMENT(row), failed, outcome == "fail", outcome, (row.value or 0.0) if finite else 0.0)

    newest = {row.run_key: row for row in sorted(rows, key=rank)}
    return sorted(newest.values(), key=_MOMENT)
