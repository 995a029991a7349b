"""Try conditions on past runs: every run is judged by the runs before it, with the conditions of the test or of
CONFIG. Stored verdicts are ignored. Exit code 1: a run did not pass.

With --rule, other rules are compared with those conditions: how often each fails, and after how many runs it finds
lasting changes. The exit code is then 0. A rule is written in words, or as a name with the keys of a condition:

  less                    the default: no lasting rise of the level
  less 4 sd wait 10       4 standard deviations from the mean, from 10 runs on
  within 5 MAD and 3 %    5 MAD from the median, and off by at least 3 %
  less 5 %                5 % from the mean of the newest 100 runs
  less 5 % of best        5 % from the best level
  greater than 0.96       a fixed value
  NAME={comparison: less, success_threshold: {stddevs_from_mean: 3}}

Without `less`, `greater` or `within`, each metric keeps its own direction.

examples:
  ml-metrics replay tf-mnist-example-cpu
  ml-metrics replay stricter.yaml --test tf-mnist-example-cpu --runs 100
  ml-metrics replay my-test --rule "less" --rule "less 4 sd wait 10"
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from string import ascii_uppercase
from typing import Any

from pydantic import ValidationError

from ml_metrics.config.conditions import Comparison, Condition
from ml_metrics.config.document import Document
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.config.validation import problems_of
from ml_metrics.config.yaml import parse_yaml
from ml_metrics.core.model import JobStatus
from ml_metrics.core.text import counted, did_you_mean, printable
from ml_metrics.judge import RUNS_TO_FIND, ComparedRules, Finding, Replay, RuleOnMetric, changes_in, compare_rules
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_value
from ml_metrics.ui.cli.inputs import PastRuns, add_past_runs, past_runs
from ml_metrics.ui.cli.judge import alert_lines
from ml_metrics.ui.cli.output import give, minute, number, table

_NUMBER = r"(?P<{}>\d{{1,15}}(?:\.\d*)?|\.\d+)"
_WORDS = re.compile(
    rf"""(?P<comparison>less|greater|within)?\s*
    (?: (?:than\s+)(?P<fixed>[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)
      | {_NUMBER.format("size")}\s*(?P<unit>sd|sigma|mad|%|percent)
      | (?P<change>change[_ ]points?)
    )?
    (?:\s*of\s+(?:the\s+)?(?P<against>best|mean|median)(?:\s+level)?)?
    (?:\s*and\s+{_NUMBER.format("least")}\s*%)?
    (?:\s*(?:wait\s+(?P<wait>\d{{1,9}})|window\s+(?P<window>\d{{1,9}})))*""",
    re.VERBOSE | re.IGNORECASE,
)
_UNITS = {
    **dict.fromkeys(("sd", "sigma"), ("stddevs_from_mean", "mean")),
    **dict.fromkeys(("%", "percent"), ("percent_difference", "mean")),
    "mad": ("mads_from_median", "median"),
    "": ("", ""),
}
"""The threshold in such units, and what it is from."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule to try."""

    name: str
    content: dict[str, Any]
    """The keys of a condition, perhaps without `comparison`."""

    def condition(self, own: Condition | None) -> Condition:
        """In the direction of the metric's own one if the rule has none, and relative to the same metric."""
        way = Comparison.WITHIN if own is None else own.comparison
        directed = Comparison(way.removesuffix("_or_equal"))
        comparison = Comparison.WITHIN if directed is Comparison.EQUAL else directed
        reference = {} if own is None or own.relative_to is None else {"relative_to": own.relative_to}
        try:
            return Condition.model_validate({"comparison": comparison, **reference, **self.content})
        except ValidationError as error:
            raise UsageError(
                f"--rule {self.name!r}: begin it with `less` or `greater`: a metric has no direction of its own"
            ) from error


def rule(argument: str) -> Rule:
    name, equals, rest = argument.partition("=")
    named = equals and not re.search(r"[{:]", name)
    name, text = (name.strip(), rest.strip()) if named else (argument.strip(), argument.strip())
    content = _mapping(text) if text.startswith("{") else _in_words(text)
    if not name or content is None:
        raise argparse.ArgumentTypeError(
            f"{argument!r} is not a rule; write one like 'less 4 sd', 'within 5 MAD', 'less 5 % of best', "
            "'less' or NAME={comparison: less, success_threshold: {...}}"
        )
    _check(argument, content)
    return Rule(" ".join(name.split()), content)


def _mapping(text: str) -> dict[str, Any] | None:
    try:
        content, _, _ = parse_yaml(text, "--rule")
    except InvalidFileError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error.problems[0].what}") from error
    return content if isinstance(content, dict) else None


