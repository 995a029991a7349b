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

from collections import defaultdict
from functools import partial
from string import ascii_uppercase
from typing import TYPE_CHECKING

from ml_metrics.core.model import JobStatus
from ml_metrics.core.text import did_you_mean, printable
from ml_metrics.judge import RUNS_TO_FIND, ComparedRules, changes_in, compare_rules, replay
from ml_metrics.ui.cli.arguments import UsageError, text
from ml_metrics.ui.cli.output import alert_lines, counted, minute, number, print_json, table
from ml_metrics.ui.cli.past_runs import add_past_runs, past_runs
from ml_metrics.ui.cli.rule_argument import rule as a_rule

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from ml_metrics.config.conditions import Condition
    from ml_metrics.core.model import StoredMetric
    from ml_metrics.judge import Finding, Replay, RuleOnMetric
    from ml_metrics.ui.cli.past_runs import PastRuns
    from ml_metrics.ui.cli.rule_argument import Rule


OWN = "as configured"
"""The name of the test's own conditions among the rules."""
MAX_RULES = 20
HEAD = ("runs", "fail", "share", "alerts", "unmatched")
EXPLANATION = f"""\
alerts: failures after a run that did not fail; unmatched: those at no change
of the level. found: changes to the worse by which the rule fails within
{RUNS_TO_FIND} runs; late: after how many runs, in the middle of them."""


def compared(past: PastRuns, rules: Sequence[Rule], metrics: Sequence[str]) -> ComparedRules:
    """Compare rules with each other, with the test's own conditions, and with the lasting changes of the level."""
    names = [rule.name for rule in rules]
    twice = next((name for name in names if names.count(name) > 1 or name == OWN), None)
    if twice is not None:
        raise UsageError(
            f"--rule: {twice!r} is given twice, or is the name of the test's own conditions; write NAME=RULE"
        )
    if len(rules) > MAX_RULES:
        raise UsageError(f"--rule: give at most {MAX_RULES} rules, not {len(rules)}")
    rows: dict[str, list[StoredMetric]] = defaultdict(list)
    for row in past.rows:
        if (row.test or past.test) == past.test and row.metric and row.job_status is JobStatus.SUCCESS:
            rows[row.metric].append(row)
    for metric in metrics:
        if metric not in rows:
            near = did_you_mean(metric, rows) or "; `ml-metrics history` lists its metrics"
            raise UsageError(f"--metric: the past runs have no value of {metric!r}{near}")
    conditions: dict[str, Callable[[str], Condition | None]] = {}
    if past.config.metric_success_conditions:
        conditions[OWN] = past.config.condition_for
    for rule in rules:
        conditions[rule.name] = partial(_condition, rule, past)
    changes = {
        metric: changes_in(each, attributes=past.attributes)
        for metric, each in rows.items()
        if not metrics or metric in metrics
    }
    return compare_rules(
        conditions,
        past.rows,
        changes,
        test=past.test,
        metrics=changes,
        acceptances=past.acceptances,
        attributes=past.attributes,
    )


def _condition(rule: Rule, past: PastRuns, metric: str) -> Condition:
    return rule.condition(past.config.condition_for(metric))


def print_comparison(comparison: ComparedRules, past: PastRuns) -> None:
    """Print what each rule says in total, how it sees each change, and how often it fails on each metric."""
    letters = dict(zip(comparison.by_rule, ascii_uppercase, strict=False))
    runs = {row.run_key: row.timestamp for row in past.rows if (row.test or past.test) == past.test}
    span = f", {minute(min(runs.values()))} to {minute(max(runs.values()))}" if runs else ""
    print(f"{counted(len(runs), 'run')} of {printable(past.test) or 'the history'}{span}\n")
    totals = [(rule, comparison.total(rule)) for rule in comparison.by_rule]
    rows = [(f"{letters[rule]}  {rule}", *_counts(total), *_found(total)) for rule, total in totals if total]
    print(table(("rule", *HEAD, "found", "late"), rows, right=range(1, 8)))
    print(f"\n{EXPLANATION}\n")
    _print_findings(comparison.findings, letters)
    _print_metrics(comparison, letters)


def _counts(total: RuleOnMetric) -> tuple[str, ...]:
    share = f"{total.failed / total.runs:.1%}" if total.runs else "-"
    return str(total.runs), str(total.failed), share, str(total.begun), str(total.unmatched)


def _found(total: RuleOnMetric) -> tuple[str, str]:
    document = total.document()
    return f"{document['found']} of {document['changes']}", number(document["runs_late"])


def _print_findings(findings: Sequence[Finding], letters: Mapping[str, str]) -> None:
    if not findings:
        print("The level of no metric changed for good.")
        return
    rows = []
    for finding in findings:
        change = finding.change
        percent = "" if change.percent is None else f"{change.percent:+.3g} %"
        late = [_late(finding, rule) for rule in letters]
        rows.append(
            (finding.metric, minute(change.timestamp), number(change.before), number(change.after), percent, *late)
        )
    print(f"Changes of the level, and after how many runs each rule fails. -: not within {RUNS_TO_FIND}")
    head = ("metric", "first run", "before", "after", "", *letters.values())
    print(table(head, rows, right=range(2, len(head))))


def _late(finding: Finding, rule: str) -> str:
    """Return the runs before a rule fails, or nothing if it does not look for changes in this direction."""
    late = finding.late.get(rule)
    return "" if rule not in finding.late else "-" if late is None else str(late)


def _print_metrics(comparison: ComparedRules, letters: Mapping[str, str]) -> None:
    """Print the metrics that fail by some rule."""
    names = sorted({metric for metrics in comparison.by_rule.values() for metric in metrics})
    rows = [
        (metric, letters[rule], *_counts(one))
        for metric in names
        if any(metrics[metric].failed for metrics in comparison.by_rule.values() if metric in metrics)
        for rule, metrics in comparison.by_rule.items()
        if (one := metrics.get(metric)) is not None
    ]
    if rows:
        print(f"\n{table(('metric', 'rule', *HEAD), rows, right=range(2, 7))}")
    if never := len(names) - len({row[0] for row in rows}):
        print(f"\n{counted(never, 'metric')} never {'fails' if never == 1 else 'fail'} by any rule.")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `replay`."""
    add_past_runs(parser)
    parser.add_argument(
        "--rule", type=a_rule, action="append", default=[], metavar="RULE", help="a rule to compare; repeat it for more"
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
