"""Compares rules on past runs: how often each fails, and how late it finds the lasting changes of the level."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from ml_metrics.config.regression import DEFAULT, RegressionTestConfig
from ml_metrics.judge.replay import beginnings, replay
from ml_metrics.model import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ml_metrics.config.regression import Condition
    from ml_metrics.judge.history import Acceptance
    from ml_metrics.judge.level_changes import Change
    from ml_metrics.judge.replay import Replay
    from ml_metrics.model import StoredMetric

RUNS_TO_FIND = 15
"""A rule finds a change if it fails within this many runs."""
BEFORE = 2
"""How many runs before the first run of a new level an alert may begin that belongs to it: noise hides the edge."""
Place = tuple[str, str]
"""A metric, and the first run of its new level."""
VALUED = frozenset({Outcome.PASS, Outcome.FAIL, Outcome.INSUFFICIENT_DATA})
"""The outcomes of a value that a successful run produced."""


@dataclass(frozen=True, slots=True)
class RuleOnMetric:
    """The verdicts of a rule on one metric."""

    condition: Condition
    runs: int
    """The runs that were judged; those with too short a history are not."""
    failed: int
    begun: int
    """The alerts: failed runs after a run that did not fail."""
    unmatched: int
    """The alerts that begin at no change of level."""
    late: Mapping[Place, int | None]
    """For each change in the direction of the rule: the runs before it fails, or None if it does not fail in time."""

    def document(self) -> dict[str, Any]:
        """Return the counts as JSON."""
        found = [runs for runs in self.late.values() if runs is not None]
        return {
            "runs": self.runs,
            "fail": self.failed,
            "share": self.failed / self.runs if self.runs else None,
            "alerts": self.begun,
            "unmatched": self.unmatched,
            "changes": len(self.late),
            "found": len(found),
            "runs_late": median(found) if found else None,
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """A lasting change of the level of a metric, and how each rule saw it."""

    metric: str
    change: Change
    late: Mapping[str, int | None]
    """By rule, without those for the other direction: the runs before it fails, or None if it does not in time."""

    def document(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        change = self.change
        return {
            "metric": self.metric,
            "uuid": change.run_key,
            "timestamp": change.timestamp.isoformat(),
            "before": change.before,
            "after": change.after,
            "certainty": change.certainty,
            "runs_late": dict(self.late),
        }


@dataclass(frozen=True, slots=True)
class ComparedRules:
    """Rules on the past runs of a test."""

    by_rule: Mapping[str, Mapping[str, RuleOnMetric]]
    """The verdicts of each rule, by metric."""
    findings: tuple[Finding, ...]
    """By metric, then by time."""

    def total(self, rule: str) -> RuleOnMetric | None:
        """Return the verdicts of a rule on all metrics together, or None if it judges none."""
        each = list(self.by_rule[rule].values())
        if not each:
            return None
        return RuleOnMetric(
            condition=each[0].condition,
            runs=sum(one.runs for one in each),
            failed=sum(one.failed for one in each),
            begun=sum(one.begun for one in each),
            unmatched=sum(one.unmatched for one in each),
            late={place: runs for one in each for place, runs in one.late.items()},
        )

    def document(self) -> dict[str, Any]:
        """Return the document of `ml-metrics replay --rule ... --json`."""
        totals = {rule: self.total(rule) for rule in self.by_rule}
        return {
            "rules": {rule: total.document() for rule, total in totals.items() if total is not None},
            "metrics": {
                rule: {metric: one.document() for metric, one in metrics.items()}
                for rule, metrics in self.by_rule.items()
            },
            "findings": [finding.document() for finding in self.findings],
        }


def compare_rules(  # noqa: PLR0913  (a comparison depends on all of these)
    rules: Mapping[str, Callable[[str], Condition | None]],
    rows: Sequence[StoredMetric],
    changes: Mapping[str, Sequence[Change]],
    *,
    test: str = "",
    metrics: Iterable[str] = (),
    acceptances: Sequence[Acceptance] = (),
    attributes: Mapping[str, Mapping[str, str]] | None = None,
) -> ComparedRules:
    """Judge each run by the runs before it with each rule, and compare its alerts with the changes of level.

    Args:
        rules: by name, the condition of each metric; None where the rule does not judge it.
        rows: the past runs of the test, and of those that it is compared with.
        changes: the lasting changes of level, by metric, oldest first.
        test: the name of the test.
        metrics: the metrics to judge; without any, all.
        acceptances: the levels that users accepted.
        attributes: what is recorded about each run, by its key.
    """
    names = sorted(set(metrics) or {row.metric for row in rows if (row.test or test) == test} - {"", DEFAULT})
    by_rule: dict[str, dict[str, RuleOnMetric]] = {}
    for rule, condition_of in rules.items():
        given = {name: condition for name in names if (condition := condition_of(name)) is not None}
        config = RegressionTestConfig(metric_success_conditions=given)
        replayed = replay(config, rows, test=test, acceptances=acceptances, attributes=attributes)
        by_rule[rule] = {
            metric: _on_metric(metric, given[metric], outcomes, changes.get(metric, ()))
            for metric, outcomes in _outcomes(replayed).items()
        }
    findings = tuple(
        Finding(metric, change, _late(by_rule, (metric, change.run_key)))
        for metric in names
        for change in changes.get(metric, ())
    )
    return ComparedRules(by_rule, findings)


def _outcomes(replayed: Replay) -> dict[str, dict[str, Outcome]]:
    """Return the outcomes of each metric by run, oldest first, where the run produced a value."""
    found: dict[str, dict[str, Outcome]] = defaultdict(dict)
    for run in replayed.runs:
        for verdict in run.judgement.verdicts:
            if verdict.outcome in VALUED and verdict.value is not None:
                found[verdict.metric][run.run_key] = verdict.outcome
    return found


def _on_metric(
    metric: str, condition: Condition, outcomes: Mapping[str, Outcome], changes: Sequence[Change]
) -> RuleOnMetric:
    failing = [outcome is Outcome.FAIL for outcome in outcomes.values()]
    levels = [level for level in _levels(outcomes, changes) if _is_worse(level.change, condition)]
    begun = beginnings(failing)
    return RuleOnMetric(
        condition,
        runs=sum(outcome is not Outcome.INSUFFICIENT_DATA for outcome in outcomes.values()),
        failed=sum(failing),
        begun=len(begun),
        unmatched=sum(not any(level.holds(place) for level in levels) for place in begun),
        late={(metric, level.change.run_key): level.runs_before_a_failure(failing) for level in levels},
    )


@dataclass(frozen=True, slots=True)
class _Level:
    """The runs at the level after a change."""

    change: Change
    first: int
    end: int
    """The first run of the next level, or the number of runs."""

    def runs_before_a_failure(self, failing: Sequence[bool]) -> int | None:
        in_time = failing[self.first : min(self.end, self.first + RUNS_TO_FIND)]
        return in_time.index(True) if True in in_time else None

    def holds(self, place: int) -> bool:
        """Whether an alert that begins at a run belongs to the change."""
        return self.first - BEFORE <= place < max(self.end, self.first + RUNS_TO_FIND)


def _levels(outcomes: Mapping[str, Outcome], changes: Sequence[Change]) -> list[_Level]:
    places = {run: place for place, run in enumerate(outcomes)}
    known = [(change, places[change.run_key]) for change in changes if change.run_key in places]
    ends = [*(first for _, first in known), len(outcomes)][1:]
    return [_Level(change, first, end) for (change, first), end in zip(known, ends, strict=True)]


def _is_worse(change: Change, condition: Condition) -> bool:
    """Whether a rule looks for changes in this direction."""
    comparison = condition.comparison
    return comparison.bounds_above if change.after > change.before else comparison.bounds_below


def _late(by_rule: Mapping[str, Mapping[str, RuleOnMetric]], place: Place) -> dict[str, int | None]:
    metric = place[0]
    return {
        rule: metrics[metric].late[place]
        for rule, metrics in by_rule.items()
        if metric in metrics and place in metrics[metric].late
    }
