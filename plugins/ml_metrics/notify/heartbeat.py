"""The weekly heartbeat, which reports what causes no other message: missed runs, conditions that misjudge."""

from __future__ import annotations

import json
from datetime import date, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import compose_heartbeat
from ml_metrics.alerts.message import (
    FailingTest,
    Heartbeat,
    QuarantinedTest,
    UnsentMessage,
)
from ml_metrics.efficiency.cost_regression import cost_words
from ml_metrics.notify.conditions import findings
from ml_metrics.notify.digest import send_summary
from ml_metrics.notify.week import week_of
from ml_metrics.reports import short_name
from ml_metrics.values import short_hash
from ml_metrics.warehouse import ChannelState
from ml_metrics.warehouse.known_definition import known_test

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.warehouse import Incident, KnownTest, Warehouse

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
            missed=tuple(week.missed),
            undecided=tuple(one for test in own for one in test.undecided),
            unfit=tuple(one for test in own for one in test.unfit),
            failing=tuple(_failing(incidents[test.test]) for test in every if test.test in incidents),
            quarantined=tuple(quarantined[test.test] for test in every if test.test in quarantined),
            unsent=tuple(unsent.get(recipients, ())),
            broken=tuple(week.broken),
            paused=tuple(week.paused),
            on_time=week.on_time,
            unscheduled=week.unscheduled,
            not_due=week.not_due,
            unrecorded=week.unrecorded,
        )
        readers = short_hash(json.dumps([mail.deployment, *recipients]))
        key = f"heartbeat-{now:%Y-%m-%d}-{readers}"
        send_summary(compose_heartbeat(key, heartbeat, recipients, mail.sender, mail.dashboard_url), mail, warehouse)
        sent += 1
    return sent


def _unsent(warehouse: Warehouse, since: datetime) -> dict[tuple[str, ...], list[UnsentMessage]]:
    """Return the messages that could not be sent, by recipients."""
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
