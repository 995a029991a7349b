"""`ml-metrics load`: write run folders into the warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics import steps
from ml_metrics.cli.arguments import add_json, text
from ml_metrics.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.cli.output import counted, print_json, warn
from ml_metrics.errors import UnreadableInputError
from ml_metrics.run_folder import RunFolder
from ml_metrics.run_state import RunState

if TYPE_CHECKING:
    import argparse

    from ml_metrics.warehouse import Warehouse

ABOUT = """\
Load run folders into the warehouse, as the task `load_history` does: one row for each run, one for each metric.

The documents in the folder are loaded as they are; a run that the warehouse has already is replaced, never doubled.
`ml-metrics backfill` measures and judges again first. Exit code 2: a folder could not be read; the others are loaded.
"""
EXAMPLES = """\
  ml-metrics load .airflow/ml_metrics/runs/tf-mnist-example-cpu/*
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `load`."""
    parser.add_argument("run_dir", type=text, nargs="+", metavar="RUN_DIR", help="a run folder: a path or gs://...")
    add_warehouse(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Load each folder. One that cannot be read is reported and does not stop the others."""
    runs: list[dict[str, Any]] = []
    unreadable: list[str] = []
    states = [state for path in arguments.run_dir if (state := _opened(path, unreadable))]
    if states:  # a mistyped folder must not create a warehouse
        with open_chosen(arguments, create=True) as warehouse:
            for state in states:
                try:
                    runs.append(_load(state, warehouse))
                except UnreadableInputError as error:
                    _skip(error, unreadable)
                    continue
                if not arguments.json:
                    print(_line(runs[-1]))
    if arguments.json:
        print_json({"runs": runs, "unreadable": unreadable})
    return 2 if unreadable else 0


def _opened(path: str, unreadable: list[str]) -> RunState | None:
    """Return the state of a run folder, or None if it is none."""
    state = RunState(RunFolder(path))
    try:
        _ = state.identity
    except UnreadableInputError as error:
        _skip(error, unreadable)
        return None
    return state


def _skip(error: UnreadableInputError, unreadable: list[str]) -> None:
    unreadable.append(str(error))
    warn(str(error))


def _load(state: RunState, warehouse: Warehouse) -> dict[str, Any]:
    run, test = state.identity
    document = {"test": run.test, "uuid": run.key, "loaded": test.metric_collection_config.write_to_bigquery}
    if document["loaded"]:
        record = steps.load(test, run, state, warehouse)
        document |= {"job_status": record.job.job_status, "metrics": len(record.metrics)}
    return document


def _line(loaded: dict[str, Any]) -> str:
    if not loaded["loaded"]:
        return f"{loaded['test']} {loaded['uuid']}: skipped, because its test file has `write_to_bigquery: false`"
    return f"{loaded['test']} {loaded['uuid']}: {loaded['job_status']}, {counted(loaded['metrics'], 'metric')}"
