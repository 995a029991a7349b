"""`ml-metrics ack`: a person says that they know of a test that is not well."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from ml_metrics.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.cli.output import print_json
from ml_metrics.cli.person import who
from ml_metrics.cli.table import plain
from ml_metrics.reports import named

if TYPE_CHECKING:
    import argparse

ABOUT = """\
Say that you know of a test that is not well. Until it is well again, whatever else breaks in it is told in the next
digest instead of at once; that it is well again is told as always.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `ack`."""
    parser.epilog = 'examples:\n  ml-metrics ack tf-mnist-example-cpu --note "the new image, mended by Friday"'
    parser.add_argument("test", metavar="TEST")
    parser.add_argument("--note", default="", metavar="TEXT", help="what you know; people will read it")
    parser.add_argument("--by", metavar="NAME", help="default: the name you are logged in with")
    add_warehouse(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Remember it, or say that there is nothing to know."""
    with open_chosen(arguments) as warehouse:
        is_new = warehouse.incidents.acknowledge(arguments.test, by=arguments.by or who(), note=arguments.note)
        alert = warehouse.incidents.find_open(arguments.test)
    if alert is None:
        print(f"no alert of {plain(arguments.test)} is open; `ml-metrics alerts` lists those that are", file=sys.stderr)
        return 1
    if arguments.json:
        print_json({"alert": asdict(alert), "new": is_new})
    else:
        done = "Known by" if is_new else "Already known by"
        reasons = ", ".join(map(named, alert.reasons))
        print(f"{done} {plain(alert.acknowledged_by or '')}: {plain(alert.test)}: {plain(reasons)}")
    return 0
