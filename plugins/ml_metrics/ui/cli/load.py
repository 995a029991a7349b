"""Load run folders into the warehouse as they are; `ml-metrics backfill` measures and judges again first. A run that
the warehouse has already is replaced. It belongs to the deployment that its folder names.

Exit code 2: a folder could not be read; the others are loaded.

examples:
  ml-metrics load .airflow/ml_metrics/runs/tf-mnist-example-cpu/*
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import counted
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.documents import NOT_OURS
from ml_metrics.store.run_folder import RunFolder, listing_limits
from ml_metrics.ui.cli.arguments import Arguments, Parser, add_flag, add_value
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.ui.cli.output import print_json, warn
from ml_metrics.warehouse import Warehouse


def add_arguments(parser: Parser) -> None:
    add_value(parser, "run_dir", "RUN_DIR", "a run folder: a path or gs://...", nargs="+")
    add_unsigned(parser)
    add_warehouse(parser)


def add_unsigned(parser: Parser) -> None:
    add_flag(
        parser,
        "--unsigned",
        "believe documents that this deployment did not sign; only for folders in which no workload of others could "
        "write",
    )


def run(arguments: Arguments) -> int:
    folders = [strict_folder(place, unsigned=arguments.unsigned) for place in arguments.run_dir]
    return process_each(arguments, folders, _load, _line)


def strict_folder(place: str, root: str = "", *, unsigned: bool = False) -> RunFolder:
    """Its documents are trusted or refused: an absent one would empty the rows of the run."""
    return RunFolder(place, root, listing_limits(Settings.load()), strict=True, believe_unsigned=unsigned)


def process_each(
    arguments: Arguments,
    folders: Iterable[RunFolder],
    process: Callable[[RunState, Warehouse], dict[str, Any]],
    line: Callable[[dict[str, Any]], str],
    **document: Any,
) -> int:
    """Print a line for each, or one document. An unreadable one does not stop the others."""
    runs: list[dict[str, Any]] = []
    unreadable: list[str] = []
    others: set[str] = set()
    with ExitStack() as stack:
        warehouse = None
        for state in map(RunState, folders):
            try:
                own = _deployment(state)
                # opened only now: a mistyped folder must not create a warehouse
                warehouse = warehouse or stack.enter_context(open_chosen(arguments, create=True))
                if own not in {warehouse.deployment, *others}:
                    warn(f"{state.folder.path}: is a run of deployment {own}, and is recorded as one")
                    others.add(own)
                runs.append(process(state, warehouse.in_deployment(own)))
            except UnreadableInputError as error:
                is_unsigned = NOT_OURS in str(error)
                advice = (
                    "; load an older folder, in which nobody else could write, with --unsigned" if is_unsigned else ""
                )
                unreadable.append(f"{error}{advice}")
                warn(unreadable[-1])
                continue
            if not arguments.json:
                print(line(runs[-1]))
    if arguments.json:
        print_json({**document, "runs": runs, "unreadable": unreadable})
    return 2 if unreadable else 0


def _deployment(state: RunState) -> str:
    """A run whose end nothing states is refused: its rows may know more."""
    if state.identity and state.recorded_workload is None:
        raise UnreadableInputError(
            f"{state.folder.document_path('workload')}: is absent, so nothing states how the run ended: it is not "
            "loaded, and its rows stay as they are"
        )
    return state.identity[0].deployment


def _load(state: RunState, warehouse: Warehouse) -> dict[str, Any]:
    run, test = state.identity
    document = {"test": run.test, "uuid": run.key, "loaded": test.metric_collection_config.write_to_bigquery}
    if document["loaded"]:
        record = steps.load(test, run, state, warehouse)
        document |= {"job_status": record.job.job_status, "metrics": len(record.metrics)}
    return document


def _line(loaded: dict[str, Any]) -> str:
    done = f"{loaded['job_status']}, {counted(loaded['metrics'], 'metric')}" if loaded["loaded"] else ""
    return (
        f"{loaded['test']} {loaded['uuid']}: {done or 'skipped, because its test file has `write_to_bigquery: false`'}"
    )
