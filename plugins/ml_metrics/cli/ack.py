"""Acknowledge the open alert of a test. Until the test recovers, its further failures are reported in the next digest
instead of at once. The recovery is reported as always. A test that vanished or was renamed is then forgotten.

examples:
  ml-metrics ack tf-mnist-example-cpu --note "a bad image, fixed by Friday"
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.cli.arguments import add_by, text
from ml_metrics.cli.chosen_warehouse import add_warehouse, open_chosen, require_test
from ml_metrics.cli.output import print_json
from ml_metrics.reports import short_name
from ml_metrics.values import printable
from ml_metrics.warehouse.known_tests import DEFINITION

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `ack`."""
    parser.add_argument("test", type=text, metavar="TEST", help="the name of the test")
    parser.add_argument("--note", default="", metavar="TEXT", help="a note for those who look later")
    add_by(parser)
    add_warehouse(parser)


def run(arguments: argparse.Namespace) -> int:
    """Store the acknowledgement; exit code 1 if no alert is open."""
    is_new = False
    with open_chosen(arguments) as warehouse:
        # the incident about its runs, and the one about its file, DAG or schedule
        for name in (arguments.test, f"{DEFINITION}{arguments.test}"):
            is_new |= warehouse.incidents.acknowledge(name, by=arguments.by, note=arguments.note)
        found = [
            replace(alert, test=arguments.test)
            for name in (arguments.test, f"{DEFINITION}{arguments.test}")
            if (alert := warehouse.incidents.find_open(name)) is not None
        ]
        if not found:
            require_test(warehouse, arguments.test)
    alert = found[0] if found else None
    if arguments.json:
        print_json({"alert": None if alert is None else alert.document(), "new": is_new})
    elif alert is None:
        test = printable(arguments.test)
        print(f"{printable(test)} has no open alert; `ml-metrics alerts` lists the open ones", file=sys.stderr)
    else:
        done = "Acknowledged" if is_new else "Already acknowledged"
        reasons = ", ".join(short_name(reason) for one in found for reason in one.reasons)
        by = printable(alert.acknowledged_by or "")
        print(f"{done} by {by}: {printable(alert.test)}: {printable(reasons)}")
    return 0 if alert else 1
