"""Try conditions on past runs: every run is judged by the runs before it, with the conditions of the test or of CONFIG
and the verdicts of this replay. Stored verdicts are ignored. Exit code 1: a run did not pass.

The runs are those of the warehouse, or of a file in one of the forms that `ml-metrics judge` reads.

examples:
  ml-metrics replay tf-mnist-example-cpu
  ml-metrics replay stricter.yaml --test tf-mnist-example-cpu --runs 100
  ml-metrics replay vision.json --history history.jsonl
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.cli.output import alert_lines, counted, minute, print_json, printable
from ml_metrics.cli.past_runs import add_past_runs, past_runs
from ml_metrics.judge import replay

if TYPE_CHECKING:
    import argparse

    from ml_metrics.judge import Replay


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `replay`."""
    add_past_runs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replay the history, and print the alerts and the number of failures."""
    past = past_runs(arguments)
    replayed = replay(past.config, past.rows, test=past.test, acceptances=past.acceptances)
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
