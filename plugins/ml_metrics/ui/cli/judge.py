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

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ml_metrics.config.loading import load_test
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.model import JobStatus, Outcome, StoredMetric
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import counted
from ml_metrics.judge import ReplayedRun, judge_run
from ml_metrics.ui.cli import inputs
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_value, moment
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.ui.cli.output import Progress, alert_lines, give, table, verdict_lines, warn
from ml_metrics.warehouse import Warehouse, not_judged, stored_runs, with_verdicts


def add_arguments(parser: Parser) -> None:
    add_value(parser, "config", "CONFIG", "a test file or a metric config", nargs="?")
    parser.add_argument("--all", action="store_true", help="judge the imported runs of the warehouse")
    add_value(parser, "--metrics", "FILE", "the metrics of the run")
    add_value(parser, "--history", "FILE", "the runs before it; without, it is the first run")
    parser.add_argument(
        "--status", choices=[str(each) for each in JobStatus], default="success", help="how the workload ended"
    )
    about = "the test's name, if CONFIG does not state it; with --all, the only test"
    add_value(parser, "--test", "NAME", about, str, default="")
    add_value(parser, "--run", "UUID", "the run's key: its own rows of the history are left out", str, default="")
    add_value(parser, "--at", "TIME", "when the run ended: later history is left out", moment)
    add_warehouse(parser)


def run(arguments: Arguments) -> int:
    if arguments.all:
        if arguments.config or arguments.metrics or arguments.history:
            raise UsageError("--all judges the runs of the warehouse: give it without CONFIG, --metrics and --history")
        return judge_all(arguments)
    if not arguments.config or not arguments.metrics:
        raise UsageError("give CONFIG and --metrics FILE, or --all for the imported runs of the warehouse")
    test, config, file = inputs.conditions_in(arguments.config, arguments.test)
    measured = inputs.read_metrics(arguments.metrics)
    past = arguments.history
    test, history = inputs.runs_in(past, test, config, file) if past else (test or file.stem, [])
    past_curves = inputs.read_curves(past) if past and measured.curves else {}
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
    ended = "passed" if judgement.passed else "did not pass"
    if judgement.outcome is Outcome.RECORDED:
        ended = "recorded: there is no condition"
    give(arguments, judgement.document(), [*verdict_lines(judgement.verdicts), *alert_lines(judgement.alerts), ended])
    return 0 if judgement.passed else 1


def _after(history: Sequence[StoredMetric], measured: inputs.Measured) -> datetime:
    """A time for a run without one: that of its newest point, else now, but always after its history."""
    points = [metric.wall_time for metric in measured.metrics if metric.wall_time is not None]
    try:
        ended = datetime.fromtimestamp(max(points), UTC) if points else datetime.now(UTC)
    except (ValueError, OverflowError, OSError):
        ended = datetime.now(UTC)
    newest = max((point.timestamp for point in history), default=ended)
    return ended if ended > newest else newest + timedelta(microseconds=1)


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

    def document(self) -> dict[str, Any]:
        counts = {"runs": self.runs, "passed": self.passed, "did_not_pass": self.failed}
        return {"test": self.test, **counts, "problem": self.problem or None}


def judge_all(arguments: Arguments) -> int:
    """The runs of each test that have no verdict, in the order in which they ended."""
    with open_chosen(arguments) as warehouse, Progress() as progress:
        found = not_judged(warehouse)
        chosen = {name: keys for name, keys in found.items() if arguments.test in {"", name}}
        results = [_judge_test(warehouse, name, keys, progress) for name, keys in chosen.items()]
    rows = []
    for one in results:
        if not one.problem:
            rows.append((one.test, str(one.passed + one.failed), str(one.passed), str(one.failed)))
        elif not arguments.json:
            warn(f"{one.test}: {counted(one.runs, 'run')} not judged: {one.problem}")
    lines = [table(("test", "judged", "passed", "did not pass"), rows, right=(1, 2, 3))] if rows else []
    lines += [] if results else ["Every imported run is judged."]
    give(arguments, {"tests": [one.document() for one in results]}, lines)
    return 2 if any(one.problem for one in results) else 0


def _judge_test(warehouse: Warehouse, name: str, keys: set[str], progress: Progress) -> Judged:
    result = Judged(name, len(keys))
    try:
        config = load_test(Settings.load().config_root, name).regression_test_config
    except ConfigError as error:
        result.problem = f"its conditions are unknown: {error}"
        return result
    replayed = inputs.recorded_runs(warehouse, inputs.MAX_RUNS, name, config).replayed()
    judged = [one for one in replayed.runs if one.run_key in keys]
    for start in range(0, len(judged), PAGE_RUNS):
        _write(warehouse, judged[start : start + PAGE_RUNS], result)
        progress.show(f"{name}: {result.passed + result.failed} of {result.runs}")
    return result


def _write(warehouse: Warehouse, page: list[ReplayedRun], result: Judged) -> None:
    """Some runs at once, the oldest first, so that a killed command continues where it was."""
    judgements = {one.run_key: one.judgement for one in page}
    stored = stored_runs(warehouse, result.test, {one.run_key: one.timestamp for one in page})
    records = []
    for record in stored:
        judgement = judgements[record.key]
        verdict = str(Outcome.RECORDED) if judgement.outcome is Outcome.RECORDED else None
        records.append(with_verdicts(record, judgement.verdicts, verdict))
    warehouse.load_all(records)
    result.passed += sum(one.judgement.passed for one in page)
    result.failed += sum(not one.judgement.passed for one in page)