def _in_words(text: str) -> dict[str, Any] | None:
    found = _WORDS.fullmatch(text.strip())
    if found is None or not text.strip():
        return None
    word = found.groupdict()
    threshold, level = _UNITS[(word["unit"] or "").lower()]
    content: dict[str, Any] = {"comparison": word["comparison"].lower()} if word["comparison"] else {}
    if word["fixed"]:
        content["success_threshold"] = {"fixed_value": float(word["fixed"])}
    elif threshold:
        content["success_threshold"] = {threshold: float(word["size"])}
    elif word["change"]:
        content["success_threshold"] = {"change_point": {}}
    against = (word["against"] or "").lower()
    if against == "best":
        content["against"] = "best"
    elif against and against != level:
        return None
    if word["least"]:
        content["min_change"] = {"percent": float(word["least"])}
    counts = {"wait_for_n_points_of_history": word["wait"], "window": word["window"]}
    return content | {key: int(value) for key, value in counts.items() if value}


def _check(argument: str, content: dict[str, Any]) -> None:
    try:
        Condition.model_validate({"comparison": "less", **content})
    except ValidationError as error:
        problems = problems_of(error, Document(argument, content), Condition)
        found = "; ".join(": ".join(part for part in (each.path, each.what) if part) for each in problems)
        raise argparse.ArgumentTypeError(f"{argument!r}: {found}") from error


OWN = "as configured"
"""The name of the test's own conditions among the rules."""
MAX_RULES = 20
HEAD = ("runs", "fail", "share", "alerts", "unmatched")
EXPLANATION = f"""\
alerts: failures after a run that did not fail; unmatched: those at no change
of the level. found: changes to the worse by which the rule fails within
{RUNS_TO_FIND} runs; late: after how many runs, in the middle of them."""


def compared(past: PastRuns, rules: Sequence[Rule], metrics: Sequence[str]) -> ComparedRules:
    """With each other, with the test's own conditions, and with the lasting changes of the level."""
    names = [one.name for one in rules]
    twice = next((name for name in names if names.count(name) > 1 or name == OWN), None)
    if twice is not None:
        raise UsageError(
            f"--rule: {twice!r} is given twice, or is the name of the test's own conditions; write NAME=RULE"
        )
    if len(rules) > MAX_RULES:
        raise UsageError(f"--rule: give at most {MAX_RULES} rules, not {len(rules)}")
    by_metric = {
        metric: [row for row in each if row.job_status is JobStatus.SUCCESS]
        for metric, each in past.by_metric().items()
    }
    rows = {metric: each for metric, each in by_metric.items() if each}
    for metric in metrics:
        if metric not in rows:
            near = did_you_mean(metric, rows) or "; `ml-metrics history` lists its metrics"
            raise UsageError(f"--metric: the past runs have no value of {metric!r}{near}")
    conditions: dict[str, Callable[[str], Condition | None]] = {}
    if past.config.metric_success_conditions:
        conditions[OWN] = past.config.condition_for
    for one in rules:
        conditions[one.name] = partial(_condition, one, past)
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


