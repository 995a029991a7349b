"""The mail of the morning: one for each list of recipients, with everything that was held back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby

from ml_metrics.alerts.compose import SUBJECT_PREFIX, compose_notice, first_reasons
from ml_metrics.alerts.message import Message, MessageKind, Reason
from ml_metrics.alerts.night import night_of
from ml_metrics.alerts.outbox.post import hurry, post
from ml_metrics.alerts.policy import A_SILENCE, BUDGET, CAN_WAIT, PART_OF
from ml_metrics.alerts.render import one_line
from ml_metrics.alerts.settings import MailSettings
from ml_metrics.config.definition import TestDefinition
from ml_metrics.core.model import Run, StoredMetric
from ml_metrics.core.values import short_hash
from ml_metrics.judge import HistoryNeeds, Undecided, runs_to_read, undecided
from ml_metrics.warehouse import MessageState, StoredMessage, Warehouse

MAX_AGE = timedelta(days=30)
"""Older messages are dropped."""
LASTS = timedelta(days=3)
"""What the alert budget holds back is in the mail of the morning when it has lasted so long."""
MAX_RUNS = 1000


def send_due_digests(warehouse: Warehouse, mail: MailSettings, now: datetime) -> int:
    """Send each list of recipients its held messages if one of them is due. Returns the number of digests."""
    # the next update of an incident reports a message that is part of it, so that a digest need not
    waiting = [
        one
        for one in warehouse.messages.held(now - MAX_AGE)
        if not one.held_because.startswith(PART_OF) or one.timestamp <= now - timedelta(hours=1)
    ]
    held = sorted(waiting, key=lambda one: (one.recipients, one.timestamp))
    sent = 0
    for recipients, group in groupby(held, key=lambda one: one.recipients):
        messages = list(group)
        if any(_is_due(one, now) for one in messages):
            keys = tuple(one.message for one in messages)
            send_summary(_digest(messages, recipients, mail, warehouse, now), mail, warehouse, summarises=keys)
            sent += 1
    return sent


def send_summary(
    message: Message, mail: MailSettings, warehouse: Warehouse, *, summarises: tuple[str, ...] = ()
) -> None:
    """Write a message about several tests, and send it at once. `summarises` are the held messages that it reports."""
    hurry(post(message, mail=mail, warehouse=warehouse, summarises=summarises), mail, warehouse)


def _is_due(one: StoredMessage, now: datetime) -> bool:
    if one.held_because == BUDGET:  # of what recovered, nothing is left to tell soon
        return one.occasion != MessageKind.RECOVERED and one.timestamp <= now - LASTS
    return one.held_because not in CAN_WAIT or one.timestamp <= now - timedelta(days=1)


def _digest(
    held: Sequence[StoredMessage], recipients: tuple[str, ...], mail: MailSettings, warehouse: Warehouse, now: datetime
) -> Message:
    key, day = short_hash("\n".join(sorted(one.message for one in held))), timedelta(days=1)
    since = min(now - day, *(one.timestamp for one in held))
    # by another clock, a message that the digest summarises can be newer than now
    until = max(now, *(one.timestamp + timedelta(microseconds=1) for one in held))
    told = (one.test for one in warehouse.messages.since(since, limit=10_000) if one.recipients == recipients)
    night = night_of(warehouse, mail.alert_budgets, now - day, until, {*told, *(one.test for one in held)})
    notice = night.notice(mail.dashboard_url)
    message = compose_notice(f"digest-{key}", MessageKind.DIGEST, notice, recipients, mail.sender)
    # a chat has no ten lines, but one for each message that was held back
    newest = sorted(held, key=lambda one: one.timestamp, reverse=True)
    reasons = [Reason(f"digest:{one.test}", one.subject.removeprefix(SUBJECT_PREFIX)) for one in newest]
    return replace(message, reasons=first_reasons(reasons))


def silent_in(test: TestDefinition, rows: Iterable[StoredMetric], limit: int) -> list[Undecided]:
    """The conditions that have not decided, from the rows of as many runs as `runs_of` returns."""
    return undecided(test.regression_test_config, rows, test.name, limit) if limit else []


def is_read(test: TestDefinition) -> bool:
    """Whether a test has conditions and rows. Runs that are not recorded show nothing."""
    config = test.regression_test_config
    has_any = bool(config.named_metrics or config.metric_success_conditions)
    return has_any and test.metric_collection_config.write_to_bigquery


def runs_of(test: TestDefinition, limit: int) -> int:
    """How many of the newest runs of a test are needed to find its silent conditions."""
    # some jobs may have failed
    return min(MAX_RUNS, runs_to_read(test.regression_test_config, limit) + 30)


def is_in_quarantine(test: TestDefinition, warehouse: Warehouse | None, now: datetime) -> bool:
    by_hand = warehouse.quarantines.newest().get(test.name) if warehouse else None
    return any(one is not None and one.holds(now) for one in (test.quarantine, by_hand))


def hold_silence(test: TestDefinition, run: Run, warehouse: Warehouse, mail: MailSettings, now: datetime) -> None:
    """Add silent conditions to the next digest, each once a month."""
    limit = mail.silent_runs
    if not limit or not is_read(test) or is_in_quarantine(test, warehouse, now):
        return
    needs = HistoryNeeds(tests=(test.name,), window=0, recent=runs_of(test, limit), earliest=None)
    silent = silent_in(test, warehouse.metrics.history(needs), limit)
    if not silent:
        return
    # a condition that stays silent is repeated after a month; the heartbeat lists it every week
    known = [one.message for one in warehouse.messages.since(now - timedelta(days=30), test.name, 10_000)]
    for one in silent:
        key = f"silent-{short_hash(f'{test.name} {one.metric}')}"
        if any(message.startswith(key) for message in known):
            continue
        row = StoredMessage(
            message=f"{key}-{run.key}",
            run_key=run.key,
            test=test.name,
            owner=test.owner,
            occasion="silent",
            content_hash=key,
            timestamp=now,
            recipients=mail.recipients_of(test.emails),
            subject=one_line(f"{SUBJECT_PREFIX}{test.name}: {one.metric} has not been judged for {one.runs} runs"),
            reasons=(one.sentence,),
            state=MessageState.HELD,
            held_because=A_SILENCE,
        )
        warehouse.messages.add(row)
