"""How the tests of a heartbeat ran in its week: as scheduled, less often, never, or not at all for a reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import BrokenTest, MissedRuns
from ml_metrics.config.schedule import times_after
from ml_metrics.reports import short_name
from ml_metrics.warehouse.known_tests import IMPORT_ERROR, MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.warehouse import JobRow, KnownTest, Warehouse

MAX_RUNS = 1000
NOT_OF_A_SCHEDULE = ("manual__", "confirm__", "backfill__")
"""How the ids of runs begin that no schedule started."""
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
    week = Week()
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
            _add_scheduled(week, test, warehouse.runs.newest(test.test, MAX_RUNS), since, now)
    return week


def times_between(schedule: str | None, start: datetime, end: datetime) -> int:
    """Return how many runs a schedule has between two times."""
    return sum(1 for _ in takewhile(lambda time: time <= end.timestamp(), times_after(schedule, start)))


def _add_scheduled(week: Week, test: KnownTest, runs: Sequence[JobRow], since: datetime, now: datetime) -> None:
    longest = timedelta(seconds=test.longest)
    known_since = datetime.fromtimestamp(test.since, UTC)
    first = min((run.timestamp for run in runs), default=known_since + longest)
    expected = times_between(test.schedule, max(since, first - longest), now - longest)
    ran = sum(run.timestamp >= since and not (run.run_id or "").startswith(NOT_OF_A_SCHEDULE) for run in runs)
    if ran < expected:
        week.missed.append(MissedRuns(test.test, expected, ran, runs[0].timestamp if runs else None))
    elif expected:
        week.on_time += 1
    else:
        week.not_due += 1
