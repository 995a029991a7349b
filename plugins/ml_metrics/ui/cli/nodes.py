"""Show which nodes are slow: by how much runs take longer there than on other nodes, and how certain that is. Tests
need to run on several nodes in turn (docs/goodput.md).

examples:
  ml-metrics nodes
  ml-metrics nodes --days 30 --metric step_time_p90
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from ml_metrics.alerts import NODE_METRICS, NodesFound, nodes_found
from ml_metrics.core.text import counted
from ml_metrics.ui.cli.arguments import Arguments, Parser, add_value, whole_number
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.ui.cli.output import give, table, warn


def add_arguments(parser: Parser) -> None:
    add_value(parser, "--days", "N", "default: %(default)s", whole_number(1, 3650), default=60)
    add_value(parser, "--metric", "NAME", "default: the step time, or the wall time without steps")
    add_warehouse(parser)


def run(arguments: Arguments) -> int:
    until = datetime.now(UTC) + timedelta(days=1)
    metrics = NODE_METRICS if arguments.metric is None else (arguments.metric,)
    with open_chosen(arguments) as warehouse:
        tests = [one.newest.test for one in warehouse.runs.tests()]
        found = nodes_found(warehouse, tests, until - timedelta(days=arguments.days + 1), until, metrics=metrics)
    if found.cut and not arguments.json:
        warn("there are more values than are compared; choose fewer days to see all tests")
    give(arguments, found.document(), _lines(found))
    return 0


def _lines(found: NodesFound) -> Iterator[str]:
    if found.effects:
        rows = [
            [
                one.name,
                "slow" if one.slow else "",
                f"{one.percent:+.2f} %",
                f"{one.low:+.2f} to {one.high:+.2f} %" if one.known else "unknown: too few visits",
                str(one.runs),
                str(len(one.tests)),
            ]
            for one in found.effects
        ]
        yield table(["node", "", "effect", "interval", "runs", "tests"], rows, right=(2, 3, 4, 5))
    slow = sum(one.slow for one in found.effects)
    without = f"; {counted(found.unknown, 'run')} without a recorded node" if found.unknown else ""
    yield f"{slow} of {counted(len(found.effects), 'node')} slow, from {counted(found.runs, 'run')}{without}"
