"""`ml-metrics accept`: a person declares a metric's new level to be meant."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from ml_metrics.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.cli.output import print_json
from ml_metrics.cli.person import who
from ml_metrics.cli.table import moment, number, plain

if TYPE_CHECKING:
    import argparse

    from ml_metrics.warehouse import MetricValue, Warehouse

ABOUT = """\
Accept the level that a metric of a test has now. Its baseline starts anew from that run, so that the next runs are
compared with the new level and no longer with the old one. Who did so, when and why is kept.
"""
RUNS_LOOKED_AT = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `accept`."""
    parser.epilog = (
        "examples:\n"
        '  ml-metrics accept tf-mnist-example-cpu total_wall_time --reason "larger data set"\n'
        '  ml-metrics accept tf-mnist-example-cpu total_wall_time --run 3f0c2a1b --reason "new image"'
    )
    parser.add_argument("test", metavar="TEST")
    parser.add_argument("metric", metavar="METRIC")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why; people will read it")
    parser.add_argument("--run", metavar="KEY", help="the first run of the new level; default: the newest run")
    parser.add_argument("--by", metavar="NAME", help="default: the name you are logged in with")
    add_warehouse(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Write the acceptance, or say why not."""
    with open_chosen(arguments) as warehouse:
        value = _run_of(warehouse, arguments)
        if value is None:
            return 1
        is_new = warehouse.acceptances.add(
            value.run_key, arguments.metric, reason=arguments.reason, by=arguments.by or who()
        )
        accepted = next(
            each
            for each in warehouse.acceptances.of_test(arguments.test)
            if (each.metric, each.run_key) == (arguments.metric, value.run_key)
        )
    if arguments.json:
        print_json({"accepted": asdict(accepted), "new": is_new})
    else:
        done = "Accepted" if is_new else f"Already accepted by {plain(accepted.accepted_by)}"
        what = f"{plain(arguments.metric)} = {number(value.value)}"
        print(f"{done}: {what}, run {value.run_key[:8]} of {moment(value.timestamp)}.")
    return 0


def _run_of(warehouse: Warehouse, arguments: argparse.Namespace) -> MetricValue | None:
    """The run that the new level begins with; None, and a reason on standard error, if there is no such run."""
    values = [
        value
        for value in warehouse.metrics.values(arguments.test, arguments.metric, RUNS_LOOKED_AT)
        if value.value is not None
    ]
    if not values:
        reason = f"test {plain(arguments.test)} has no value of a metric {plain(arguments.metric)}"
        print(f"{reason}; `ml-metrics history {plain(arguments.test)}` lists its metrics.", file=sys.stderr)
        return None
    named = [value for value in values if value.run_key.startswith(arguments.run)] if arguments.run else values[:1]
    if len(named) != 1:
        known = f"{len(named)} runs begin with" if named else "no run of this metric begins with"
        print(f"{known} {plain(arguments.run)}; `ml-metrics history` lists them.", file=sys.stderr)
        return None
    return named[0]
