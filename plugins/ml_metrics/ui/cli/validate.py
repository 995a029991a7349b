"""Check test files and metric configs, by default those that Airflow reads, and report every problem at once: file,
line, key, reason, and what was probably meant. Exit code 1: a file is invalid.

A warning names each Python file with tests that Airflow skips, because the words "airflow" and "dag" are not in it.

examples:
  ml-metrics validate
  ml-metrics validate include/metric_configs/mnist-cpu.yaml --with-history
  ml-metrics validate vision.yaml --with-history history.jsonl
  ml-metrics validate vision.yaml --with-run ./run
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from ml_metrics.config import loading
from ml_metrics.config.clusters import namespace_of
from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.config.conditions import DEFAULT, RegressionTestConfig
from ml_metrics.config.definition import TestDefinition, doubts
from ml_metrics.config.editing import CONDITIONS
from ml_metrics.config.loading import LoadedFile
from ml_metrics.config.patterns import best_match, matches
from ml_metrics.config.policy import Policy, airflow_namespaces, current_policy, read_policy, refused_namespace
from ml_metrics.config.problems import InvalidFileError, Problem
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.kinds import HIGHER, LOWER, without_strategy
from ml_metrics.core.model import Metric
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import counted, did_you_mean, printable
from ml_metrics.judge import rule_of, unfit, worse_side
from ml_metrics.measure import COMPUTED, CURVE, Environment, collect_run, generated, is_wanted
from ml_metrics.measure.goodput import measure
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_value
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse
from ml_metrics.ui.cli.collect import environment_of, run_folder
from ml_metrics.ui.cli.inputs import is_path, past_runs
from ml_metrics.ui.cli.output import give, number, table, warn, wrapped


def add_arguments(parser: Parser) -> None:
    add_value(parser, "paths", "PATH", "a test file, a metric config or a folder", nargs="*")
    about = "also show what each condition and pattern of a file matches in a run folder, and what it lacks"
    add_value(parser, "--with-run", "RUN_DIR", about)
    about = (
        "also try the conditions on past runs (docs/conditions.md): of each test in the warehouse, of another TEST, "
        "or of a FILE of `ml-metrics history`"
    )
    add_value(parser, "--with-history", "TEST|FILE", about, nargs="?", const=True)
    about = "check by this policy; default: that of the settings"
    add_value(parser, "--policy", "FILE", about)
    add_warehouse(parser)


def run(arguments: Arguments) -> int:
    paths = [Path(path) for path in arguments.paths or [Settings.load().config_root]]
    for path in paths:
        if not path.exists():
            raise UnreadableInputError(f"there is no file or folder {path}")
    policy = read_policy(Path(arguments.policy)) if arguments.policy else None
    found = [loading.load_tests(path, policy) if path.is_dir() else _checked(path, policy) for path in paths]
    problems = list(dict.fromkeys(problem for one in found for problem in one.problems))
    if arguments.with_history is not None:
        problems += [problem for path in paths for problem in history_problems(path, arguments)]
    problems += _beside_airflow([test for one in found for test in one.tests], policy)
    shown: list[RunOfTest] = []
    if arguments.with_run:
        if len(paths) != 1 or paths[0].is_dir():
            raise UsageError("--with-run needs one PATH: the test file or metric config of the run")
        shown, lacking = runs_of(paths[0], run_folder(arguments.with_run))
        problems += lacking
    warnings = [warning for one in found for warning in (*one.warnings, *chain.from_iterable(map(doubts, one.tests)))]
    warnings = list(dict.fromkeys(warnings))
    skipped = dict.fromkeys(file for path in paths if path.is_dir() for file in loading.files_that_airflow_skips(path))
    why = 'because the words "airflow" and "dag" are not both in it; write them into its docstring'
    warnings += [f"{file}: Airflow skips this file, {why}" for file in skipped]
    tests = sorted({test.name for one in found for test in one.tests})
    if not arguments.json:
        for warning in warnings:
            warn(warning)
    found_in_runs = {"runs": [run.document() for run in shown]} if arguments.with_run else {}
    document = {"valid": not problems, "tests": tests, "problems": list(map(asdict, problems)), "warnings": warnings}
    files = sum(len(list(loading.config_files(path))) if path.is_dir() else 1 for path in paths)
    give(arguments, document | found_in_runs, _lines(shown, problems, tests, files))
    return 1 if problems else 0


def _beside_airflow(tests: list[TestDefinition], policy: Policy | None) -> list[Problem]:
    """Tests that would start beside Airflow since neither they nor the settings say where.

    Their namespace is that of a connection, which no DAG processor reads.
    """
    unnamed = [test for test in tests if namespace_of(test) is None] if airflow_namespaces() else []
    if not unnamed:
        return []
    from ml_metrics.airflow import namespace_by_connection

    by_cluster: dict[str, list[TestDefinition]] = defaultdict(list)
    for test in unnamed:
        by_cluster[test.cluster.address if test.cluster else ""].append(test)
    policy, problems = policy or current_policy(), []
    for _, same in sorted(by_cluster.items()):
        if refused := refused_namespace(namespace_by_connection(same[0]), policy):
            problems += [Problem(test.source, None, "namespace", refused, test.name) for test in same]
    return problems


def _checked(path: Path, policy: Policy | None) -> loading.LoadedTests:
    try:
        loaded = loading.load_file(path, policy=policy)
    except InvalidFileError as error:
        return loading.LoadedTests(problems=error.problems)
    return loading.LoadedTests(loaded.tests, (), loaded.warnings)


def _lines(shown: list[RunOfTest], problems: list[Problem], tests: list[str], files: int) -> Iterator[str]:
    for run in shown:
        yield from run.text()
        yield ""
    mistakes = dict.fromkeys(map(str, problems))
    yield from mistakes
    if mistakes:
        invalid = len({problem.file for problem in problems})
        yield f"{counted(len(mistakes), 'mistake')} in {invalid} of {counted(files, 'file')}."
    else:
        yield f"{counted(files, 'file')}, {counted(len(tests), 'test')}: no problems."


def history_problems(path: Path, arguments: Arguments) -> Iterator[Problem]:
    """Those of the conditions of a file, or of the tests below a folder. Invalid files have none."""
    if path.is_dir():
        for test in loading.load_tests(path).tests:
            yield from _problems(Path(test.source), test.name, path, arguments, lenient=True)
        return
    try:
        names = [test.name for test in loading.load_file(path).tests] or [""]
    except InvalidFileError:
        return
    for name in names:
        yield from _problems(path, name, loading.root_of(path), arguments, lenient=len(names) > 1)


def _problems(path: Path, test: str, root: Path, arguments: Arguments, *, lenient: bool) -> Iterator[Problem]:
    """With `lenient`, a test without past runs is only a warning."""
    given = "" if arguments.with_history is True else arguments.with_history
    is_file = bool(given) and is_path(given)
    history, name = (given, test) if is_file else (None, given or test)
    chosen = Arguments(**vars(arguments), place=str(path), history=history, test=name, runs=None)
    try:
        past = past_runs(chosen)
    except UsageError as error:
        if not lenient:
            raise
        warn(f"{path}: {error}")
        return
    with loading.ConfigFolder(root) as folder:
        document = folder.complete(path)
    for key, what in unfit(past.config, past.rows, test=past.test, acceptances=past.acceptances):
        yield document.problem((*CONDITIONS, key), what).of_test(past.test)


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
        return {
            "test": self.test,
            "metrics": [
                {**{name: getattr(one, name) for name in ("name", "unit", "better")}, "judged_by": self._judge(one)}
                for one in self.metrics
            ],
            "patterns": [asdict(one) | {"key": ".".join(one.key)} for one in self.matches],
        }

    def _judge(self, metric: Metric) -> str | None:
        return self.regression.key_for(metric.name) if self.regression.condition_for(metric.name) else None

    def text(self) -> Iterator[str]:
        count = counted(len(self.metrics), "metric")
        yield f"{printable(self.test)}: {count}" if self.test else count
        rows = []
        for metric in self.metrics:
            key = self._judge(metric) or "-"
            judged = "its condition" if key == metric.name else printable(key)
            rows.append((printable(metric.name), number(metric.value, metric.unit), metric.better or "-", judged))
        if rows:
            yield ""
            yield table(("metric", "value", "better", "judged by"), rows, right=(1,))
        for note in filter(None, map(self._note, self.metrics)):
            yield from wrapped(f"note: {note}")
        for where, group in groupby(self.matches, lambda one: one.key[-1]):
            yield ""
            yield f"{where} matches:"
            for one in group:
                more = len(one.names) - MAX_NAMES
                names = ", ".join(one.names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
                yield from wrapped(f"{one.pattern}: {names or f'nothing{one.near}'}", "  ", "    ")

    def _note(self, metric: Metric) -> str:
        """What is doubtful about how a metric is judged; empty if nothing is."""
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


def runs_of(path: Path, folder: RunFolder) -> tuple[list[RunOfTest], list[Problem]]:
    """A run for each test of a file, and the problems: what every run needs and this one lacks."""
    try:
        loaded = loading.load_file(path)
    except InvalidFileError:
        return [], []  # reported by `validate` itself
    with loading.ConfigFolder(loading.root_of(path)) as configs:
        document = configs.complete(path)
    runs = [_run(test.name, test, environment_of([test], folder), folder) for test in loaded.tests]
    runs = runs or [_run("", loaded, environment_of([], folder), folder)]
    lacking = [(run.test, one) for run in runs for one in run.matches if one.needed and not one.names]
    what = "{!r} matches no metric of {}{}"
    return runs, [
        document.problem((*one.key, one.place), what.format(one.pattern, folder.path, one.near)).of_test(test)
        for test, one in lacking
    ]


def _run(name: str, config: TestDefinition | LoadedFile, environment: Environment, folder: RunFolder) -> RunOfTest:
    collection, regression = config.metric_collection_config, config.regression_test_config
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
        named=regression.named_metrics,
    ).metrics
    computed = {one.name for one in found if one.strategy in {COMPUTED, CURVE} or one.tag in collection.expressions}
    wanted = [one for one in found if is_wanted(one.tag, collection, included=one.name in computed)]
    of_goodput = measure(folder.files(), limits=limits).metrics()
    metrics = [*wanted, *generated(of_goodput, collection)]
    tags = {one.tag for one in found} | {one.name for one in of_goodput}
    return RunOfTest(name, metrics, matched(collection, regression, tags, [one.name for one in metrics]), regression)


COLLECTION, REGRESSION = "metric_collection_config", "regression_test_config"


@dataclass(frozen=True, slots=True)
class Matched:
    """A name or pattern of a config, and what it matches in a run."""

    key: tuple[str, ...]
    """The keys that lead to it, for example `regression_test_config`, `required_metrics`."""
    pattern: str
    place: str | int
    """Its place below the keys: the pattern itself, or its index in a list."""
    names: tuple[str, ...]
    """The tags or metrics for which it counts: of several patterns only the most particular one does."""
    needed: bool
    """Whether a run without a match fails."""
    near: str = ""
    """A hint at a similar name, if nothing matches."""


def matched(
    collection: MetricCollectionConfig,
    regression: RegressionTestConfig,
    tags: Collection[str],
    metrics: Collection[str],
) -> list[Matched]:
    """In the config's order. `tags` has every tag of the run, also uncollected ones; `metrics` has what it produced."""
    aggregated = {tag: best_match(collection.metric_to_aggregation_strategy, tag) for tag in tags}
    known = {
        name: best_match(collection.metrics, name) or best_match(collection.metrics, without_strategy(name))
        for name in metrics
    }
    judged = {name: regression.key_for(name) for name in metrics if regression.condition_for(name) is not None}
    strategies = (COLLECTION, "metric_to_aggregation_strategy")
    conditions = (REGRESSION, "metric_success_conditions")
    rules = regression.metric_success_conditions
    optional = {key for key, condition in rules.items() if condition.optional or key == DEFAULT}
    return [
        *_chosen(strategies, collection.metric_to_aggregation_strategy, aggregated),
        *_all((COLLECTION, "tags_to_ignore"), collection.tags_to_ignore, tags),
        *_all((COLLECTION, "include_tags"), collection.include_tags, tags),
        *_chosen((COLLECTION, "metrics"), collection.metrics, known),
        *_chosen(conditions, rules, judged, needed={key for key in rules if key not in optional}),
        *_all((REGRESSION, "required_metrics"), regression.required_metrics, metrics, needed=True),
        *_all((REGRESSION, "metric_subset_to_alert"), regression.metric_subset_to_alert, metrics),
    ]


def _chosen(
    key: tuple[str, ...], patterns: Iterable[str], best: dict[str, str | None], needed: Collection[str] = ()
) -> Iterator[Matched]:
    for pattern in patterns:
        names = tuple(sorted(name for name, chosen in best.items() if chosen == pattern))
        near = "" if names or pattern == DEFAULT else did_you_mean(pattern, best)
        yield Matched(key, pattern, pattern, names, pattern in needed, near)


def _all(
    key: tuple[str, ...], patterns: Iterable[str], names: Collection[str], *, needed: bool = False
) -> Iterator[Matched]:
    for index, pattern in enumerate(patterns):
        found = tuple(sorted(name for name in names if matches(pattern, name)))
        yield Matched(key, pattern, index, found, needed, "" if found else did_you_mean(pattern, names))
