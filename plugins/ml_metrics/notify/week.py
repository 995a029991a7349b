"""How the tests of a heartbeat ran in its week: as scheduled, less often, never, or why they could not."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import BrokenTest, MissedRuns
from ml_metrics.config.schedule import time_before, times_after
from ml_metrics.reports import short_name
from ml_metrics.warehouse.known_tests import IMPORT_ERROR, MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.warehouse import KnownTest, Warehouse
    from ml_metrics.warehouse.runs import ScheduledRuns

TICK = timedelta(microseconds=1)
CANNOT_RUN = ("file:", MISSING, IMPORT_ERROR)


@dataclass(slots=True)
class Week:
    """The tests, each in one of these."""

    on_time: int = 0
    unscheduled: int = 0
    not_due: int = 0
    unrecorded: int = 0
    missed: list[MissedRuns] = field(default_factory=list)
    paused: list[str] = field(default_factory=list)
    broken: list[BrokenTest] = field(default_factory=list)


def week_of(tests: Sequence[KnownTest], warehouse: Warehouse, since: datetime, now: datetime) -> Week:
    """Return how some tests ran since a time."""
    week, ran = Week(), warehouse.runs.scheduled(since)
    for test in tests:
        broken = [name for name in test.problems if name.startswith(CANNOT_RUN)]
        if broken:
            week.broken.append(BrokenTest(test.test, short_name(broken[0]), test.problems[broken[0]]))
        elif not test.schedule:
            week.unscheduled += 1
        elif test.is_paused:
            week.paused.append(test.test)
        elif not test.recorded:
            week.unrecorded += 1
        else:
            _add_scheduled(week, test, ran.get(test.test), since, now)
    return week


def times_between(schedule: str | None, start: datetime, end: datetime) -> int:
    """Return how many runs a schedule has between two times."""
    return sum(1 for _ in takewhile(lambda time: time <= end, times_after(schedule, start)))


def _add_scheduled(week: Week, test: KnownTest, runs: ScheduledRuns | None, since: datetime, now: datetime) -> None:
    start = datetime.fromtimestamp(test.since, UTC)
    if runs:  # the time of the schedule that started the first run is not later than the last one before its end
        start = (time_before(test.schedule, runs.first) or runs.first) - TICK
    expected = times_between(test.schedule, max(since, start), now - timedelta(seconds=test.longest))
    ran = runs.runs if runs else 0
    if ran < expected:
        week.missed.append(MissedRuns(test.test, expected, ran, runs.last if runs else None))
    elif expected:
        week.on_time += 1
    else:
        week.not_due += 1
