"""Aggregate the files of a folder into metrics, by the metric_collection_config of CONFIG (docs/sources.md). Exit code
1: no metric was found.

The document _ml_metrics/workload.json of a run folder gives the run's start and end, and so total_wall_time.

examples:
  ml-metrics collect runs/latest --explain
  ml-metrics collect vision.yaml gs://bucket/runs/resnet/0b1c --json
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.loading import load_file
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import counted, did_you_mean, printable
from ml_metrics.core.units import quantity
from ml_metrics.measure import Collected, Environment, Explained, collect_run, explain_file
from ml_metrics.pipeline import RunState
from ml_metrics.store import storage
from ml_metrics.store.run_folder import RunFolder, listing_limits
from ml_metrics.ui.cli.arguments import Arguments, Parser, add_flag, add_json, add_value
from ml_metrics.ui.cli.output import Progress, columns, cut, give, table, warn, wrapped


def environment_of(tests: Sequence[TestDefinition], folder: RunFolder) -> Environment:
    """As its only possible test defines it, else as recorded when the run started."""
    state = RunState(folder)
    if len(tests) == 1:
        return Environment.of(tests[0], state.params)
    return Environment.of(state.identity[1], state.params) if folder.read("run") is not None else Environment()


BAR_WIDTH = 40


def add_arguments(parser: Parser) -> None:
    add_value(parser, "config", "CONFIG", "a test file or metric config", nargs="?")
    add_value(parser, "run_dir", "RUN_DIR", "the folder of the run: a path or gs://...")
    add_flag(parser, "--verify", "check skipped records (images), too")
    explain = "show what each file is read as, or else the lines of a test file that read and judge it"
    add_flag(parser, "--explain", explain)
    add_json(parser)


def run(arguments: Arguments) -> int:
    if arguments.config is None:
        if not arguments.explain:
            raise UnreadableInputError("give CONFIG and RUN_DIR; --explain RUN_DIR shows what CONFIG may hold")
        return _explain(arguments, MetricCollectionConfig(), run_folder(arguments.run_dir))
    loaded = load_file(arguments.config)
    if arguments.explain:
        return _explain(arguments, loaded.metric_collection_config, run_folder(arguments.run_dir))
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
            named=loaded.regression_test_config.named_metrics,
        )
    warnings = () if arguments.json else collected.warnings
    for warning in warnings:
        warn(warning)
    give(arguments, collected.document(), _table(collected))
    if not collected.metrics and not warnings:
        found = f"no metric was found in {counted(collected.files, 'file')} below {printable(folder.path)}"
        if collected.sweeps:
            found += f", but {counted(len(collected.sweeps), 'curve')}: --explain shows how to judge them"
        print(found, file=sys.stderr)
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
    width = min(columns() - 36, longest)  # beside three columns of numbers
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


def _explain(arguments: Arguments, config: MetricCollectionConfig, folder: RunFolder) -> int:
    left_out: list[str] = []
    limits = Settings.load().limits
    explained = [explain_file(file, folder, config, limits) for file in folder.files(left_out.append)]
    for warning in left_out:
        warn(warning)
    document = {"files": list(map(explained_document, explained)), "warnings": left_out}
    has_any = any(one.metrics or one.sweeps for one in explained)
    more = (
        f"`ml-metrics new NAME --from {shlex.quote(arguments.run_dir)}` writes a test file that reads and judges these"
    )
    give(arguments, document, chain(_explained_once(explained), wrapped(more) if has_any else ()))
    return 0 if has_any else 1


def _explained_once(explained: Iterable[Explained]) -> Iterator[str]:
    """Yield the lines of each file; of files that the same configuration reads, those of the first."""
    first: dict[str, str] = {}
    for one in explained:
        shape = json.dumps([one.proposed, [each.name for each in one.metrics]]).replace(json.dumps(one.file), "")
        if one.proposed and first.setdefault(shape, one.file) != one.file:
            other = first[shape]
            are_named_alike = one.file.rpartition("/")[2] == other.rpartition("/")[2]
            what = "use_run_name_prefix: true" if are_named_alike else "{file}/ before a name"
            yield f"{printable(one.file)}: as {printable(other)}. Add it to `files`; {what} keeps both apart"
        else:
            yield from explained_lines(one, brief=True)


def explained_document(one: Explained) -> dict[str, Any]:
    keys = ("name", "value", "unit", "better", "points")
    metrics = [{key: getattr(metric, key) for key in keys} for metric in one.metrics]
    kept = {"file": one.file, "format": one.source or None, "metrics": metrics}
    curves = {"curves": [each.name for each in one.sweeps]} if one.sweeps else {}
    proposed = {"sources": one.proposed} if one.proposed else {}
    return {**kept, **curves, "warnings": one.warnings, "metadata": dict(one.metadata), **proposed}


def explained_lines(one: Explained, *, brief: bool = False) -> Iterator[str]:
    """Yield what a file is read as, or how to read it. `brief`: without the metrics of what is read."""
    for warning in one.warnings:
        warn(warning)
    name, count = printable(one.file), counted(len(one.metrics), "metric")
    if one.sweeps:
        count = " and ".join(filter(None, [count if one.metrics else "", counted(len(one.sweeps), "curve")]))
    if one.proposed or one.sweeps:
        known = one.source or "no known format"
        what = f"{known}. These lines of a test file read and judge it" if one.proposed else f"{known}, {count}"
        yield f"{name}: {what}{'' if one.proposed else '. These lines of a test file judge some of them'}:"
        yield ""
        yield from (f"    {printable(line)}" for line in one.lines())
        yield ""
    if one.proposed:
        for step in one.steps_by_place():
            yield from wrapped(f"If {step} is a load or a size, judge one curve instead: docs/curves.md")
        judged = len(one.conditions())
        yield f"They give {count}" + (f", and judge {judged} of them:" if judged < len(one.metrics) else ":")
    elif one.source and not one.sweeps:
        yield f"{name}: {one.source}, {count}"
    elif not one.source:
        yield f"{name}: no known format, and no number with a name was found in it"
    rows = [(each.name, quantity(each.value, each.unit), each.better or "-", str(each.points)) for each in one.metrics]
    if rows and (one.proposed or not brief):
        yield table(("metric", "value", "better", "points"), rows, right=(1, 3))


def run_folder(place: str) -> RunFolder:
    """Raises UnreadableInputError if there is none at a local path."""
    if storage.is_local(place) and not storage.local_path(place).is_dir():
        path = storage.local_path(place)
        beside = [f"{each}" for each in path.parent.iterdir()] if path.parent.is_dir() else ()
        no_folder = f"there is no such folder{did_you_mean(str(path), beside)}"
        problem = "is a file: give the folder that contains it" if storage.exists(place) else no_folder
        raise UnreadableInputError(f"{place}: {problem}")
    # what is shown is not stored, so a folder may be a copy that has another name
    return RunFolder(place, limits=listing_limits(Settings.load()), believe_unsigned=True)
