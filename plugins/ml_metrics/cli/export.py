"""Print recorded runs of a test in a format that other programs read. Trials are left out.

  openmetrics  the newest run, for Prometheus: one gauge for each metric
  hud          PyTorch HUD's benchmark records, which `import` reads again
  otava        a table for Apache Otava: a row for each run, oldest first
  junit        the verdicts of the newest run, for a CI system
  mllog        the newest run as MLPerf's MLLOG lines: start, metrics, end
  csv          a row for each value, oldest first
  parquet      the same with bounds, rules and what the run was

Prometheus can also scrape the newest run of every test from the dashboard: docs/exporters.md.

examples:
  ml-metrics export tf-mnist-example-cpu --format csv > history.csv
  ml-metrics export tf-mnist-example-cpu --format junit > verdicts.xml
  ml-metrics export tf-mnist-example-cpu --format parquet > history.parquet
  ml-metrics export tf-mnist-example-cpu --format hud --limit 50 > hud.json
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from ml_metrics.cli.arguments import UsageError, text, whole_number
from ml_metrics.cli.chosen_warehouse import add_warehouse, open_chosen, require_test
from ml_metrics.cli.export_formats import BINARY, TEXTS, ExportedRun

if TYPE_CHECKING:
    import argparse

    from ml_metrics.warehouse import JobRow, Warehouse
    from ml_metrics.warehouse.record import Place

MAX_LIMIT = 10_000
DEFAULT_LIMIT = 100
OF_NEWEST = ("openmetrics", "junit", "mllog")
"""The formats that hold one run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `export`."""
    parser.add_argument("test", type=text, metavar="TEST", help="the name of the test")
    parser.add_argument("--format", choices=(*TEXTS, *BINARY), required=True, help="what to write")
    parser.add_argument(
        "--limit",
        type=whole_number(1, MAX_LIMIT),
        metavar="N",
        help=f"how many runs, the newest ones; default: {DEFAULT_LIMIT}, with {', '.join(OF_NEWEST)} always 1",
    )
    add_warehouse(parser, json=False)
    parser.add_argument("--json", action="store_true", help="print the text within one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Print the runs."""
    binary = BINARY.get(arguments.format)
    if binary is not None and (arguments.json or sys.stdout.isatty()):
        raise UsageError(f"{arguments.format} is no text: without --json, write it to a file: `> FILE`")
    limit = 1 if arguments.format in OF_NEWEST else arguments.limit or DEFAULT_LIMIT
    with open_chosen(arguments) as warehouse:
        runs = _runs(warehouse, arguments.test, limit)
    if binary is not None:
        sys.stdout.buffer.write(binary(runs))
        return 0
    content = TEXTS[arguments.format](runs)
    if arguments.json:
        content = json.dumps({"test": arguments.test, "format": arguments.format, "content": content}, indent=2) + "\n"
    sys.stdout.write(content)
    return 0


def _runs(warehouse: Warehouse, test: str, limit: int) -> list[ExportedRun]:
    """Return the newest runs with their whole rows, oldest first."""
    newest = warehouse.runs.newest(test, limit)
    if not newest:
        require_test(warehouse, test)
    return [
        ExportedRun(one, tuple(row for row in warehouse.metrics.of_run(_place(one)) if row.metric))
        for one in reversed(newest)
    ]


def _place(one: JobRow) -> Place:
    from ml_metrics.warehouse.record import Place

    return Place(one.uuid, one.test_name, one.timestamp)
