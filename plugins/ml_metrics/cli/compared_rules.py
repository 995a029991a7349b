"""The comparison of rules that `ml-metrics replay --rule` prints."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from string import ascii_uppercase
from typing import TYPE_CHECKING

from ml_metrics.cli.arguments import UsageError
from ml_metrics.cli.output import counted, minute, number, table
from ml_metrics.config.problems import did_you_mean
from ml_metrics.judge.compared_rules import RUNS_TO_FIND, ComparedRules, compare_rules
from ml_metrics.judge.level_changes import changes_in
from ml_metrics.model import JobStatus
from ml_metrics.values import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ml_metrics.cli.past_runs import PastRuns
    from ml_metrics.cli.rule_argument import Rule
    from ml_metrics.config.regression import Condition
    from ml_metrics.judge.compared_rules import Finding, RuleOnMetric
    from ml_metrics.model import StoredMetric

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
