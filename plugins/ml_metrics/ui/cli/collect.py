"""Aggregate the files of a run into metrics, by the metric_collection_config of CONFIG. Exit code 1: no metric was
found.

RUN_DIR is a run folder or any other folder, local or in a bucket. These files are read: TensorBoard event files, metric
streams (telemetry*.jsonl), other JSON lines, CSV, PerfZero summaries, profiles (docs/sources.md) and files of other
programs (docs/formats.md). The document _ml_metrics/workload.json of a run folder gives the run's start and end, and so
total_wall_time.

examples:
  ml-metrics collect include/metric_configs/_examples/vision.json runs/latest
  ml-metrics collect vision.yaml gs://bucket/runs/resnet/0b1c --json
  ml-metrics collect vision.yaml logs --verify
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ml_metrics.config.loading import load_file
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import counted, printable
from ml_metrics.core.units import quantity
from ml_metrics.measure import Environment, collect_run
from ml_metrics.pipeline import RunState
from ml_metrics.store import storage
from ml_metrics.store.run_folder import RunFolder, listing_limits
from ml_metrics.ui.cli.arguments import Arguments, Parser, add_json, add_value
from ml_metrics.ui.cli.output import Progress, columns, cut, give, warn, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.measure import Collected


def environment_of(tests: Sequence[TestDefinition], folder: RunFolder) -> Environment:
    """As its only possible test defines it, else as recorded when the run started."""
    state = RunState(folder)
    if len(tests) == 1:
        return Environment.of(tests[0], state.params)
    return Environment.of(state.identity[1], state.params) if folder.read("run") is not None else Environment()


NUMBERS_WIDTH = 36
"""The columns that follow a metric's name."""
BAR_WIDTH = 40


def add_arguments(parser: Parser) -> None:
    add_value(parser, "config", "CONFIG", "a test file or metric config: YAML, JSON, Jsonnet")
    add_value(parser, "run_dir", "RUN_DIR", "the folder of the run: a path or gs://...")
    parser.add_argument("--verify", action="store_true", help="check the checksums of skipped records (images) too")
    add_json(parser)


def run(arguments: Arguments) -> int:
    loaded = load_file(arguments.config)
    config, judged = loaded.metric_collection_config, loaded.regression_test_config.judges_curve
    folder = run_folder(arguments.run_dir)
    # only the bar needs the total size
    total = sum(file.size for file in folder.files(lambda _: None)) if sys.stderr.isatty() else 0
    with _Bar(total) as bar:
        collected = collect_run(
            config,
            folder,
            folder.read_workload(),
            verify=arguments.verify,
            progress=bar,
            curve_of=judged,
            environment=environment_of(loaded.tests, folder),
            limits=Settings.load().limits,
            judged=loaded.regression_test_config.names,
        )
    for warning in () if arguments.json else collected.warnings:
        warn(warning)
    give(arguments, collected.document(), _table(collected))
    if not collected.metrics:
        print(
            f"no metric was found in {counted(collected.files, 'file')} below {printable(folder.path)}", file=sys.stderr
        )
    return 0 if collected.metrics else 1


class _Bar(Progress):
    """A bar that grows while bytes are read. Reads that end soon show none."""

    def __init__(self, total: int) -> None:
        super().__init__(delay=0.5)
        self._total, self._done = max(total, 1), 0

    def __call__(self, count: int) -> None:
        self._done += count
        share = min(1.0, self._done / self._total)
        bar = "#" * round(BAR_WIDTH * share)
        self.show(f"{bar:<{BAR_WIDTH}} {100 * share:3.0f} % of {self._total / 1e6:,.0f} MB")


def _table(collected: Collected) -> Iterator[str]:
    longest = max([len("metric"), *(len(metric.name) for metric in collected.metrics)])
    width = min(columns() - NUMBERS_WIDTH, longest)
    yield f"{'metric':<{width}} {'value':>13} {'step':>10} {'points':>9}"
    for metric in collected.metrics:
        step = "" if metric.step is None else metric.step
        name = cut(printable(metric.name), width)
        yield f"{name:<{width}} {quantity(metric.value, metric.unit):>13} {step:>10} {metric.points:>9}"
        if metric.non_finite:
            yield f"  {counted(metric.non_finite, 'point')} NaN or infinite"
    for name, why in collected.missing.items():
        yield from wrapped(f"{name}: missing: {why}")
    for note in collected.notes:
        yield from wrapped(f"note: {note}")
    yield f"{counted(len(collected.metrics), 'metric')} from {counted(collected.files, 'file')}"


def run_folder(place: str) -> RunFolder:
    """Raises UnreadableInputError if there is none at a local path."""
    if storage.is_local(place) and not storage.local_path(place).is_dir():
        problem = "is a file: give the folder that contains it" if storage.exists(place) else "there is no such folder"
        raise UnreadableInputError(f"{place}: {problem}")
    # what is shown is not stored, so a folder may be a copy that has another name
    return RunFolder(place, limits=listing_limits(Settings.load()), believe_unsigned=True)
