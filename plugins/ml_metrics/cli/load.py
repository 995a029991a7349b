"""`ml-metrics load`: write run folders into the warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics import steps
from ml_metrics.run_folder import RunFolder
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    import argparse

ABOUT = """\
Load run folders into the warehouse, as the task `load_history` does: one row for the run, one for each metric.

What the folder's documents say is loaded; a run that is there already is replaced, never doubled.
`ml-metrics backfill` measures and judges again first.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which folders, and where to."""
    parser.add_argument("run_dir", nargs="+", metavar="RUN_DIR", help="a run folder, local or gs://")
    parser.add_argument("--warehouse", metavar="ADDRESS", help="default: the SQLite file of the settings")
    parser.epilog = "example:\n  ml-metrics load .airflow/ml_metrics/runs/tf-mnist-example-cpu/*"


def run(arguments: argparse.Namespace) -> int:
    """Load each, telling what became of it."""
    from ml_metrics.warehouse import open_warehouse

    with open_warehouse(arguments.warehouse or f"sqlite:///{Settings.load().warehouse_file}") as warehouse:
        for place in arguments.run_dir:
            folder = RunFolder(place)
            the_run, test = steps.identity(folder)
            record = steps.load(test, the_run, folder, warehouse)
            print(f"{the_run.test} {the_run.key}: {record.job.job_status}, {len(record.metrics)} metrics")
    return 0
