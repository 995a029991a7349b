"""`ml-metrics backfill`: measure, judge and load runs again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ml_metrics import steps, storage
from ml_metrics.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.cli.output import warn
from ml_metrics.errors import UnreadableInputError
from ml_metrics.run_folder import DOCUMENTS, RunFolder
from ml_metrics.run_state import RunState
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

ABOUT = """\
Measure, judge and load the runs of a test again, oldest first, from nothing but their run folders.

For rules that changed, or a warehouse that was lost. Each run is judged by what came before it, and replaced in the
warehouse, never doubled. Each is judged by the conditions that its test had when it ran; with --config, by those of
that file. No message is sent.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which test, by which conditions, from where and where to."""
    parser.add_argument("test", metavar="TEST", help="the test's name")
    parser.add_argument("--config", metavar="FILE", help="a test file or metric config whose conditions are applied")
    parser.add_argument("--runs", metavar="FOLDER", help="where run folders lie; default: the storage root")
    add_warehouse(parser)
    parser.epilog = "example:\n  ml-metrics backfill tf-mnist-example-cpu"


def run(arguments: argparse.Namespace) -> int:
    """Take up each run; one that cannot be read is told, and stops no other."""
    from ml_metrics.config.load import load_file

    settings = Settings.load()
    config = load_file(arguments.config) if arguments.config else None
    unreadable = 0
    with open_chosen(arguments) as warehouse:
        for folder in run_folders(storage.join(arguments.runs or settings.storage_root, arguments.test)):
            try:
                state = RunState(folder)
                the_run, test = state.identity
                if config is not None:
                    both = ("metric_collection_config", "regression_test_config")
                    test = test.model_copy(update={name: getattr(config, name) for name in both})
                steps.collect(test, state)
                if test.goodput.enabled:
                    steps.measure_goodput(test, state)
                judgement = steps.judge(test, the_run, state, warehouse)
                if test.metric_collection_config.write_to_bigquery:
                    steps.load(test, the_run, state, warehouse)
            except UnreadableInputError as error:
                unreadable += 1
                warn(str(error))
                continue
            broken = ", ".join(verdict.metric for verdict in judgement.verdicts if verdict.broken)
            recorded = (
                "" if test.metric_collection_config.write_to_bigquery else " (`write_to_bigquery: false`: not loaded)"
            )
            passed = "passed" if judgement.passed else "not passed"
            print(f"{the_run.key}: {passed}{': ' if broken else ''}{broken}{recorded}")
    return 2 if unreadable else 0


def run_folders(place: str) -> Iterator[RunFolder]:
    """Every run folder of a test, in the order in which the runs ended."""
    suffix = f"/{DOCUMENTS}/run.json"
    folders = [
        RunFolder(file.path.removesuffix(suffix)) for file in storage.list_files(place) if file.name.endswith(suffix)
    ]
    if not folders:
        raise UnreadableInputError(f"{place}: holds no run folder; is this the test's name?")
    yield from sorted(folders, key=_ended_at)


def _ended_at(folder: RunFolder) -> datetime:
    return RunState(folder).workload.ended_at or datetime.max.replace(tzinfo=UTC)
