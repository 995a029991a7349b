"""Judge the metrics of one run by the conditions of CONFIG and by the runs before it. Exit code 1: the run did not
pass.

The metrics are the output of `ml-metrics collect --json`, or {name: value}. The history is the output of
`ml-metrics history --jsonl` or `--json`, or JSON lines of {"uuid", "timestamp", "metric_name", "metric_value",
"job_status", "verdict"}. The run is taken to end after its history, unless --at gives another time.

With --all, the imported runs of the warehouse that have no verdict are judged by the test files of the settings, oldest
first, each by the runs before it. No message is sent. Exit code 2: the conditions of a test are unknown.

examples:
  ml-metrics judge vision.json --metrics metrics.json --history h.jsonl
  ml-metrics judge vision.json --metrics metrics.json --status failure --json
  ml-metrics judge --all
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ml_metrics.config.loading import load_test
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.model import JobStatus, Outcome
from ml_metrics.core.settings import Settings
from ml_metrics.judge import history_needs, judge_run, replay
from ml_metrics.ui.cli.arguments import UsageError, moment, text
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.ui.cli.input_files import read_curves, read_metrics
from ml_metrics.ui.cli.output import alert_lines, counted, print_json, table, verdict_lines, warn
from ml_metrics.ui.cli.past_runs import MAX_RUNS, conditions_in, runs_in

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from ml_metrics.config.conditions import RegressionTestConfig
    from ml_metrics.core.model import StoredMetric
    from ml_metrics.judge import Judgement, ReplayedRun
    from ml_metrics.ui.cli.input_files import Measured
    from ml_metrics.warehouse import RunRecord, Warehouse


MICROSECOND = timedelta(microseconds=1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `judge`."""
    parser.add_argument("config", type=text, nargs="?", metavar="CONFIG", help="a test file or a metric config")
    parser.add_argument("--all", action="store_true", help="judge the imported runs of the warehouse")
    parser.add_argument("--metrics", type=text, metavar="FILE", help="the metrics of the run")
    parser.add_argument("--history", type=text, metavar="FILE", help="the runs before it; without, it is the first run")
    parser.add_argument(
        "--status", choices=[str(each) for each in JobStatus], default="success", help="how the workload ended"
    )
    parser.add_argument(
        "--test",
        metavar="NAME",
        default="",
        help="the test's name, if CONFIG does not state it; with --all, the only test",
    )
    parser.add_argument(
        "--run", metavar="UUID", default="", help="the run's key: its own rows of the history are left out"
    )
    parser.add_argument("--at", type=moment, metavar="TIME", help="when the run ended: later history is left out")
    add_warehouse(parser)


def run(arguments: argparse.Namespace) -> int:
    """Judge the run, and print the verdicts."""
    if arguments.all:
        if arguments.config or arguments.metrics or arguments.history:
            raise UsageError("--all judges the runs of the warehouse: give it without CONFIG, --metrics and --history")
        return judge_all(arguments)
    if not arguments.config or not arguments.metrics:
        raise UsageError("give CONFIG and --metrics FILE, or --all for the imported runs of the warehouse")
    test, config, file = conditions_in(arguments.config, arguments.test)
    measured = read_metrics(arguments.metrics)
    test, history = runs_in(arguments.history, test, config, file) if arguments.history else (test or file.stem, [])
    past_curves = read_curves(arguments.history) if arguments.history and measured.curves else {}
    judgement = judge_run(
        config,
        measured.metrics,
        history,
        status=JobStatus(arguments.status),
        run_key=arguments.run,
        now=arguments.at or _after(history, measured),
        missing=measured.missing,
        mixed=measured.mixed,
        curves=measured.curves,
        read_curves=lambda *_: past_curves,
        test=test,
    )
    if arguments.json:
        print_json(judgement.document())
    else:
        for line in [*verdict_lines(judgement.verdicts), *alert_lines(judgement.alerts)]:
            print(line)
        recorded = judgement.outcome is Outcome.RECORDED
        print("recorded: there is no condition" if recorded else "passed" if judgement.passed else "did not pass")
    return 0 if judgement.passed else 1


