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

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.cli.arguments import UsageError, moment, text
from ml_metrics.cli.chosen_warehouse import add_warehouse
from ml_metrics.cli.output import alert_lines, print_json, verdict_lines
from ml_metrics.cli.past_runs import conditions_in, runs_in
from ml_metrics.judge import judge_run
from ml_metrics.judge.input_files import read_curves, read_metrics
from ml_metrics.model import JobStatus, Outcome

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ml_metrics.judge.input_files import Measured
    from ml_metrics.model import StoredMetric

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
        from ml_metrics.cli.judge_all import judge_all

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
