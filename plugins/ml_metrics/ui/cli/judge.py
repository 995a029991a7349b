"""Judge the metrics of one run by the conditions of CONFIG and by the runs before it. Exit code 1: the run did not
pass.

The metrics are the output of `ml-metrics collect --json`, or {name: value}. The history is the output of `ml-metrics
history --jsonl` or `--json`, or JSON lines of {"uuid", "timestamp", "metric_name", "metric_value", "job_status",
"verdict"}.

With --all, the imported runs that have no verdict are judged by the test files of the settings, oldest first. No
message is sent. Exit code 2: the conditions of a test are unknown.

examples:
  ml-metrics judge vision.json --metrics metrics.json --history h.jsonl
  ml-metrics judge --all
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ml_metrics.config.loading import load_test
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.model import Bounds, JobStatus, Outcome, Severity, StoredMetric, Verdict
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import counted, printable
from ml_metrics.core.units import interval
from ml_metrics.judge import Alert, judge_run
from ml_metrics.ui.cli import inputs
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_flag, add_value, moment
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.ui.cli.output import Progress, give, indented, number, table, warn, wrapped
from ml_metrics.warehouse import Warehouse, not_judged, stored_runs, with_verdicts


def add_arguments(parser: Parser) -> None:
    add_value(parser, "config", "CONFIG", "a test file or a metric config", nargs="?")
    add_flag(parser, "--all", "judge the imported runs of the warehouse")
    add_value(parser, "--metrics", "FILE", "the metrics of the run")
    add_value(parser, "--history", "FILE", "the runs before it; default: none")
    parser.add_argument(
        "--status", choices=[str(each) for each in JobStatus], default="success", help="how the workload ended"
    )
    about = "if CONFIG does not state it; with --all, the only test"
    add_value(parser, "--test", "NAME", about, str, default="")
    add_value(parser, "--run", "UUID", "its key: its own rows of the history are left out", str, default="")
    add_value(parser, "--at", "TIME", "when it ended: later history is left out; default: after all", moment)
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


def judge_all(arguments: Arguments) -> int:
    """The runs of each test that have no verdict, in the order in which they ended."""
    with open_chosen(arguments) as warehouse, Progress() as progress:
        found = {test: keys for test, keys in not_judged(warehouse).items() if arguments.test in {"", test}}
        results = [_judge_test(warehouse, test, keys, progress) for test, keys in found.items()]
    for one in results:
        if one["problem"] and not arguments.json:
            warn(f"{one['test']}: {counted(one['runs'], 'run')} not judged: {one['problem']}")
    rows = [
        (one["test"], str(one["passed"] + one["did_not_pass"]), str(one["passed"]), str(one["did_not_pass"]))
        for one in results
        if not one["problem"]
    ]
    lines = [table(("test", "judged", "passed", "did not pass"), rows, right=(1, 2, 3))] if rows else []
    lines += [] if results else ["Every imported run is judged."]
    give(arguments, {"tests": results}, lines)
    return 2 if any(one["problem"] for one in results) else 0


def _judge_test(warehouse: Warehouse, test: str, keys: set[str], progress: Progress) -> dict[str, Any]:
    result: dict[str, Any] = {"test": test, "runs": len(keys), "passed": 0, "did_not_pass": 0, "problem": None}
    try:
        config = load_test(Settings.load().config_root, test).regression_test_config
    except ConfigError as error:
        return {**result, "problem": f"its conditions are unknown: {error}"}
    replayed = inputs.recorded_runs(warehouse, inputs.MAX_RUNS, test, config).replayed()
    judged = [one for one in replayed.runs if one.run_key in keys]
    # some runs at once, the oldest first, so that a killed command continues where it was
    for start in range(0, len(judged), PAGE_RUNS):
        page = {one.run_key: one for one in judged[start : start + PAGE_RUNS]}
        records = []
        for record in stored_runs(warehouse, test, {key: one.timestamp for key, one in page.items()}):
            judgement = page[record.key].judgement
            verdict = str(Outcome.RECORDED) if judgement.outcome is Outcome.RECORDED else None
            records.append(with_verdicts(record, judgement.verdicts, verdict))
        warehouse.load_all(records)
        for one in page.values():
            result["passed" if one.judgement.passed else "did_not_pass"] += 1
        progress.show(f"{test}: {result['passed'] + result['did_not_pass']} of {len(keys)}")
    return result


def verdict_lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    if not verdicts:
        yield "No condition covers any metric of this run: nothing was judged."
    for verdict in verdicts:
        severity = " (warn)" if verdict.severity is Severity.WARN and verdict.outcome is not Outcome.PASS else ""
        limits = verdict.bounds or Bounds()
        required = interval(limits.lower, limits.upper, verdict.unit, inclusive=limits.inclusive)
        bounds = f", must be {required}" if verdict.bounds else ""
        why = "; ".join(part for part in (verdict.rule, verdict.reason) if part)
        yield f"{verdict.outcome.replace('_', ' ') + severity:<18} {printable(verdict.metric)}"
        yield from indented(f"value {number(verdict.value, verdict.unit)}{bounds}")
        yield from indented(f"{why} [{verdict.baseline_points} runs]" if verdict.baseline_points else why)


def alert_lines(alerts: Iterable[Alert], indent: str = "") -> Iterator[str]:
    for alert in alerts:
        reason = f" ({alert.reason})" if alert.reason else ""
        yield from wrapped(f"alert: {alert.message}{reason}", indent, f"{indent}  ")