def comparison_lines(comparison: ComparedRules, past: PastRuns) -> Iterator[str]:
    letters = dict(zip(comparison.by_rule, ascii_uppercase, strict=False))
    runs = {row.run_key: row.timestamp for row in past.rows if (row.test or past.test) == past.test}
    span = f", {minute(min(runs.values()))} to {minute(max(runs.values()))}" if runs else ""
    yield f"{counted(len(runs), 'run')} of {printable(past.test) or 'the history'}{span}\n"
    rows = []
    for rule in comparison.by_rule:
        if total := comparison.total(rule):
            document = total.document()
            found = f"{document['found']} of {document['changes']}", number(document["runs_late"])
            rows.append((f"{letters[rule]}  {rule}", *_counts(total), *found))
    yield table(("rule", *HEAD, "found", "late"), rows, right=range(1, 8))
    yield f"\n{EXPLANATION}\n"
    yield from _findings(comparison.findings, letters)
    yield from _metrics(comparison, letters)


def _counts(total: RuleOnMetric) -> tuple[str, ...]:
    share = f"{total.failed / total.runs:.1%}" if total.runs else "-"
    return str(total.runs), str(total.failed), share, str(total.begun), str(total.unmatched)


def _findings(findings: Sequence[Finding], letters: Mapping[str, str]) -> Iterator[str]:
    if not findings:
        yield "The level of no metric changed for good."
        return
    rows = []
    for finding in findings:
        change = finding.change
        percent = "" if change.percent is None else f"{change.percent:+.3g} %"
        # empty if the rule does not look for changes in this direction
        runs = {rule: "-" if late is None else str(late) for rule, late in finding.late.items()}
        late = [runs.get(rule, "") for rule in letters]
        rows.append(
            (finding.metric, minute(change.timestamp), number(change.before), number(change.after), percent, *late)
        )
    yield f"Changes of the level, and after how many runs each rule fails. -: not within {RUNS_TO_FIND}"
    head = ("metric", "first run", "before", "after", "", *letters.values())
    yield table(head, rows, right=range(2, len(head)))


def _metrics(comparison: ComparedRules, letters: Mapping[str, str]) -> Iterator[str]:
    names = sorted({metric for metrics in comparison.by_rule.values() for metric in metrics})
    rows = [
        (metric, letters[rule], *_counts(one))
        for metric in names
        if any(metrics[metric].failed for metrics in comparison.by_rule.values() if metric in metrics)
        for rule, metrics in comparison.by_rule.items()
        if (one := metrics.get(metric)) is not None
    ]
    if rows:
        yield f"\n{table(('metric', 'rule', *HEAD), rows, right=range(2, 7))}"
    if never := len(names) - len({row[0] for row in rows}):
        yield f"\n{counted(never, 'metric')} never {'fails' if never == 1 else 'fail'} by any rule."


def add_arguments(parser: Parser) -> None:
    add_past_runs(parser)
    add_value(parser, "--rule", "RULE", "a rule to compare; repeatable", rule, action="append", default=[])
    about = "compare the rules on this metric; repeatable"
    add_value(parser, "--metric", "NAME", about, action="append", default=[])


def run(arguments: Arguments) -> int:
    if arguments.metric and not arguments.rule:
        raise UsageError("--metric chooses the metrics for --rule; give a rule, such as --rule 'less 4 sd wait 10'")
    past = past_runs(arguments, config_required=not arguments.rule)
    if arguments.rule:
        comparison = compared(past, arguments.rule, arguments.metric)
        give(arguments, comparison.document(), comparison_lines(comparison, past))
        return 0
    replayed = past.replayed()
    give(arguments, replayed.document(), _lines(replayed))
    return 0 if replayed.passed else 1


def _lines(replayed: Replay) -> Iterator[str]:
    for run in replayed.runs:
        if run.judgement.alerts:
            yield f"{minute(run.timestamp)}  {printable(run.run_key)}"
            yield from alert_lines(run.judgement.alerts, indent="  ")
    yield f"{'runs':>8} {'fail':>8} {'alerts':>8}  metric"
    for metric, counts in replayed.summary().items():
        yield f"{counts['runs']:>8} {counts['fail']:>8} {counts['alerts']:>8}  {printable(metric)}"
    failed = sum(not run.judgement.passed for run in replayed.runs)
    yield f"{counted(len(replayed.runs), 'run')}, {failed} did not pass"
