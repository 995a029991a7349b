"""Messages that a channel accepts long after they were decided: they state when that was, and what happened since.

After an outage, those of more than a day are not sent one by one: they wait for the next digest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import MessageKind, Reason
from ml_metrics.alerts.routing import FOR_RECIPIENTS, is_per_test
from ml_metrics.errors import MlMetricsError
from ml_metrics.log_lines import logger_of
from ml_metrics.notify.retry import DAY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from ml_metrics.alerts.channels.channel import Channel
    from ml_metrics.alerts.message import Message
    from ml_metrics.warehouse import StoredMessage, Warehouse

log = logger_of(__name__)

LATE = timedelta(hours=1)
"""A younger message is sent as it was decided."""
FEWEST = 3
"""Fewer messages of more than a day to the same recipients are sent one by one."""
HELD_BECAUSE = "no channel for its recipients accepted it for a day"
FAILURES = {MessageKind.BROKEN, MessageKind.WORSE, MessageKind.OVERDUE}
TOP = "<main>\n"


def dated(message: Message, row: StoredMessage, warehouse: Warehouse, now: datetime) -> Message:
    """Return a message that states when it was decided and what became of its test, if it is late."""
    if now - row.timestamp < LATE or message.kind is MessageKind.RESULT:
        return message
    try:
        since = _since_then(message.kind, row, warehouse)
    except MlMetricsError as error:
        log.warning("%s: whether its test has recovered is unknown: %s", row.subject, error)
        since = ""
    note = " ".join(filter(None, (f"This message is late: it is of {_minute(row.timestamp)}.", since)))
    html = message.html.replace(TOP, f'{TOP}<p class="first">{escape(note)}</p>\n', 1)
    return replace(
        message,
        subject=f"{message.subject} (of {_minute(row.timestamp)})",
        text=f"{note}\n\n{message.text}",
        html=html,
        warnings=(*message.warnings, Reason("late", note)),
    )


def for_digest(rows: Iterable[StoredMessage], now: datetime) -> set[str]:
    """Return the messages about tests that should rather be in a digest, once a channel for their recipients works."""
    rows = [one for one in rows if one.test and not one.held_because and one.occasion not in FOR_RECIPIENTS]
    old = [one for one in rows if now - one.timestamp >= DAY]
    many, tests = Counter(one.recipients for one in old), {one.test for one in old}
    # what happened to such a test later is not told before
    late = [one for one in rows if one.test in tests and now - one.timestamp >= LATE]
    return {one.message for one in late if many[one.recipients] >= FEWEST}


def for_recipients(channels: Collection[Channel]) -> set[str]:
    """Return the names of the channels that a digest goes to, but for files in the outbox."""
    return {one.name for one in channels if not is_per_test(one)} - {"outbox"}


def _since_then(kind: MessageKind, row: StoredMessage, warehouse: Warehouse) -> str:
    if not row.test or kind not in {*FAILURES, MessageKind.RECOVERED}:
        return ""
    found = warehouse.incidents.find_open(row.test)
    if kind is MessageKind.RECOVERED:
        later = found.opened_at if found is not None and found.opened_at > row.timestamp else None
        return f"The test has failed again since {_minute(later)}." if later else ""
    if found is not None and (found.opened_by == row.message or row.run_key in found.run_keys):
        return "The test still fails."
    ends = [one.closed_at for one in warehouse.incidents.closed_since(row.timestamp) if one.test == row.test]
    recovered = f"The test has recovered since, on {_minute(ends[-1])}" if ends else ""
    again = f", and has failed again since {_minute(found.opened_at)}" if recovered and found is not None else ""
    return f"{recovered}{again}." if recovered else ""


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
