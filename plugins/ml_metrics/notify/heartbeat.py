"""The weekly heartbeat: silence is no sign that all is well, so somebody says which tests were silent."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from ml_metrics.alerts.digest import Heartbeat, OpenIncident, QuietTest, Silence, compose_heartbeat
from ml_metrics.notify.digest import send_to_groups
from ml_metrics.reports import named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.notify.mail_settings import Post
    from ml_metrics.warehouse import Incident, Warehouse

A_WEEK = timedelta(days=7)
RUNS = 1000
"""More than a test that runs every ten minutes has in a week, less than a page of memory."""
PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}
"""What Airflow makes of them; `@once` and `@continuous` say nothing about when."""


def send_heartbeats(tests: Sequence[TestDefinition], warehouse: Warehouse, post: Post, now: datetime) -> int:
    """A message to each group of people about the tests that are theirs."""
    since, alerts = now - A_WEEK, warehouse.incidents.all_open()
    ordered = sorted(tests, key=lambda test: (post.recipients_of(test.emails), test.name))
    sent = 0
    for recipients, group in groupby(ordered, key=lambda test: post.recipients_of(test.emails)):
        theirs = list(group)
        heartbeat = Heartbeat(
            since=since,
            tests=len(theirs),
            silent=tuple(silence for test in theirs for silence in _silences(test, warehouse, since, now)),
            incidents=tuple(_incident(alerts[test.name]) for test in theirs if test.name in alerts),
            quiet=tuple(
                QuietTest(test.name, test.quarantine.until, test.quarantine.reason)
                for test in theirs
                if test.quarantine and test.quarantine.holds(now)
            ),
        )
        key = f"heartbeat-{now:%Y-%m-%d}-{sent + 1}"
        sent += send_to_groups(compose_heartbeat(key, heartbeat, recipients, post.sender, post.dashboard_url), post)
    return sent


def _silences(test: TestDefinition, warehouse: Warehouse, since: datetime, now: datetime) -> Iterator[Silence]:
    """The test, if it ran less often than its schedule says. What leaves no rows cannot be counted."""
    if not test.metric_collection_config.write_to_bigquery:
        return
    runs = warehouse.runs.newest(test.name, RUNS)
    begun = min((run.timestamp for run in runs), default=since)
    longest = (test.startup_timeout + test.timeout) * (test.retries + 1)
    expected = times_between(test.schedule, max(since, begun - longest), now - longest)
    ran = sum(run.timestamp >= since and not (run.run_id or "").startswith("manual__") for run in runs)
    if ran < expected:
        yield Silence(test.name, expected, ran, runs[0].timestamp if runs else None)


def times_between(schedule: str | None, start: datetime, end: datetime) -> int:
    """How often a schedule asks for a run between two moments."""
    from croniter import CroniterBadDateError, croniter

    expression = PRESETS.get(schedule or "", schedule or "@once")
    if expression.startswith("@") or start >= end:
        return 0
    times = croniter(expression, start.astimezone(UTC))
    count = 0
    with suppress(CroniterBadDateError):  # the 30th of February never comes
        while times.get_next(float) <= end.timestamp():
            count += 1
    return count


def _incident(alert: Incident) -> OpenIncident:
    return OpenIncident(alert.test, alert.opened_at, tuple(map(named, alert.reasons)), alert.acknowledged_by or "")
