"""The weekly heartbeat, which reports what causes no other message: missed runs, conditions that misjudge."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby, takewhile
from typing import NamedTuple

from ml_metrics.alerts.compose import MAX_ROWS, SUBJECT_PREFIX, first_reasons, links_of, rendered
from ml_metrics.alerts.digest import MAX_RUNS, is_read, runs_of, send_summary, silent_in
from ml_metrics.alerts.message import Fact, Message, MessageKind, Reason
from ml_metrics.alerts.problems import short_name
from ml_metrics.alerts.render import is_link, one_line
from ml_metrics.alerts.settings import MailSettings
from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.schedule import time_before, times_after
from ml_metrics.core.model import StoredMetric
from ml_metrics.core.text import counted
from ml_metrics.core.values import short_hash
from ml_metrics.judge import history_needs
from ml_metrics.measure.efficiency import cost_words
from ml_metrics.warehouse import (
    IMPORT_ERROR,
    MISSING,
    ChannelState,
    Incident,
    KnownTest,
    ScheduledRuns,
    Warehouse,
    known_test,
)

WEEK = timedelta(days=7)
FIT_RUNS = 100
"""The number of runs that show whether a condition fits."""
SECTIONS = {
    "broken": ("Cannot run", "bad", ""),
    "paused": ("Paused", "warning", ""),
    "missed": ("Missed scheduled runs", "warning", ""),
    "failing": ("Failing", "bad", ""),
    "undecided": ("Never decided", "warning", "These metrics pass because their conditions cannot judge them."),
    "unfit": ("Conditions that do not fit their past runs", "warning", ""),
    "unsent": ("Messages that could not be sent", "bad", "Their texts are in the outbox folder."),
    "quarantined": ("In quarantine", "note", ""),
}
"""The heading, the style and the note of each section."""

Rows = list["StoredMetric"]


class Line(NamedTuple):
    """A line of a section."""

    subject: str
    """A test, or the subject of a message."""
    text: str = ""
    more: str = ""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The state of the tests that share a list of recipients."""

    since: datetime
    tests: int
    lines: Mapping[str, Sequence[Line]] = field(default_factory=dict)
    """By section."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """The number of tests in other states: `on_time`, `never`, `not_due`, `unscheduled`, `unrecorded`."""

    def number(self, name: str) -> int:
        return len(self.lines.get(name, ())) or self.counts.get(name, 0)


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
    unsent = defaultdict[tuple[str, ...], list[Line]](list)
    for one in warehouse.messages.dead(since):
        failed = sorted((name, each.detail) for name, each in one.channels.items() if each.state == ChannelState.DEAD)
        problem = "; ".join(f"{name}: {detail}" for name, detail in failed)
        unsent[one.recipients].append(Line(one.subject, f"not sent: {problem}", f"{one.timestamp:%Y-%m-%d %H:%M} UTC"))
    defined = {test.name: test for test in tests}
    known = {**{name: known_test(test, since) for name, test in defined.items()}, **(watched or {})}
    quarantined = _quarantined(defined, known, warehouse, now)
    ordered = sorted(known.values(), key=lambda test: (mail.recipients_of(test.emails), test.test))
    found = findings(tests, warehouse, mail.silent_runs)
    sent = 0
    for recipients, group in groupby(ordered, key=lambda test: mail.recipients_of(test.emails)):
        every = list(group)
        lines, counts = week_of(every, warehouse, since, now)
        lines["unsent"] = unsent[recipients]
        for test in every:
            lines["undecided"] += found.get(test.test, ([], []))[0]
            lines["unfit"] += found.get(test.test, ([], []))[1]
            lines["failing"] += [_failing(incidents[test.test])] if test.test in incidents else []
            lines["quarantined"] += [quarantined[test.test]] if test.test in quarantined else []
        key = f"heartbeat-{now:%Y-%m-%d}-{short_hash(json.dumps([mail.deployment, *recipients]))}"
        heartbeat = Heartbeat(since, len(every), lines, counts)
        send_summary(compose_heartbeat(key, heartbeat, recipients, mail.sender, mail.dashboard_url), mail, warehouse)
        sent += 1
    return sent


def compose_heartbeat(
    key: str, heartbeat: Heartbeat, recipients: Sequence[str], sender: str, dashboard_url: str
) -> Message:
    """The message about tests that did not run and metrics that were not judged. It is sent even without any."""
    headline, dashboard = headline_of(heartbeat), Fact("dashboard", "Open the dashboard", f"{dashboard_url}/")
    told = ("unsent", "broken", "missed", "undecided", "unfit")
    reasons = [
        Reason(f"{name}:{line.subject}", f"{line.subject}: {line.text}")
        for name in told
        for line in heartbeat.lines.get(name, ())
    ]
    bad = any(heartbeat.number(name) for name in ("broken", "missed", "failing", "paused", "undecided", "unsent"))
    values = {
        "headline": headline,
        "counts": counts_of(heartbeat),
        "since": f"{heartbeat.since:%Y-%m-%d}",
        "sections": [(*SECTIONS[name], heartbeat.lines[name]) for name in SECTIONS if heartbeat.lines.get(name)],
        "style": "warning" if bad else "ok",
        "most": MAX_ROWS,
        "buttons": [dashboard] if is_link(dashboard.link) else [],
        "dashboard": dashboard.link,
    }
    return rendered(
        "heartbeat",
        values,
        recipients,
        sender,
        key=key,
        kind=MessageKind.HEARTBEAT,
        subject=one_line(f"{SUBJECT_PREFIX}weekly: {headline}"),
        reasons=first_reasons(reasons),
        links=links_of([dashboard]),
    )


def headline_of(heartbeat: Heartbeat) -> str:
    """What is worst about the tests, for example `2 of 9 tests cannot run, 1 is failing`."""
    number, tests = heartbeat.number, counted(heartbeat.tests, "test")
    parts = _counted(
        (number("broken"), "cannot run"),
        (number("missed"), "did not run as scheduled"),
        (number("failing"), "is failing", "are failing"),
        (number("paused"), "is paused", "are paused"),
    )
    if parts:
        count, _, rest = parts[0].partition(" ")
        parts[0] = f"{count} of {tests} {rest}"
    elif on_time := number("on_time"):
        parts = [f"{counted(on_time, 'test')} ran as scheduled"]
    else:
        parts = [f"none of {tests} was scheduled"]
    if undecided := number("undecided"):
        of_tests = counted(len({line.subject for line in heartbeat.lines["undecided"]}), "test")
        was = "was" if undecided == 1 else "were"
        parts.append(f"{counted(undecided, 'metric')} of {of_tests} {was} not judged")
    if unsent := number("unsent"):
        parts.append(f"{counted(unsent, 'message')} could not be sent")
    return ", ".join(parts)


def counts_of(heartbeat: Heartbeat) -> str:
    """How many of the tests ran as scheduled, and what the others did. Each test is counted once."""
    number = heartbeat.number
    scheduled = _counted(
        (number("on_time"), "ran as scheduled"),
        (number("missed") - number("never"), "ran less often"),
        (number("never"), "never ran"),
        (number("paused"), "is paused", "are paused"),
        (number("broken"), "cannot run"),
        (number("not_due"), "was not due", "were not due"),
        (number("unscheduled"), "has no schedule", "have no schedule"),
        (number("unrecorded"), "records no runs", "record no runs"),
    )
    states = _counted(
        (number("failing"), "is failing", "are failing"),
        (number("quarantined"), "is in quarantine", "are in quarantine"),
    )
    did, standing = ", ".join(scheduled) or "none was due", ", ".join(states) or "none is failing"
    return f"Of {counted(heartbeat.tests, 'test')}, {did}. Of all, {standing}."


def _counted(*parts: tuple[int, *tuple[str, ...]]) -> list[str]:
    """Each number that is not 0 with its words: those for one, and those for several if they differ."""
    return [f"{number} {words[0 if number == 1 else -1]}" for number, *words in parts if number]


def findings(
    tests: Sequence[TestDefinition], warehouse: Warehouse, silent_runs: int
) -> dict[str, tuple[list[Line], list[Line]]]:
    """The conditions of each test with any runs that do not decide, and those that do not fit.

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
            undecided = [
                Line(name, f"{one.metric}: {one.reason}", f"{one.state.replace('_', ' ')} in the last {one.runs} runs")
                for one in silent
            ]
            found[name] = undecided, list(_unfit(test, newest(rows, FIT_RUNS), others))
    return found


