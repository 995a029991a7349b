"""Try conditions on past runs: every run is judged by the runs before it, with the conditions of the test or of CONFIG
and the verdicts of this replay. Stored verdicts are ignored. Exit code 1: a run did not pass.

The runs are those of the warehouse, or of a file in one of the forms that `ml-metrics judge` reads.

With --rule, other rules are compared with those conditions: how often each fails, and after how many runs it finds the
lasting changes of the level. The exit code is then 0. A rule is written in words, or as a name with the keys of a
condition:

  less                    the default: no lasting rise of the level
  less 4 sd wait 10       4 standard deviations from the mean, from 10 runs on
  within 5 MAD and 3 %    5 MAD from the median, and off by at least 3 %
  less 5 %                5 % from the mean of the newest 100 runs
  less 5 % of best        5 % from the best level
  greater than 0.96       a fixed value
  NAME={comparison: less, success_threshold: {stddevs_from_mean: 3}}

Without `less`, `greater` or `within`, each metric keeps the direction of its own condition.

examples:
  ml-metrics replay tf-mnist-example-cpu
  ml-metrics replay stricter.yaml --test tf-mnist-example-cpu --runs 100
  ml-metrics replay vision.json --history history.jsonl
  ml-metrics replay my-test --rule "less" --rule "less 4 sd wait 10"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.cli.arguments import UsageError, text
from ml_metrics.cli.compared_rules import compared, print_comparison
from ml_metrics.cli.output import alert_lines, counted, minute, print_json
from ml_metrics.cli.past_runs import add_past_runs, past_runs
from ml_metrics.cli.rule_argument import rule
from ml_metrics.judge import replay
from ml_metrics.values import printable

if TYPE_CHECKING:
    import argparse

    from ml_metrics.judge import Replay


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `replay`."""
    add_past_runs(parser)
    parser.add_argument(
        "--rule", type=rule, action="append", default=[], metavar="RULE", help="a rule to compare; repeat it for more"
    )
    parser.add_argument(
        "--metric",
        type=text,
        action="append",
        default=[],
        metavar="NAME",
        help="compare the rules on this metric alone; repeat it for more; default: all metrics",
    )


def run(arguments: argparse.Namespace) -> int:
    """Replay the history, and print the alerts and the number of failures; with `--rule`, compare rules."""
    if arguments.metric and not arguments.rule:
        raise UsageError("--metric chooses the metrics for --rule; give a rule, such as --rule 'less 4 sd wait 10'")
    past = past_runs(arguments, config_required=not arguments.rule)
    if arguments.rule:
        comparison = compared(past, arguments.rule, arguments.metric)
        if arguments.json:
            print_json(comparison.document())
        else:
            print_comparison(comparison, past)
        return 0
    replayed = replay(
        past.config,
        past.rows,
        test=past.test,
        acceptances=past.acceptances,
        attributes=past.attributes,
        curves=past.curves,
    )
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
