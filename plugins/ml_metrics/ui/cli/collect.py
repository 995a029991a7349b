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
import textwrap
import time
from typing import TYPE_CHECKING, Self

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import printable
from ml_metrics.core.units import quantity
from ml_metrics.store import storage
from ml_metrics.store.run_folder import RunFolder, listing_limits
from ml_metrics.ui.cli.arguments import add_json, text
from ml_metrics.ui.cli.output import columns, counted, cut, print_json, warn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.measure import Collected, Environment


def environment_of(tests: Sequence[TestDefinition], folder: RunFolder) -> Environment:
    """Return the environment of a run: as its only possible test defines it, else as recorded when the run started."""
    from ml_metrics.measure import Environment
    from ml_metrics.pipeline import RunState

    state = RunState(folder)
    if len(tests) == 1:
        return Environment.of(tests[0], state.params)
    return Environment.of(state.identity[1], state.params) if folder.read("run") is not None else Environment()


NUMBERS_WIDTH = 36
"""The columns that follow a metric's name."""
BAR_WIDTH = 40
DELAY_SECONDS = 0.5
"""Reads that end sooner show no bar."""
REDRAW_SECONDS = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `collect`."""
    parser.add_argument("config", type=text, metavar="CONFIG", help="a test file or metric config: YAML, JSON, Jsonnet")
    parser.add_argument("run_dir", type=text, metavar="RUN_DIR", help="the folder of the run: a path or gs://...")
    parser.add_argument("--verify", action="store_true", help="check the checksums of skipped records (images) too")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Collect, and print the metrics."""
    from ml_metrics.config.loading import load_file
    from ml_metrics.measure import collect_run

    loaded = load_file(arguments.config)
    config, judged = loaded.metric_collection_config, loaded.regression_test_config.judges_curve
    folder = run_folder(arguments.run_dir)
    # only the bar needs the total size
    total = sum(file.size for file in folder.files(lambda _: None)) if sys.stderr.isatty() else 0
    with Progress(total) as progress:
        collected = collect_run(
            config,
            folder,
            folder.read_workload(),
            verify=arguments.verify,
            progress=progress,
            curve_of=judged,
            environment=environment_of(loaded.tests, folder),
            limits=Settings.load().limits,
            judged=loaded.regression_test_config.names,
        )
    if arguments.json:
        print_json(collected.document())
    else:
        for warning in collected.warnings:
            warn(warning)
        print("\n".join(_table(collected)))
    if not collected.metrics:
        print(
            f"no metric was found in {counted(collected.files, 'file')} below {printable(folder.path)}", file=sys.stderr
        )
    return 0 if collected.metrics else 1


class Progress:
    """Draws a bar on standard error, if it is a terminal, while bytes are read. Call it with each number of bytes."""

    def __init__(self, total: int) -> None:
        self.total = max(total, 1)
        self.done = 0
        self._drawn = False
        self._next = time.monotonic() + DELAY_SECONDS

    def __enter__(self) -> Self:
        return self

    def __call__(self, count: int) -> None:
        """Add the bytes that were just read."""
        self.done += count
        now = time.monotonic()
        if now >= self._next and sys.stderr.isatty():
            self._next = now + REDRAW_SECONDS
            self._drawn = True
            share = min(1.0, self.done / self.total)
            bar = "#" * round(BAR_WIDTH * share)
            sys.stderr.write(f"\r{bar:<{BAR_WIDTH}} {100 * share:3.0f} % of {self.total / 1e6:,.0f} MB")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")


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
        yield from textwrap.wrap(f"{printable(name)}: missing: {printable(why)}", columns(), subsequent_indent="  ")
    for note in collected.notes:
        yield from textwrap.wrap(f"note: {printable(note)}", columns(), subsequent_indent="  ")
    yield f"{counted(len(collected.metrics), 'metric')} from {counted(collected.files, 'file')}"


def run_folder(place: str) -> RunFolder:
    """Return the folder of a run. Raises UnreadableInputError if there is none at a local path."""
    if storage.is_local(place) and not storage.local_path(place).is_dir():
        problem = "is a file: give the folder that contains it" if storage.exists(place) else "there is no such folder"
        raise UnreadableInputError(f"{place}: {problem}")
    # what is shown is not stored, so a folder may be a copy that has another name
    return RunFolder(place, limits=listing_limits(Settings.load()), believe_unsigned=True)
