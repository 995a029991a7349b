"""The past runs that a command reads, with the conditions of their test: from the warehouse, or from a file.

Every command that reads past runs takes the same arguments: the name of a test, or a file with its conditions; and
`--history FILE`, without which the runs are read from the warehouse.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.config.document import SUFFIXES
from ml_metrics.config.loading import load_file, load_test, load_tests
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.model import CURVE_SUFFIX
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import did_you_mean
from ml_metrics.judge import history_needs
from ml_metrics.ui.cli.arguments import UsageError, text, whole_number
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen, require_test
from ml_metrics.ui.cli.input_files import read_curves, read_history
from ml_metrics.ui.cli.output import warn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from ml_metrics.core.model import StoredMetric
    from ml_metrics.judge import Acceptance, CurvesOfRuns, HistoryNeeds
    from ml_metrics.warehouse import Warehouse


DEFAULT_RUNS = 2_000
"""More than five years of nightly runs."""
MAX_RUNS = 100_000


@dataclass(frozen=True, slots=True)
class PastRuns:
    """The past runs of one test."""

    test: str
    """The name of the test; empty if neither the command line nor the file of the runs states it."""
    config: RegressionTestConfig
    """The conditions of the test; empty if they are unknown and the command does not need them."""
    rows: Sequence[StoredMetric]
    """Also those of the tests that `compare_to` names."""
    acceptances: Sequence[Acceptance] = ()
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The attributes of each run, by run key."""
    curves: CurvesOfRuns = field(default_factory=dict)
    """The curves of the tags that the conditions judge over their steps."""
    file: Path | None = None
    """The file that holds the conditions."""


def add_past_runs(parser: argparse.ArgumentParser) -> None:
    """Declare the test or its file, `--history`, `--test`, `--runs`, `--warehouse` and `--json`."""
    parser.add_argument(
        "place",
        type=text,
        nargs="?",
        metavar="TEST|CONFIG",
        help="the name of a test, or a test file or metric config with its conditions",
    )
    parser.add_argument(
        "--history",
        type=text,
        metavar="FILE",
        help="the past runs, as `ml-metrics history` prints them with --jsonl"
        " or --json; default: those in the warehouse",
    )
    parser.add_argument("--test", default="", metavar="NAME", help="the test's name, if CONFIG does not state it")
    parser.add_argument(
        "--runs",
        type=whole_number(1, MAX_RUNS),
        metavar="N",
        help=f"only the newest N runs; default: all in the file, {DEFAULT_RUNS} of the warehouse",
    )
    add_warehouse(parser)


def past_runs(arguments: argparse.Namespace, *, config_required: bool = True) -> PastRuns:
    """Read the past runs and the conditions that a command line names.

    Without `config_required`, the conditions may be unknown: there is no test file, or only `--history` is given.
    """
    test, config, file = _conditions(arguments, required=config_required)
    if arguments.history:
        test, rows = runs_in(arguments.history, test, config, file)
        judged = any(condition.curve is not None for condition in config.metric_success_conditions.values())
        curves = read_curves(arguments.history) if judged else {}
        return PastRuns(test, config, _newest(rows, arguments.runs, test), curves=curves, file=file)
    if not test:
        raise UsageError("give the name of a test, or --history FILE; `ml-metrics tests` lists the tests")
    with open_chosen(arguments) as warehouse:
        return _from_warehouse(warehouse, arguments.runs, test, config, file)


def conditions_in(place: str, name: str, *, name_required: bool = False) -> tuple[str, RegressionTestConfig, Path]:
    """Return the test that a file defines, its conditions and the file.

    The name may be empty if the file defines no test and none is required, because the runs state it.
    """
    loaded = load_file(place)
    if not name and len(loaded.tests) > 1:
        tests = ", ".join(test.name for test in loaded.tests)
        raise UsageError(f"{place}: defines several tests; choose one with --test: {tests}")
    for test in loaded.tests:
        if name in {"", test.name}:
            return test.name, test.regression_test_config, loaded.path
    if name_required and not name:
        raise UsageError(f"{place}: defines no test; --test NAME names the test whose runs to read")
    return name, loaded.regression_test_config, loaded.path


