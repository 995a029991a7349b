"""The weekly heartbeat, which reports what causes no other message: missed runs, conditions that misjudge."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import timedelta
from itertools import groupby, takewhile
from typing import TYPE_CHECKING

from ml_metrics.alerts.compose import compose_heartbeat
from ml_metrics.alerts.message import (
    FailingTest,
    Heartbeat,
    MissedRuns,
    QuarantinedTest,
    UndecidedMetric,
    UnfitCondition,
    UnsentMessage,
)
from ml_metrics.config.schedule import times_after
from ml_metrics.judge import history_needs
from ml_metrics.notify.digest import send_summary
from ml_metrics.notify.silence import silent_conditions
from ml_metrics.reports import short_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.notify.mail_settings import MailSettings
    from ml_metrics.warehouse import Incident, Warehouse

WEEK = timedelta(days=7)
MAX_RUNS = 1000
FIT_RUNS = 100
"""From how many runs it is known whether a condition fits."""


def send_heartbeats(tests: Sequence[TestDefinition], warehouse: Warehouse, mail: MailSettings, now: datetime) -> int:
    """Send each list of recipients a message about its tests."""
    since, incidents = now - WEEK, warehouse.incidents.all_open()
    unsent = _unsent(warehouse, since)
    ordered = sorted(tests, key=lambda test: (mail.recipients_of(test.emails), test.name))
    sent = 0
    for recipients, group in groupby(ordered, key=lambda test: mail.recipients_of(test.emails)):
        own = list(group)
        heartbeat = Heartbeat(
            since=since,
            tests=len(own),
            missed=tuple(missed for test in own for missed in _missed_runs(test, warehouse, since, now)),
            undecided=tuple(
                UndecidedMetric(test.name, one.metric, one.runs, one.reason, one.state)
                for test in own
                for one in silent_conditions(test, warehouse, mail.silent_runs)
            ),
            unfit=tuple(condition for test in own for condition in _unfit(test, warehouse)),
            failing=tuple(_failing(incidents[test.name]) for test in own if test.name in incidents),
            quarantined=tuple(
                QuarantinedTest(test.name, test.quarantine.until, test.quarantine.reason)
                for test in own
                if test.quarantine and test.quarantine.holds(now)
            ),
            unsent=tuple(unsent.get(recipients, ())),
        )
        readers = hashlib.sha256(json.dumps([mail.deployment, *recipients]).encode()).hexdigest()[:16]
        key = f"heartbeat-{now:%Y-%m-%d}-{readers}"
        sent += send_summary(
            compose_heartbeat(key, heartbeat, recipients, mail.sender, mail.dashboard_url), mail, warehouse
        )
    return sent


def _unsent(warehouse: Warehouse, since: datetime) -> dict[tuple[str, ...], list[UnsentMessage]]:
    """Return the messages that could not be sent, by recipients."""
    found: dict[tuple[str, ...], list[UnsentMessage]] = {}
    for one in warehouse.messages.dead(since):
        failed = {name: result.detail for name, result in one.channels.items() if result.state == "dead"}
        problem = "; ".join(f"{name}: {detail}" for name, detail in sorted(failed.items()))
        found.setdefault(one.recipients, []).append(UnsentMessage(one.subject, one.timestamp, problem))
    return found


def _missed_runs(test: TestDefinition, warehouse: Warehouse, since: datetime, now: datetime) -> Iterator[MissedRuns]:
    """Yield the test if it ran less often than scheduled. Runs that are not recorded cannot be counted."""
    if not test.metric_collection_config.write_to_bigquery:
        return
    runs = warehouse.runs.newest(test.name, MAX_RUNS)
    first_run = min((run.timestamp for run in runs), default=since)
    longest = (test.startup_timeout + test.timeout) * (test.retries + 1)
    expected = times_between(test.schedule, max(since, first_run - longest), now - longest)
    ran = sum(run.timestamp >= since and not (run.run_id or "").startswith("manual__") for run in runs)
    if ran < expected:
        yield MissedRuns(test.name, expected, ran, runs[0].timestamp if runs else None)


def _unfit(test: TestDefinition, warehouse: Warehouse) -> Iterator[UnfitCondition]:
    """Yield the conditions of a test that its past runs show to be too narrow for the noise, or far too wide."""
    from ml_metrics.judge.calibration.unfit import misfits  # imports numpy

    config = test.regression_test_config
    if not config.metric_success_conditions or not test.metric_collection_config.write_to_bigquery:
        return
    needs = replace(history_needs(config, test.name), window=0, recent=FIT_RUNS, earliest=None)
    for metric, problem in misfits(config, warehouse.metrics.history(needs), test=test.name):
        yield UnfitCondition(test.name, metric, problem)


def times_between(schedule: str | None, start: datetime, end: datetime) -> int:
    """Return how many runs a schedule has between two times."""
    return sum(1 for _ in takewhile(lambda time: time <= end.timestamp(), times_after(schedule, start)))


def _failing(incident: Incident) -> FailingTest:
    problems = tuple(map(short_name, incident.reasons))
    return FailingTest(incident.test, incident.opened_at, problems, incident.acknowledged_by or "")
