"""Show the tests with an open alert, who acknowledged it, and the deliveries of the last days' messages on each
channel. Times are UTC.

A message is `delivered`; `kept` in the outbox, because its channel did not take it; or `held` for the next digest.

examples:
  ml-metrics alerts
  ml-metrics alerts tf-mnist-example-cpu --days 30 --json
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.cli.arguments import days, text
from ml_metrics.cli.chosen_warehouse import NothingRecordedError, add_warehouse, open_chosen, require_test
from ml_metrics.cli.output import minute, print_json, printable, table
from ml_metrics.reports import short_name

if TYPE_CHECKING:
    import argparse

    from ml_metrics.warehouse import Delivery, Incident

WAITING_DAYS = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `alerts`."""
    parser.add_argument("test", type=text, metavar="TEST", nargs="?", help="default: every test")
    parser.add_argument("--days", type=days, default=7.0, metavar="N", help="how far back to look; default: 7")
    add_warehouse(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the open alerts, the messages that wait, and the deliveries."""
    try:
        found, waiting, deliveries = _read(arguments)
    except NothingRecordedError as error:
        if arguments.test:
            raise
        if not arguments.json:
            print(f"warehouse: {error}", file=sys.stderr)
        found, waiting, deliveries = [], [], []
    if arguments.json:
        documents = {"waiting": list(map(asdict, waiting)), "messages": list(map(asdict, deliveries))}
        print_json({"open": [alert.document() for alert in found], **documents})
        return 0
    print(_open(found))
    if waiting:
        print("\nNot delivered yet:")
        rows = [(one.test, minute(one.timestamp), one.state, one.channel) for one in waiting]
        print(table(("test", "when", "state", "channel"), rows))
        for one in waiting:
            print(f"  {printable(one.test)}: {printable(one.detail)}")
    if deliveries:
        print("\nMessages, newest first:")
        sent = [
            (one.test or "several tests", minute(one.timestamp), one.occasion, one.state, one.channel)
            for one in deliveries
        ]
        print(table(("test", "when", "occasion", "state", "channel"), sent))
    return 0


def _read(arguments: argparse.Namespace) -> tuple[list[Incident], list[Delivery], list[Delivery]]:
    now, test = datetime.now(UTC), arguments.test
    with open_chosen(arguments) as warehouse:
        found = [alert for alert in warehouse.incidents.all_open().values() if test in {None, alert.test}]
        deliveries = warehouse.deliveries.since(now - timedelta(days=arguments.days), test or "")
        waiting = [
            one for one in warehouse.deliveries.waiting(now - timedelta(days=WAITING_DAYS)) if test in {None, one.test}
        ]
        if test and not (found or deliveries or waiting):
            require_test(warehouse, test)
    return found, waiting, deliveries


def _open(found: list[Incident]) -> str:
    if not found:
        return "No alert is open."
    rows = [(one.test, minute(one.opened_at), one.acknowledged_by or "-") for one in found]
    reasons = [f"  {printable(one.test)}: {printable(', '.join(map(short_name, one.reasons)))}" for one in found]
    return "\n".join([table(("open alert", "since", "acknowledged by"), rows), *reasons])