def runs_in(place: str, test: str, config: RegressionTestConfig, file: Path | None) -> tuple[str, list[StoredMetric]]:
    """Read a file of past runs, and return the name of the test with the rows.

    A test without a name has that of the runs, or of the file with its conditions. Raises UsageError if all rows are of
    other tests: that is no empty history.
    """
    rows = read_history(place, test)
    found = {row.test for row in rows} - {""}
    names = ", ".join(sorted(found))
    if not test and len(found) > 1:
        raise UsageError(f"{place}: has runs of several tests; choose one with --test: {names}")
    test = test or next(iter(found), file.stem if file else "")
    if found and found.isdisjoint(history_needs(config, test).series):
        raise UsageError(f"{place}: has no row of test {test!r}; choose one of its tests with --test: {names}")
    return test, rows


def _conditions(arguments: argparse.Namespace, *, required: bool) -> tuple[str, RegressionTestConfig, Path | None]:
    """Return the name of the test, its conditions and their file."""
    place, name = arguments.place, arguments.test
    if place is None:
        if required:
            raise UsageError("give the name of a test, or a file with its conditions")
        return name, RegressionTestConfig(), None
    if _is_file(place):
        return conditions_in(place, name, name_required=not arguments.history)
    if name:
        raise UsageError(f"--test {name}: give it with a CONFIG; {place!r} is no file, so it is the name of a test")
    root = Settings.load().config_root
    try:
        test = load_test(root, place)
    except ConfigError as error:
        if not required:
            return place, RegressionTestConfig(), None
        near = did_you_mean(place, [test.name for test in load_tests(root).tests]) or ";"
        raise UsageError(
            f"the conditions of {place!r} are unknown: {error}{near} give a file with conditions: CONFIG --test NAME"
        ) from error
    return test.name, test.regression_test_config, Path(test.source) if test.source else None


def _is_file(place: str) -> bool:
    """Whether an argument names a file: a file of that path exists, or the name ends like one."""
    try:
        return place.endswith(SUFFIXES) or Path(place).is_file()
    except (OSError, ValueError):  # too long, or with a NUL
        return False


def _newest(rows: list[StoredMetric], runs: int | None, test: str) -> list[StoredMetric]:
    """Return the rows of the newest runs of a test, and every row of other tests."""
    if runs is None:
        return rows
    ordered = sorted(rows, key=lambda row: row.timestamp)
    ended = {row.run_key: row.timestamp for row in ordered if row.test in {"", test}}
    kept = set(sorted(ended, key=lambda key: (ended[key], key))[-runs:])
    return [row for row in rows if row.test not in {"", test} or row.run_key in kept]


def _from_warehouse(
    warehouse: Warehouse, runs: int | None, test: str, config: RegressionTestConfig, file: Path | None
) -> PastRuns:
    limit = runs or DEFAULT_RUNS
    require_test(warehouse, test)
    needs = replace(history_needs(config, test), window=0, recent=limit, earliest=None)
    rows = warehouse.metrics.history(needs)
    if runs is None and len({row.run_key for row in rows if row.test == test}) == limit:
        warn(f"read the newest {limit} runs of {test}; --runs N reads more")
    acceptances = warehouse.acceptances.of_history(needs)
    ends = {row.run_key: row.timestamp for row in rows}
    attributes = dict(warehouse.attributes(needs.names, ends, deployments=needs.deployments))
    curves = _curves(warehouse, config, rows, needs)
    return PastRuns(test, config, rows, acceptances, attributes, curves, file)


def _curves(
    warehouse: Warehouse, config: RegressionTestConfig, rows: Sequence[StoredMetric], needs: HistoryNeeds
) -> CurvesOfRuns:
    metrics = {row.metric for row in rows if row.metric.endswith(CURVE_SUFFIX)}
    tags = sorted(name.removesuffix(CURVE_SUFFIX) for name in metrics)
    tags = [tag for tag in tags if config.judges_curve(tag)]
    ends = {row.run_key: row.timestamp for row in rows if row.metric in metrics}
    return warehouse.curves.of_runs(sorted(ends), tags, tests=needs.names, ends=ends, deployments=needs.deployments)