def _after(history: Sequence[StoredMetric], measured: Measured) -> datetime:
    """Return a time for a run without one: that of its newest point, else now, but always after its history."""
    points = [metric.wall_time for metric in measured.metrics if metric.wall_time is not None]
    try:
        ended = datetime.fromtimestamp(max(points), UTC) if points else datetime.now(UTC)
    except (ValueError, OverflowError, OSError):
        ended = datetime.now(UTC)
    newest = max((point.timestamp for point in history), default=ended)
    return ended if ended > newest else newest + MICROSECOND


PAGE_RUNS = 100
"""The runs of one transaction."""


@dataclass(slots=True)
class Judged:
    """The result for the imported runs of one test."""

    test: str
    runs: int
    passed: int = 0
    failed: int = 0
    problem: str = ""
    """Why they are not judged."""

    @property
    def row(self) -> tuple[str, str, str, str]:
        """The test as a row of a table."""
        return self.test, str(self.passed + self.failed), str(self.passed), str(self.failed)

    def document(self) -> dict[str, Any]:
        """Return the result as JSON."""
        counts = {"runs": self.runs, "passed": self.passed, "did_not_pass": self.failed}
        return {"test": self.test, **counts, "problem": self.problem or None}


def judge_all(arguments: argparse.Namespace) -> int:
    """Judge the runs of each test that have no verdict, in the order in which they ended."""
    from ml_metrics.warehouse import not_judged

    with open_chosen(arguments) as warehouse:
        found = not_judged(warehouse)
        chosen = {name: keys for name, keys in found.items() if arguments.test in {"", name}}
        results = [_judge_test(warehouse, name, keys) for name, keys in chosen.items()]
    if arguments.json:
        print_json({"tests": [one.document() for one in results]})
    else:
        _print(results)
    return 2 if any(one.problem for one in results) else 0


def _print(results: list[Judged]) -> None:
    for one in results:
        if one.problem:
            warn(f"{one.test}: {counted(one.runs, 'run')} not judged: {one.problem}")
    rows = [one.row for one in results if not one.problem]
    if rows:
        print(table(("test", "judged", "passed", "did not pass"), rows, right=(1, 2, 3)))
    elif not results:
        print("Every imported run is judged.")


def _judge_test(warehouse: Warehouse, name: str, keys: set[str]) -> Judged:
    result = Judged(name, len(keys))
    try:
        config = load_test(Settings.load().config_root, name).regression_test_config
    except ConfigError as error:
        result.problem = f"its conditions are unknown: {error}"
        return result
    page: list[ReplayedRun] = []
    for one in _replayed(warehouse, name, config):
        if one.run_key not in keys:
            continue
        page.append(one)
        if len(page) == PAGE_RUNS:
            _write(warehouse, page, result)
            page = []
    if page:
        _write(warehouse, page, result)
    return result


def _write(warehouse: Warehouse, page: list[ReplayedRun], result: Judged) -> None:
    """Write some runs at once, the oldest first, so that a killed command continues where it was."""
    from ml_metrics.warehouse import stored_runs

    judgements = {one.run_key: one.judgement for one in page}
    stored = stored_runs(warehouse, result.test, {one.run_key: one.timestamp for one in page})
    warehouse.load_all([_with_verdicts(record, judgements[record.key]) for record in stored])
    result.passed += sum(one.judgement.passed for one in page)
    result.failed += sum(not one.judgement.passed for one in page)
    if sys.stderr.isatty():
        print(f"\r\x1b[K{result.test}: {result.passed + result.failed} of {result.runs}", end="", file=sys.stderr)


def _with_verdicts(record: RunRecord, judgement: Judgement) -> RunRecord:
    from ml_metrics.warehouse import with_verdicts

    verdict = str(Outcome.RECORDED) if judgement.outcome is Outcome.RECORDED else None
    return with_verdicts(record, judgement.verdicts, verdict)


def _replayed(warehouse: Warehouse, name: str, config: RegressionTestConfig) -> Iterator[ReplayedRun]:
    """Yield all runs of a test with their verdicts: each is judged by the runs before it."""
    needs = replace(history_needs(config, name), window=0, recent=MAX_RUNS, earliest=None)
    rows = warehouse.metrics.history(needs)
    ends = {row.run_key: row.timestamp for row in rows}
    yield from replay(
        config,
        rows,
        test=name,
        acceptances=warehouse.acceptances.of_history(needs),
        attributes=dict(warehouse.attributes(needs.names, ends, deployments=needs.deployments)),
    ).runs
