"""`ml-metrics load`: write run folders into the warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics import steps
from ml_metrics.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.cli.output import warn
from ml_metrics.errors import UnreadableInputError
from ml_metrics.run_folder import RunFolder
from ml_metrics.run_state import RunState

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
    add_warehouse(parser)
    parser.epilog = "example:\n  ml-metrics load .airflow/ml_metrics/runs/tf-mnist-example-cpu/*"


def run(arguments: argparse.Namespace) -> int:
    """Load each, telling what became of it; one that cannot be read is told, and stops no other."""
    unreadable = 0
    with open_chosen(arguments) as warehouse:
        for place in arguments.run_dir:
            state = RunState(RunFolder(place))
            try:
                the_run, test = state.identity
                if not test.metric_collection_config.write_to_bigquery:
                    print(f"{the_run.test} {the_run.key}: skipped: its test file says `write_to_bigquery: false`")
                    continue
                record = steps.load(test, the_run, state, warehouse)
            except UnreadableInputError as error:
                unreadable += 1
                warn(str(error))
                continue
            print(f"{the_run.test} {the_run.key}: {record.job.job_status}, {len(record.metrics)} metrics")
    return 2 if unreadable else 0
