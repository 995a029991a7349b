"""Try conditions on past runs: every run of the history is judged by the runs before it, with the conditions of CONFIG
and the verdicts of this replay. Verdicts in the history are ignored. Exit code 1: a run did not pass.

The history has one of the forms that `ml-metrics judge` reads.

examples:
  ml-metrics history my-test --jsonl > history.jsonl
  ml-metrics replay vision.json --history history.jsonl
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.cli.arguments import add_json, text
from ml_metrics.cli.judge import config_of, history_of
from ml_metrics.cli.output import alert_lines, counted, minute, print_json, printable
from ml_metrics.judge import replay

if TYPE_CHECKING:
    import argparse

    from ml_metrics.judge import Replay


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `replay`."""
    parser.add_argument("config", type=text, metavar="CONFIG", help="a test file or a metric config")
    parser.add_argument("--history", type=text, metavar="FILE", required=True, help="the past runs")
    parser.add_argument("--test", default="", metavar="NAME", help="the test's name, if CONFIG does not state it")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replay the history, and print the alerts and the number of failures."""
    test, config = config_of(arguments.config, arguments.test)
    replayed = replay(config, history_of(arguments.history, test, config), test=test)
    if arguments.json:
        print_json(replayed.document())
    else:
        _print_table(replayed)
    return 0 if replayed.passed else 1


def _print_table(replayed: Replay) -> None:
    for run in replayed.runs:
        if run.judgement.alerts:
            print(f"{minute(run.timestamp)}  {printable(run.run_key)}")
            for line in alert_lines(run.judgement.alerts, indent="  "):
                print(line)
    print(f"{'runs':>8} {'fail':>8} {'alerts':>8}  metric")
    for metric, counts in replayed.summary().items():
        print(f"{counts['runs']:>8} {counts['fail']:>8} {counts['alerts']:>8}  {printable(metric)}")
    failed = sum(not run.judgement.passed for run in replayed.runs)
    print(f"{counted(len(replayed.runs), 'run')}, {failed} did not pass")
