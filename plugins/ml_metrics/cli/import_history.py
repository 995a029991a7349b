"""Import the history of a dataset whose tables have the columns job_name, metric_key and metric_value. Every run keeps
its key, so a second import doubles nothing. Runs of that system have no bounds and no verdicts.

A dataset with the columns test_name and metric_name needs no import: use it as the warehouse, where missing columns are
added.

examples:
  ml-metrics import bigquery://my-project/xlml_dataset
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ml_metrics.cli.arguments import text
from ml_metrics.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.cli.output import counted, print_json

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `import`."""
    parser.add_argument("source", type=text, metavar="SOURCE", help="the address of the older tables")
    add_warehouse(parser)


def run(arguments: argparse.Namespace) -> int:
    """Copy the runs, page by page."""
    from ml_metrics.warehouse.older import older_runs

    runs = metrics = 0
    pages = older_runs(arguments.source)
    page = next(pages, None)  # a source that cannot be read must not leave an empty warehouse behind
    with open_chosen(arguments, create=True) as warehouse:
        while page is not None:
            warehouse.load_all(page)
            runs += len(page)
            metrics += sum(len(record.metrics) for record in page)
            if sys.stderr.isatty():
                print(f"\r{runs} runs", end="", file=sys.stderr)
            page = next(pages, None)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if arguments.json:
        print_json({"runs": runs, "metrics": metrics})
    else:
        print(f"{counted(runs, 'run')} with {counted(metrics, 'metric')} imported.")
    return 0
