"""`ml-metrics collect`: what a run wrote, as metrics."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics import storage
from ml_metrics.cli.output import print_json, warn
from ml_metrics.cli.progress import Progress
from ml_metrics.cli.table import columns, cut, plain
from ml_metrics.errors import UnreadableInputError
from ml_metrics.run_folder import RunFolder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ml_metrics.collect import Collected

ABOUT = """\
Aggregate what a run wrote into metrics, as a test file or metric config says.

RUN_DIR is a run folder, or any other one, local or in a bucket. Read are TensorBoard event files, metric streams
(telemetry*.jsonl), other JSON lines, PerfZero summaries and profiles: docs/sources.md. If it holds the document of a
workload (_ml_metrics/workload.json), the run's start and end are known, and so is total_wall_time.

examples:
  ml-metrics collect include/metric_configs/vision.json runs/latest
  ml-metrics collect vision.yaml gs://bucket/runs/resnet/0b1c --json
  ml-metrics collect vision.yaml logs --verify     check images and other large records too
"""
NUMBERS_WIDTH = 36
"""What follows a metric's name in a line."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("config", metavar="CONFIG", type=Path, help="a test file or metric config: YAML, JSON, Jsonnet")
    parser.add_argument("run_dir", metavar="RUN_DIR", help="the folder that the run wrote: a path or gs://...")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--verify", action="store_true", help="check also the records that are passed over")


def run(arguments: argparse.Namespace) -> int:
    """Collect, and print what was found."""
    from ml_metrics.collect import collect_run
    from ml_metrics.config.load import load_file

    config = load_file(arguments.config).metric_collection_config
    folder = _folder(arguments.run_dir)
    with Progress(_bytes(folder)) as progress:
        collected = collect_run(config, folder, folder.read_workload(), verify=arguments.verify, progress=progress)
    if arguments.json:
        print_json(collected.document())
        return 0
    for warning in collected.warnings:
        warn(warning)
    print("\n".join(table(collected)))
    return 0


def table(collected: Collected) -> Iterator[str]:
    """The metrics for people."""
    longest = max([len("metric"), *(len(metric.name) for metric in collected.metrics)])
    width = min(columns() - NUMBERS_WIDTH, longest)
    yield f"{'metric':<{width}} {'value':>13} {'step':>10} {'points':>9}"
    for metric in collected.metrics:
        step = "" if metric.step is None else metric.step
        yield f"{cut(plain(metric.name), width):<{width}} {metric.value:>13.7g} {step:>10} {metric.points:>9}"
        if metric.non_finite:
            yield f"  {metric.non_finite} of its points are no finite numbers"
    for name, why in collected.missing.items():
        yield from textwrap.wrap(f"{name}: missing: {why}", columns(), subsequent_indent="  ")
    files = "1 file" if collected.files == 1 else f"{collected.files} files"
    yield f"{len(collected.metrics)} metrics from {files}"


def _bytes(folder: RunFolder) -> int:
    """How much there is to read, where somebody watches."""
    return sum(file.size for file in folder.files(lambda _: None)) if sys.stderr.isatty() else 0


def _folder(place: str) -> RunFolder:
    if storage.is_local(place) and not storage.local_path(place).is_dir():
        what = "is a file: give the folder that it is in" if storage.exists(place) else "there is no such folder"
        raise UnreadableInputError(f"{place}: {what}")
    return RunFolder(place)
