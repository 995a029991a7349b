"""Show the tests with an open alert, who acknowledged it, and the newest messages. Times are UTC.

A message is `pending` or `sent`; `held` for the next digest, or `summarised` in one; or `dead` if it could not be sent
within five days.

examples:
  ml-metrics alerts
  ml-metrics alerts tf-mnist-example-cpu --days 30 --json
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ml_metrics.alerts import short_name
from ml_metrics.core.text import printable
from ml_metrics.core.values import short_digests
from ml_metrics.measure.efficiency import short_cost
from ml_metrics.ui.cli.arguments import Arguments, Parser, add_value, days
from ml_metrics.ui.cli.chosen_warehouse import NothingRecordedError, add_warehouse, open_chosen, require_test
from ml_metrics.ui.cli.messages import as_document
from ml_metrics.ui.cli.output import give, minute, table
from ml_metrics.warehouse import DEFINITION, Incident, StoredMessage

HEAD = ("test", "when", "occasion", "state")


def add_arguments(parser: Parser) -> None:
    add_value(parser, "test", "TEST", "default: every test", nargs="?")
    add_value(parser, "--days", "N", "how far back; default: 7", days, default=7.0)
    add_warehouse(parser)


def run(arguments: Arguments) -> int:
    try:
        found, waiting, messages = _read(arguments)
    except NothingRecordedError as error:
        if arguments.test:
            raise
        if not arguments.json:
            print(printable(f"warehouse: {error}"), file=sys.stderr)
        found, waiting, messages = [], [], []
    documents = {"waiting": list(map(as_document, waiting)), "messages": list(map(as_document, messages))}
    lines = [*_open(found), *_waiting(waiting)]
    if messages:
        lines += ["\nMessages, newest first:"]
        rows = [(*_row(one), ", ".join(sorted(one.channels))) for one in messages]
        lines += [table((*HEAD, "channels"), rows)]
    give(arguments, {"open": [alert.document() for alert in found], **documents}, lines)
    return 0


def _row(one: StoredMessage) -> tuple[str, ...]:
    return one.test or "several tests", minute(one.timestamp), one.occasion, one.state


def _waiting(messages: list[StoredMessage]) -> Iterator[str]:
    if messages:
        yield "\nNot sent yet:"
        yield table(HEAD, list(map(_row, messages)))
    for one in messages:
        failed = [f"{name}: {result.detail}" for name, result in one.channels.items() if not result.is_delivered]
        for reason in filter(None, (one.held_because, *failed)):
            yield f"  {printable(one.test or 'several tests')}: {printable(reason)}"


def _read(arguments: Arguments) -> tuple[list[Incident], list[StoredMessage], list[StoredMessage]]:
    now, test = datetime.now(UTC), arguments.test
    with open_chosen(arguments) as warehouse:
        named = [
            replace(alert, test=alert.test.removeprefix(DEFINITION))
            for alert in warehouse.incidents.all_open().values()
        ]
        found = [alert for alert in named if test in {None, alert.test}]
        messages = warehouse.messages.since(now - timedelta(days=arguments.days), test or "")
        waiting = [one for one in warehouse.messages.waiting(now - timedelta(days=30)) if test in {None, one.test}]
        if test and not (found or messages or waiting):
            require_test(warehouse, test)
    return found, waiting, messages


def _open(found: list[Incident]) -> Iterator[str]:
    if not found:
        yield "No alert is open."
        return
    rows = [
        (one.test, minute(one.opened_at), short_cost(one.cost) if one.cost else "-", one.acknowledged_by or "-")
        for one in found
    ]
    yield table(("open alert", "since", "cost a week", "acknowledged by"), rows, right=(2,))
    causes: dict[str, list[str]] = defaultdict(list)
    for one in found:
        person = f"; assigned to {one.assigned_to}" if one.assigned_to else ""
        yield printable(f"  {one.test}: {', '.join(map(short_name, one.reasons))}{person}")
        if one.cause:
            causes[one.cause].append(one.test)
    if causes:
        yield "\nCauses:"
    for cause, tests in causes.items():
        yield printable(f"  {short_digests(cause)}: {', '.join(tests)}")
