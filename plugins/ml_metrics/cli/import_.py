"""`ml-metrics import`: an older system's history, once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ml_metrics.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.cli.output import print_json

if TYPE_CHECKING:
    import argparse

ABOUT = """\
Import the history of a dataset whose tables have the columns job_name, metric_key and metric_value. Every run keeps
its own key, so importing twice doubles nothing. Runs of that system have no bounds and no verdicts.

A dataset with the columns test_name and metric_name needs no import: use it as the warehouse, it is extended in place.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `import`."""
    parser.epilog = "example:\n  ml-metrics import bigquery://my-project/xlml_dataset"
    parser.add_argument("source", metavar="SOURCE", help="the address of the older tables")
    add_warehouse(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Copy the runs, some hundred at a time."""
    from ml_metrics.warehouse.older import older_runs

    runs = metrics = 0
    with open_chosen(arguments) as warehouse:
        for records in older_runs(arguments.source):
            warehouse.load_all(records)
            runs += len(records)
            metrics += sum(len(record.metrics) for record in records)
            if sys.stderr.isatty():
                print(f"\r{runs} runs", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if arguments.json:
        print_json({"runs": runs, "metrics": metrics})
    else:
        print(f"{runs} runs with {metrics} metrics are in the warehouse.")
    return 0
