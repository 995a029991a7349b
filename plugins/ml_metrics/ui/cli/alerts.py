"""Show the tests with an open alert, who acknowledged it, and the messages of the last few days. Times are UTC.

A message is `pending` or `sent`; `held` for the next digest, or `summarised` in one; or `dead` if it could not be sent
within five days. `ml-metrics messages` shows each channel, and sends what is pending.

examples:
  ml-metrics alerts
  ml-metrics alerts tf-mnist-example-cpu --days 30 --json
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.alerts import short_name
from ml_metrics.core.text import printable
from ml_metrics.measure.efficiency import short_cost
from ml_metrics.ui.cli.arguments import days, text
from ml_metrics.ui.cli.chosen_warehouse import NothingRecordedError, add_warehouse, open_chosen, require_test
from ml_metrics.ui.cli.messages import as_document
from ml_metrics.ui.cli.output import minute, print_json, table
from ml_metrics.warehouse import DEFINITION

if TYPE_CHECKING:
    import argparse

    from ml_metrics.warehouse import Incident, StoredMessage


WAITING_DAYS = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `alerts`."""
    parser.add_argument("test", type=text, metavar="TEST", nargs="?", help="default: every test")
    parser.add_argument("--days", type=days, default=7.0, metavar="N", help="how far back to look; default: 7")
    add_warehouse(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the open alerts, the messages that wait, and the newest messages."""
    try:
        found, waiting, messages = _read(arguments)
    except NothingRecordedError as error:
        if arguments.test:
            raise
        if not arguments.json:
            print(printable(f"warehouse: {error}"), file=sys.stderr)
        found, waiting, messages = [], [], []
    if arguments.json:
        documents = {"waiting": list(map(as_document, waiting)), "messages": list(map(as_document, messages))}
        print_json({"open": [alert.document() for alert in found], **documents})
        return 0
    print(_open(found))
    if waiting:
        print("\nNot sent yet:")
        rows = [(one.test or "several tests", minute(one.timestamp), one.occasion, one.state) for one in waiting]
        print(table(("test", "when", "occasion", "state"), rows))
        for one in waiting:
            for reason in _why(one):
                print(f"  {printable(one.test or 'several tests')}: {printable(reason)}")
    if messages:
        print("\nMessages, newest first:")
        shown = [
            (
                one.test or "several tests",
                minute(one.timestamp),
                one.occasion,
                one.state,
                ", ".join(sorted(one.channels)),
            )
            for one in messages
        ]
        print(table(("test", "when", "occasion", "state", "channels"), shown))
    return 0


def _why(one: StoredMessage) -> list[str]:
    """Return why a message is not sent yet."""
    failed = [f"{name}: {result.detail}" for name, result in one.channels.items() if not result.is_delivered]
    return [one.held_because, *failed] if one.held_because else failed


def _read(arguments: argparse.Namespace) -> tuple[list[Incident], list[StoredMessage], list[StoredMessage]]:
    now, test = datetime.now(UTC), arguments.test
    with open_chosen(arguments) as warehouse:
        named = [
            replace(alert, test=alert.test.removeprefix(DEFINITION))
            for alert in warehouse.incidents.all_open().values()
        ]
        found = [alert for alert in named if test in {None, alert.test}]
        messages = warehouse.messages.since(now - timedelta(days=arguments.days), test or "")
        waiting = [
            one for one in warehouse.messages.waiting(now - timedelta(days=WAITING_DAYS)) if test in {None, one.test}
        ]
        if test and not (found or messages or waiting):
            require_test(warehouse, test)
    return found, waiting, messages


def _open(found: list[Incident]) -> str:
    if not found:
        return "No alert is open."
    rows = [
        (one.test, minute(one.opened_at), short_cost(one.cost) if one.cost else "-", one.acknowledged_by or "-")
        for one in found
    ]
    reasons = [
        f"  {printable(one.test)}: {printable(', '.join(map(short_name, one.reasons)))}"
        f"{f'; assigned to {printable(one.assigned_to)}' if one.assigned_to else ''}"
        for one in found
    ]
    causes: dict[str, list[str]] = {}
    for one in found:
        if one.cause:
            causes.setdefault(one.cause, []).append(one.test)
    shared = [f"  {printable(cause)}: {printable(', '.join(tests))}" for cause, tests in causes.items()]
    title = ["\nCauses:"] if shared else []
    return "\n".join(
        [table(("open alert", "since", "cost a week", "acknowledged by"), rows, right=(2,)), *reasons, *title, *shared]
    )