def newest(rows: Rows, runs: int) -> Rows:
    kept = set(sorted({(row.timestamp, row.run_key) for row in rows}, reverse=True)[:runs])
    return [row for row in rows if (row.timestamp, row.run_key) in kept]


def _unfit(test: TestDefinition, rows: Rows, others: Mapping[str, Rows]) -> Iterator[Line]:
    """The conditions of a test that its past runs show to be too narrow for the noise, or far too wide."""
    from ml_metrics.judge import misfits  # imports numpy

    config = test.regression_test_config
    if not config.conditions:
        return
    series = history_needs(config, test.name).series
    compared = [row for name in series if name != test.name for row in others.get(name, ())]
    for metric, problem in misfits(config, [*rows, *compared], test=test.name):
        yield Line(test.name, f"{metric} {problem}")


def _compared(tests: Mapping[str, TestDefinition], warehouse: Warehouse) -> dict[str, Rows]:
    needs = [history_needs(test.regression_test_config, name) for name, test in tests.items()]
    near = {other for one in needs for other in one.tests[1:]}
    found = dict(warehouse.metrics.of_newest_runs(sorted(near), FIT_RUNS))
    far = {other for one in needs for other in one.elsewhere}
    for deployment in sorted({other.deployment for other in far}):
        there = {other.test: other.series for other in far if other.deployment == deployment}
        rows = warehouse.in_deployment(deployment).metrics.of_newest_runs(sorted(there), FIT_RUNS)
        found |= {there[test]: [replace(row, test=there[test]) for row in of_test] for test, of_test in rows}
    return found


