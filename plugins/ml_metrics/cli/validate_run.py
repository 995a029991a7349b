"""What the conditions and patterns of a config match in a finished run, for `validate --with-run`."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ml_metrics.cli.output import columns, counted, number, table
from ml_metrics.cli.run_environment import environment_of
from ml_metrics.config.inherit import ConfigFolder
from ml_metrics.config.load import load_file, root_of
from ml_metrics.config.matched import Matched, matched
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.config.regression import DEFAULT
from ml_metrics.judge.repeated import worse_side
from ml_metrics.judge.wording import rule_of
from ml_metrics.kinds import HIGHER, LOWER
from ml_metrics.settings import Settings
from ml_metrics.values import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ml_metrics.collect import Environment
    from ml_metrics.config.collection import MetricCollectionConfig
    from ml_metrics.config.config_file import LoadedFile
    from ml_metrics.config.problems import Problem
    from ml_metrics.config.regression import RegressionTestConfig
    from ml_metrics.model import Metric
    from ml_metrics.run_folder import RunFolder

MAX_NAMES = 8
"""How many of the names that a pattern matches are printed. The document has all."""


@dataclass(frozen=True, slots=True)
class RunOfTest:
    """The metrics of a run, and what the config of one test matches among them."""

    test: str
    metrics: list[Metric]
    matches: list[Matched]
    regression: RegressionTestConfig

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "test": self.test,
            "metrics": [self._metric(metric) for metric in self.metrics],
            "patterns": [asdict(one) | {"key": ".".join(one.key)} for one in self.matches],
        }

    def _metric(self, metric: Metric) -> dict[str, Any]:
        condition = self.regression.condition_for(metric.name)
        return {
            "name": metric.name,
            "unit": metric.unit,
            "better": metric.better,
            "judged_by": None if condition is None else self.regression.key_for(metric.name),
        }

    def text(self) -> Iterator[str]:
        """Yield the lines that `validate --with-run` prints."""
        rows = [self._row(metric) for metric in self.metrics]
        yield f"{printable(self.test)}: {counted(len(rows), 'metric')}" if self.test else counted(len(rows), "metric")
        if rows:
            yield ""
            yield table(("metric", "value", "better", "judged by"), rows, right=(1,))
        for note in filter(None, map(self._note, self.metrics)):
            yield from textwrap.wrap(f"note: {printable(note)}", columns(), subsequent_indent="  ")
        for where, group in groupby(self.matches, lambda one: one.where):
            yield ""
            yield f"{where} matches:"
            for one in group:
                yield from textwrap.wrap(
                    printable(f"  {one.pattern}: {_names(one)}"), columns(), subsequent_indent="    "
                )

    def _note(self, metric: Metric) -> str:
        """Return what is doubtful about how a metric is judged; empty if nothing is."""
        key, condition = self.regression.key_for(metric.name), self.regression.condition_for(metric.name)
        if self.regression.bounds_better_side(metric.name):
            return f"{metric.name} is not judged: {metric.better} values are better, and `default` bounds only those"
        side = 0 if condition is None else worse_side(condition)
        if not metric.better and key == DEFAULT and worse_side(self.regression.metric_success_conditions[DEFAULT]):
            judged = "" if side else ", so `default` judges both sides"
            return f"it is unknown whether {metric.name} should rise or fall{judged}; `metrics` can state it"
        if condition is not None and side and side == {HIGHER: 1, LOWER: -1}.get(metric.better):
            return f"{metric.name} is better when {metric.better}, but the condition {key!r} is `{rule_of(condition)}`"
        return ""

    def _row(self, metric: Metric) -> tuple[str, ...]:
        facts = self._metric(metric)
        key = facts["judged_by"]
        judged = "-" if key is None else ("its condition" if key == metric.name else key)
        return printable(metric.name), number(metric.value, metric.unit), metric.better or "-", printable(judged)


def runs_of(path: Path, folder: RunFolder) -> tuple[list[RunOfTest], list[Problem]]:
    """Return a run for each test of a file, and the problems: what every run needs and this one lacks."""
    try:
        loaded = load_file(path)
    except InvalidFileError:
        return [], []  # reported by `validate` itself
    with ConfigFolder(root_of(path)) as configs:
        document = configs.complete(path)
    runs = [_run(*one, folder) for one in _configs(loaded, folder)]
    lacking = [(run.test, one) for run in runs for one in run.matches if one.needed and not one.names]
    what = "{!r} matches no metric of {}{}"
    return runs, [
        document.problem((*one.key, one.place), what.format(one.pattern, folder.path, one.near)).of_test(test)
        for test, one in lacking
    ]


def _configs(
    loaded: LoadedFile, folder: RunFolder
) -> Iterator[tuple[str, MetricCollectionConfig, RegressionTestConfig, Environment]]:
    for test in loaded.tests:
        environment = environment_of([test], folder)
        yield test.name, test.metric_collection_config, test.regression_test_config, environment
    if not loaded.tests:
        yield "", loaded.metric_collection_config, loaded.regression_test_config, environment_of([], folder)


def _run(
    test: str,
    collection: MetricCollectionConfig,
    regression: RegressionTestConfig,
    environment: Environment,
    folder: RunFolder,
) -> RunOfTest:
    from ml_metrics.collect import collect_run
    from ml_metrics.collect.curves import CURVE
    from ml_metrics.collect.facts import generated, is_wanted
    from ml_metrics.collect.source import COMPUTED
    from ml_metrics.goodput import measure

    limits = Settings.load().limits
    every_tag = collection.model_copy(update={"tags_to_ignore": (), "include_tags": ()})
    found = collect_run(
        every_tag,
        folder,
        folder.read_workload(),
        curve_of=regression.judges_curve,
        environment=environment,
        limits=limits,
        judged=regression.names,
    ).metrics
    computed = {one.name for one in found if one.strategy in {COMPUTED, CURVE} or one.tag in collection.expressions}
    wanted = [one for one in found if is_wanted(one.tag, collection, included=one.name in computed)]
    of_goodput = measure(folder.files(), limits=limits).metrics()
    metrics = [*wanted, *generated(of_goodput, collection)]
    tags = {one.tag for one in found} | {one.name for one in of_goodput}
    return RunOfTest(test, metrics, matched(collection, regression, tags, [one.name for one in metrics]), regression)


def _names(one: Matched) -> str:
    if not one.names:
        return f"nothing{one.near}"
    more = len(one.names) - MAX_NAMES
    return ", ".join(one.names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
