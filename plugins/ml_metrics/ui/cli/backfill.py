"""Measure, judge and load the runs of a test again, oldest first, from their run folders alone: after a change of
rules, or to restore a lost warehouse. Each run is judged by the conditions that its test had when it ran, or by those
of --config.

No message is sent. Exit code 2: a run could not be read; the others are loaded.

examples:
  ml-metrics backfill tf-mnist-example-cpu --config stricter.yaml
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from ml_metrics.config.loading import LoadedFile, load_file
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import Outcome, Severity
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import did_you_mean
from ml_metrics.core.values import END_OF_TIME, as_utc
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store import storage
from ml_metrics.store.run_folder import DOCUMENTS, RunFolder
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_value
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse
from ml_metrics.ui.cli.load import add_unsigned, process_each, strict_folder
from ml_metrics.warehouse import Warehouse


def add_arguments(parser: Parser) -> None:
    add_value(parser, "test", "TEST", "the name of the test")
    add_value(parser, "--config", "FILE", "judge by its conditions")
    add_value(parser, "--runs", "FOLDER", "the storage root; default: that of the settings")
    add_unsigned(parser)
    add_warehouse(parser)


def run(arguments: Arguments) -> int:
    config = load_file(arguments.config) if arguments.config else None
    folders = run_folders(arguments.runs or Settings.load().storage_root, arguments.test, unsigned=arguments.unsigned)
    return process_each(arguments, folders, partial(_process, config), _line, test=arguments.test)


def run_folders(root: str, name: str, *, unsigned: bool = False) -> list[RunFolder]:
    """In the order in which the runs ended."""
    place = storage.join(root, name)
    top = storage.Folder(root)
    folders = [
        strict_folder(storage.join(place, key), root, unsigned=unsigned)
        for key in top.subfolders(name)
        if top.exists(f"{name}/{key}/{DOCUMENTS}/run.json")
    ]
    if not folders:
        # listing every object of a bucket may take minutes
        beside = storage.local_path(root) if storage.is_local(root) else None
        near = did_you_mean(name, [each.name for each in beside.iterdir()]) if beside and beside.is_dir() else ""
        raise UsageError(f"{place}: there is no run folder of a test {name!r}{near}")
    return sorted(folders, key=_end)


def _end(folder: RunFolder) -> datetime:
    try:
        ended_at = RunState(folder).workload.ended_at
    except UnreadableInputError:  # which is reported when the folder's turn comes
        ended_at = None
    return as_utc(ended_at) if ended_at else END_OF_TIME


def _process(config: LoadedFile | None, state: RunState, warehouse: Warehouse) -> dict[str, Any]:
    run, test = state.identity
    if config is not None:
        sections = ("metric_collection_config", "regression_test_config")
        test = test.model_copy(update={name: getattr(config, name) for name in sections})
    limits = Settings.load().limits
    steps.collect(test, state, limits)
    if test.goodput.enabled:
        steps.measure_goodput(test, state, limits)
    steps.measure_efficiency(test, state)
    judgement = steps.judge(test, run, state, warehouse)
    loaded = test.metric_collection_config.write_to_bigquery
    if loaded:
        steps.load(test, run, state, warehouse, {})  # the work of each task is done here
    broken = [verdict for verdict in judgement.verdicts if verdict.broken]
    return {
        "uuid": run.key,
        "passed": judgement.passed,
        "outcome": str(judgement.outcome),
        "broken": [verdict.metric for verdict in broken],
        "warnings": [verdict.metric for verdict in broken if verdict.severity is Severity.WARN],
        "loaded": loaded,
    }


def _line(again: dict[str, Any]) -> str:
    failed = [metric for metric in again["broken"] if metric not in again["warnings"]]
    verdict = "passed" if again["passed"] else "did not pass"
    verdict = str(Outcome.RECORDED) if again["outcome"] == Outcome.RECORDED else verdict
    warned = f"with a warning about {', '.join(again['warnings'])}" if again["warnings"] else ""
    verdict = ", ".join(part for part in (f"{verdict}: {', '.join(failed)}" if failed else verdict, warned) if part)
    line = f"{again['uuid']}: {verdict}"
    return line if again["loaded"] else f"{line} (`write_to_bigquery: false`: not loaded)"