def week_of(
    tests: Sequence[KnownTest], warehouse: Warehouse, since: datetime, now: datetime
) -> tuple[dict[str, list[Line]], Counter[str]]:
    """The lines about tests that did not run as they should since a time, and how many are in other states."""
    lines, counts, ran = defaultdict[str, list[Line]](list), Counter[str](), warehouse.runs.scheduled(since)
    for test in tests:
        state, line = _week_of_test(test, ran.get(test.test), since, now)
        if line is None:
            counts[state] += 1
        else:
            lines[state].append(line)
            counts["never"] += line.text.startswith("ran 0 ")
    return lines, counts


def _week_of_test(
    test: KnownTest, runs: ScheduledRuns | None, since: datetime, now: datetime
) -> tuple[str, Line | None]:
    broken = next((name for name in test.problems if name.startswith(("file:", MISSING, IMPORT_ERROR))), None)
    if broken is not None:
        return "broken", Line(test.test, short_name(broken), test.problems[broken])
    if not test.schedule:
        return "unscheduled", None
    if test.is_paused:
        return "paused", Line(test.test)
    if not test.recorded:
        return "unrecorded", None
    start = datetime.fromtimestamp(test.since, UTC)
    if runs:  # the time of the schedule that started the first run is not later than the last one before its end
        start = (time_before(test.schedule, runs.first) or runs.first) - timedelta(microseconds=1)
    end = now - timedelta(seconds=test.longest)
    expected = sum(1 for _ in takewhile(lambda time: time <= end, times_after(test.schedule, max(since, start))))
    ran = runs.runs if runs else 0
    if ran < expected:
        last = f"last at {runs.last:%Y-%m-%d %H:%M} UTC" if runs and runs.last else "never ran before"
        return "missed", Line(test.test, f"ran {ran} of {expected} times, {last}")
    return "on_time" if expected else "not_due", None


def _quarantined(
    defined: Mapping[str, TestDefinition], known: Mapping[str, KnownTest], warehouse: Warehouse, now: datetime
) -> dict[str, Line]:

    def line(name: str, until: date, reason: str) -> Line:
        return Line(name, f"until {until}: {reason}")

    found = {
        name: line(name, row.last_day, f"{row.reason} ({row.by})")
        for name, row in warehouse.quarantines.newest().items()
        if row.holds(now)
    }
    for name, test in known.items():
        if test.is_quiet(now):
            found[name] = line(name, date.fromisoformat(test.quiet_until), "in its definition")
    for name, one in defined.items():
        if one.quarantine and one.quarantine.holds(now):
            found[name] = line(name, one.quarantine.until, one.quarantine.reason)
    return found


def _failing(incident: Incident) -> Line:
    names = list(map(short_name, incident.reasons))
    problems, rest = names[:5], len(names[5:])
    more = f" (+{rest} more)" if rest else ""
    taken = f"acknowledged by {incident.acknowledged_by}" if incident.acknowledged_by else "not acknowledged"
    since = f"since {incident.opened_at:%Y-%m-%d %H:%M} UTC"
    cost = cost_words(incident.cost)
    return Line(incident.test, f"{', '.join(problems)}{more}", ", ".join(filter(None, (since, taken, cost))))
