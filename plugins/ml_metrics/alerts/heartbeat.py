"""The weekly heartbeat, which reports what causes no other message: missed runs, conditions that misjudge."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.compose import compose_heartbeat
from ml_metrics.alerts.digest import MAX_RUNS, is_read, runs_of, send_summary, silent_in
from ml_metrics.alerts.message import (
    BrokenTest,
    FailingTest,
    Heartbeat,
    MissedRuns,
    QuarantinedTest,
    UndecidedMetric,
    UnfitCondition,
    UnsentMessage,
)
from ml_metrics.alerts.problems import short_name
from ml_metrics.config.schedule import time_before, times_after
from ml_metrics.core.values import short_hash
from ml_metrics.judge import history_needs
from ml_metrics.measure.efficiency import cost_words
from ml_metrics.warehouse import IMPORT_ERROR, MISSING, ChannelState, known_test

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ml_metrics.alerts.settings import MailSettings
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import StoredMetric
    from ml_metrics.warehouse import Incident, KnownTest, ScheduledRuns, Warehouse


FIT_RUNS = 100
"""The number of runs that show whether a condition fits."""

Rows = list["StoredMetric"]


def findings(
    tests: Sequence[TestDefinition], warehouse: Warehouse, silent_runs: int
) -> dict[str, tuple[list[UndecidedMetric], list[UnfitCondition]]]:
    """Return the conditions of each test with any runs that do not decide, and those that do not fit.

    One query reads the runs of all tests that need at most as many as a baseline, and one those of the others.
    """
    wanted = {test.name: test for test in tests if is_read(test)}
    deep = {name for name, test in wanted.items() if runs_of(test, silent_runs) > FIT_RUNS}
    others = _compared(wanted, warehouse)
    found = {}
    for names, recent in ((wanted.keys() - deep, FIT_RUNS), (deep, MAX_RUNS)):
        for name, rows in warehouse.metrics.of_newest_runs(sorted(names), recent):
            test = wanted[name]
            silent = silent_in(test, newest(rows, runs_of(test, silent_runs)), silent_runs)
            undecided = [UndecidedMetric(name, one.metric, one.runs, one.reason, one.state) for one in silent]
            found[name] = undecided, list(_unfit(test, newest(rows, FIT_RUNS), others))
    return found


def newest(rows: Rows, runs: int) -> Rows:
    kept = set(sorted({(row.timestamp, row.run_key) for row in rows}, reverse=True)[:runs])
    return [row for row in rows if (row.timestamp, row.run_key) in kept]


def _unfit(test: TestDefinition, rows: Rows, others: Mapping[str, Rows]) -> Iterator[UnfitCondition]:
    """Yield the conditions of a test that its past runs show to be too narrow for the noise, or far too wide."""
    from ml_metrics.judge import misfits  # imports numpy

    config = test.regression_test_config
    if not config.conditions:
        return
    series = history_needs(config, test.name).series
    compared = [row for name in series if name != test.name for row in others.get(name, ())]
    for metric, problem in misfits(config, [*rows, *compared], test=test.name):
        yield UnfitCondition(test.name, metric, problem)


def _compared(tests: Mapping[str, TestDefinition], warehouse: Warehouse) -> dict[str, Rows]:
    """Return the newest rows of the tests that conditions compare with, in this and in other deployments."""
    needs = [history_needs(test.regression_test_config, name) for name, test in tests.items()]
    near = {other for one in needs for other in one.tests[1:]}
    found = dict(warehouse.metrics.of_newest_runs(sorted(near), FIT_RUNS))
    far = {other for one in needs for other in one.elsewhere}
    for deployment in sorted({other.deployment for other in far}):
        there = {other.test: other.series for other in far if other.deployment == deployment}
        rows = warehouse.in_deployment(deployment).metrics.of_newest_runs(sorted(there), FIT_RUNS)
        found |= {there[test]: [replace(row, test=there[test]) for row in of_test] for test, of_test in rows}
    return found


def week_of(tests: Sequence[KnownTest], warehouse: Warehouse, since: datetime, now: datetime) -> dict[str, list[Any]]:
    """Return how some tests ran since a time: each test in one of the lists of a `Heartbeat`."""
    week, ran = defaultdict[str, list[Any]](list), warehouse.runs.scheduled(since)
    for test in tests:
        name, entry = _week_of_test(test, ran.get(test.test), since, now)
        week[name].append(entry)
    return week


def _week_of_test(
    test: KnownTest, runs: ScheduledRuns | None, since: datetime, now: datetime
) -> tuple[str, BrokenTest | MissedRuns | str]:
    broken = next((name for name in test.problems if name.startswith(("file:", MISSING, IMPORT_ERROR))), None)
    if broken is not None:
        return "broken", BrokenTest(test.test, short_name(broken), test.problems[broken])
    if not test.schedule:
        return "unscheduled", test.test
    if test.is_paused:
        return "paused", test.test
    if not test.recorded:
        return "unrecorded", test.test
    start = datetime.fromtimestamp(test.since, UTC)
    if runs:  # the time of the schedule that started the first run is not later than the last one before its end
        start = (time_before(test.schedule, runs.first) or runs.first) - timedelta(microseconds=1)
    expected = times_between(test.schedule, max(since, start), now - timedelta(seconds=test.longest))
    ran = runs.runs if runs else 0
    if ran < expected:
        return "missed", MissedRuns(test.test, expected, ran, runs.last if runs else None)
    return "on_time" if expected else "not_due", test.test


def times_between(schedule: str | None, start: datetime, end: datetime) -> int:
    return sum(1 for _ in takewhile(lambda time: time <= end, times_after(schedule, start)))


WEEK = timedelta(days=7)


def send_heartbeats(
    tests: Sequence[TestDefinition],
    warehouse: Warehouse,
    mail: MailSettings,
    now: datetime,
    watched: Mapping[str, KnownTest] | None = None,
) -> int:
    """Send each list of recipients a message about its tests.

    `watched` are the tests that are known besides: those whose files are broken, and those written in Python; and what
    is wrong with any of them.
    """
    since, incidents = now - WEEK, warehouse.incidents.all_open()
    unsent = _unsent(warehouse, since)
    defined = {test.name: test for test in tests}
    known = {**{name: known_test(test, since) for name, test in defined.items()}, **(watched or {})}
    quarantined = _quarantined(defined, known, warehouse, now)
    ordered = sorted(known.values(), key=lambda test: (mail.recipients_of(test.emails), test.test))
    found = findings(tests, warehouse, mail.silent_runs)
    sent = 0
    for recipients, group in groupby(ordered, key=lambda test: mail.recipients_of(test.emails)):
        every = list(group)
        own = [found[test.test] for test in every if test.test in found]
        week = week_of(every, warehouse, since, now)
        heartbeat = Heartbeat(
            since=since,
            tests=len(every),
            missed=tuple(week["missed"]),
            broken=tuple(week["broken"]),
            paused=tuple(week["paused"]),
            on_time=len(week["on_time"]),
            unscheduled=len(week["unscheduled"]),
            not_due=len(week["not_due"]),
            unrecorded=len(week["unrecorded"]),
            undecided=tuple(one for undecided, _ in own for one in undecided),
            unfit=tuple(one for _, unfit in own for one in unfit),
            failing=tuple(_failing(incidents[test.test]) for test in every if test.test in incidents),
            quarantined=tuple(quarantined[test.test] for test in every if test.test in quarantined),
            unsent=tuple(unsent.get(recipients, ())),
        )
        readers = short_hash(json.dumps([mail.deployment, *recipients]))
        key = f"heartbeat-{now:%Y-%m-%d}-{readers}"
        send_summary(compose_heartbeat(key, heartbeat, recipients, mail.sender, mail.dashboard_url), mail, warehouse)
        sent += 1
    return sent


def _unsent(warehouse: Warehouse, since: datetime) -> dict[tuple[str, ...], list[UnsentMessage]]:
    found: dict[tuple[str, ...], list[UnsentMessage]] = {}
    for one in warehouse.messages.dead(since):
        failed = {name: result.detail for name, result in one.channels.items() if result.state == ChannelState.DEAD}
        problem = "; ".join(f"{name}: {detail}" for name, detail in sorted(failed.items()))
        found.setdefault(one.recipients, []).append(UnsentMessage(one.subject, one.timestamp, problem))
    return found


def _quarantined(
    defined: Mapping[str, TestDefinition], known: Mapping[str, KnownTest], warehouse: Warehouse, now: datetime
) -> dict[str, QuarantinedTest]:
    """Return the tests in quarantine, by their files or by the dashboard."""
    by_hand = {
        name: QuarantinedTest(name, row.last_day, f"{row.reason} ({row.by})")
        for name, row in warehouse.quarantines.newest().items()
        if row.holds(now)
    }
    by_file = {
        name: QuarantinedTest(name, date.fromisoformat(test.quiet_until), "in its definition")
        for name, test in known.items()
        if test.is_quiet(now)
    }
    with_reason = {
        name: QuarantinedTest(name, test.quarantine.until, test.quarantine.reason)
        for name, test in defined.items()
        if test.quarantine and test.quarantine.holds(now)
    }
    return {**by_hand, **by_file, **with_reason}


def _failing(incident: Incident) -> FailingTest:
    problems = tuple(map(short_name, incident.reasons))
    acknowledged_by, cost = incident.acknowledged_by or "", cost_words(incident.cost)
    return FailingTest(incident.test, incident.opened_at, problems, acknowledged_by, cost)
