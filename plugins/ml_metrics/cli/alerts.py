"""`ml-metrics alerts`: which tests are not well, and what people were told."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.cli.output import print_json
from ml_metrics.cli.table import moment, plain, table
from ml_metrics.reports import named

if TYPE_CHECKING:
    import argparse

    from ml_metrics.warehouse import Delivery, Incident

ABOUT = """\
Show the tests that people were told about and that are not well again, who knows of them, and what became of the
messages of the last days on each channel. Times are UTC.

A message that a channel did not take is `kept` in the outbox; one that waits for the next digest is `held`.
"""


A_CENTURY = 36_500.0
"""Days."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `alerts`."""
    parser.epilog = "examples:\n  ml-metrics alerts\n  ml-metrics alerts tf-mnist-example-cpu --days 30 --json"
    parser.add_argument("test", metavar="TEST", nargs="?", default="", help="default: every test")
    parser.add_argument("--days", type=_days, default=7.0, metavar="N", help="how far back to look; default: 7")
    add_warehouse(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Print what is open, what is not delivered, and what was."""
    now = datetime.now(UTC)
    with open_chosen(arguments) as warehouse:
        is_meant = (lambda test: test == arguments.test) if arguments.test else bool
        found = [alert for alert in warehouse.incidents.all_open().values() if is_meant(alert.test)]
        deliveries = warehouse.deliveries.since(now - timedelta(days=arguments.days), arguments.test)
        waiting = [one for one in warehouse.deliveries.waiting(now - timedelta(days=30)) if is_meant(one.test)]
    if arguments.json:
        print_json(
            {
                "open": [asdict(alert) for alert in found],
                "waiting": [asdict(one) for one in waiting],
                "messages": [asdict(one) for one in deliveries],
            }
        )
        return 0
    print(_open(found))
    if waiting:
        print("\nNobody has been told of these yet:")
        print(table(("what", "when", "state", "channel"), [_waiting(one) for one in waiting]))
        for one in waiting:
            print(f"  {plain(one.test)}: {plain(one.detail)}")
    if deliveries:
        print("\nMessages, newest first:")
        print(table(("test", "when", "occasion", "state", "channel"), [_message(one) for one in deliveries]))
    return 0


def _days(text: str) -> float:
    days = float(text)
    if not 0 < days <= A_CENTURY:
        raise ValueError(text)
    return days


def _open(found: list[Incident]) -> str:
    if not found:
        return "No alert is open."
    rows = [(one.test, moment(one.opened_at), one.acknowledged_by or "nobody") for one in found]
    reasons = [f"  {plain(one.test)}: {plain(', '.join(map(named, one.reasons)))}" for one in found]
    return "\n".join([table(("not well", "since", "known by"), rows), *reasons])


def _waiting(one: Delivery) -> tuple[str, ...]:
    return (one.test, moment(one.timestamp), one.state, one.channel)


def _message(one: Delivery) -> tuple[str, ...]:
    return (one.test or "several tests", moment(one.timestamp), one.occasion, one.state, one.channel)
