"""`ml-metrics replay`: judge every run of a history by what came before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.cli.judge import config_of, history_of
from ml_metrics.cli.output import print_json
from ml_metrics.cli.verdict_table import alert_lines, printable
from ml_metrics.judge import replay

if TYPE_CHECKING:
    import argparse

    from ml_metrics.judge import Replay

ABOUT = """\
Try conditions on the past: every run of the history is judged by what came
before it, with the conditions of CONFIG and the verdicts of this replay;
verdicts that the history holds are not asked. Exit code 1: a run did not pass.

example:
  ml-metrics replay vision.json --history history.jsonl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("config", metavar="CONFIG", help="a test file or a metric config")
    parser.add_argument("--history", metavar="FILE", required=True, help="the runs, as JSON lines")
    parser.add_argument("--test", metavar="NAME", default="", help="the test's name, if CONFIG does not tell it")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Replay and print."""
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
            print(f"{run.timestamp:%Y-%m-%d %H:%M}  {printable(run.run_key)}")
            for line in alert_lines(run.judgement.alerts, indent="  "):
                print(line)
    print(f"{'runs':>8} {'fail':>8} {'alerts':>8}  metric")
    for metric, counts in replayed.summary().items():
        print(f"{counts['runs']:>8} {counts['fail']:>8} {counts['alerts']:>8}  {printable(metric)}")
    bad = sum(not run.judgement.passed for run in replayed.runs)
    print(f"{len(replayed.runs)} runs, {bad} did not pass")
