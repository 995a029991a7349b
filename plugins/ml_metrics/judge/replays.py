"""Replays: past runs judged again, each by the runs before it, and what several rules would have found in them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from itertools import chain, pairwise
from statistics import median
from typing import Any

from ml_metrics.config.conditions import DEFAULT, Condition, RegressionTestConfig
from ml_metrics.core.model import JobStatus, Metric, Outcome, StoredMetric
from ml_metrics.core.values import BEGINNING_OF_TIME, as_utc, finite
from ml_metrics.judge.changes import Change
from ml_metrics.judge.history import (
    Acceptance,
    Curves,
    CurvesOfRuns,
    EarlierRuns,
    by_series,
    in_newest_units,
    moment_of,
    worse_side,
    worst,
)
from ml_metrics.judge.judgement import AlertKind, Judgement
from ml_metrics.judge.relative import quotients
from ml_metrics.judge.run import judge_after


class ReplayedHistory(EarlierRuns):
    """The runs before the one that a replay judges now.

    The rows of the test itself are added in the order of its runs, so they need no sorting. The rows of other tests are
    sorted once.
    """

    keeps_levels = True

    def __init__(self, others: Iterable[StoredMetric], acceptances: Sequence[Acceptance] = (), **rest: Any) -> None:
        """Begin with the rows of other tests."""
        super().__init__(others, run_key="", now=BEGINNING_OF_TIME, **rest)
        self._all_acceptances = acceptances
        self._others = {key: sorted(rows, key=moment_of) for key, rows in self._rows.items()}
        self.runs = []

    def begin(self, run_key: str, now: datetime, run_id: str = "") -> None:
        """Go on to the next run, which ended at `now`. An acceptance applies from its own time on."""
        self.run_key, self.now, self.run_id = run_key, now, run_id
        if self._all_acceptances:
            in_force = [each for each in self._all_acceptances if as_utc(each.accepted_at) <= now]
            self._acceptances = by_series(in_force, self.test)
        for key in self._others:
            self._ordered.pop(key, None)

    def add(self, rows: Sequence[StoredMetric]) -> None:
        for row in rows:
            key = (self.test, row.metric)
            if key not in self._rows:
                self._rows[key] = self._ordered[key] = []
            self._rows[key].append(row)
        self.runs += rows[:1]

    def rows(self, metric: str, test: str | None = None) -> list[StoredMetric]:
        key = (test or self.test, metric)
        if key in self._others and key not in self._ordered:
            rows = self._others[key]
            self._ordered[key] = self._in_order(rows[: bisect_left(rows, (self.now, self.run_key), key=moment_of)])
        return self._ordered.get(key, [])


@dataclass(frozen=True, slots=True)
class ReplayedRun:
    """One run of the history with its new judgement."""

    run_key: str
    timestamp: datetime
    judgement: Judgement

    def document(self) -> dict[str, Any]:
        document = {"uuid": self.run_key, "timestamp": self.timestamp.isoformat(), **self.judgement.document()}
        del document["passed"]
        return document


@dataclass(frozen=True, slots=True)
class Replay:
    """Every run of a history, judged by the runs before it."""

    runs: tuple[ReplayedRun, ...]

    @property
    def passed(self) -> bool:
        return all(run.judgement.passed for run in self.runs)

    def summary(self) -> dict[str, dict[str, int]]:
        """In how many runs each metric was judged, failed and alerted; an implausibly good value is no alert."""
        counts: dict[str, dict[str, int]] = defaultdict(lambda: {"runs": 0, "fail": 0, "alerts": 0})
        for run in self.runs:
            for verdict in run.judgement.verdicts:
                counts[verdict.metric]["runs"] += 1
                counts[verdict.metric]["fail"] += verdict.outcome is Outcome.FAIL
            for alert in run.judgement.alerts:
                if alert.metric is not None and alert.kind is not AlertKind.IMPLAUSIBLE:
                    counts[alert.metric]["alerts"] += 1
        return dict(sorted(counts.items()))

    def document(self) -> dict[str, Any]:
        """The document of `ml-metrics replay --json`."""
        return {"runs": [run.document() for run in self.runs], "summary": self.summary()}


def beginnings(failing: Iterable[bool]) -> list[int]:
    """The places at which a metric begins to fail: each is an alert."""
    return [place for place, (before, now) in enumerate(pairwise(chain((False,), failing))) if now and not before]


def replay(
    config: RegressionTestConfig,
    history: Iterable[StoredMetric],
    *,
    test: str = "",
    acceptances: Sequence[Acceptance] = (),
    attributes: Mapping[str, Mapping[str, str]] | None = None,
    curves: CurvesOfRuns | None = None,
) -> Replay:
    """Judge each run of a test by the runs that ended before it, as `judge_run` would have at that time.

    The verdicts of the replay replace the stored ones, so the given conditions decide which runs are in a baseline. An
    acceptance applies from its own time on. Runs are ordered by their end, the newest time among their rows. Rows of
    other tests serve as history for `compare_to`. Without `curves`, those of the runs, conditions with `curve` do not
    decide.
    """

    def side_of(metric: str) -> int:
        return worse_side(config.condition_for(metric))

    own: dict[str, list[StoredMetric]] = defaultdict(list)
    others: list[StoredMetric] = []
    for row in in_newest_units(history):
        (own[row.run_key] if (row.test or test) == test else others).append(row)
    ended = {key: max(as_utc(row.timestamp) for row in rows) for key, rows in own.items()}
    seen: dict[str, list[StoredMetric]] = defaultdict(list)
    earlier = ReplayedHistory(
        quotients(config, others, test),
        acceptances,
        test=test,
        attributes=attributes,
        side_of=side_of,
        curves=Curves(curves),
    )
    replayed = []
    for key in sorted(own, key=lambda key: (ended[key], key)):
        rows = own[key]
        status = next((row.job_status for row in rows if row.job_status is not JobStatus.SUCCESS), JobStatus.SUCCESS)
        rerun = next((row.rerun for row in rows if row.rerun), "")
        metrics, missing = _measured(rows, seen, side_of)
        earlier.begin(key, ended[key], rerun)
        judgement = judge_after(config, list(metrics.values()), earlier, status=status, missing=missing)
        outcomes = {verdict.metric: verdict.outcome for verdict in judgement.verdicts}
        stored = []
        for name in dict.fromkeys([*(row.metric for row in rows), *metrics, *outcomes]):
            metric, outcome = metrics.get(name), outcomes.get(name)
            value, share = (finite(metric.value), metric.non_finite / metric.points) if metric else (None, 0.0)
            row = StoredMetric(
                key, ended[key], name, value, status, outcome, test, non_finite=share or None, rerun=rerun
            )
            stored.append(row)
        earlier.add(quotients(config, stored, test))
        replayed.append(ReplayedRun(key, ended[key], judgement))
    return Replay(tuple(replayed))


def _measured(
    rows: list[StoredMetric], seen: dict[str, list[StoredMetric]], side_of: Callable[[str], int]
) -> tuple[dict[str, Metric], dict[str, str]]:
    """The metrics that a run produced, each once, and the reasons for those that it failed to produce."""
    newest: dict[str, list[StoredMetric]] = {}
    missing: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: (row.metric, as_utc(row.timestamp))):
        if not row.metric or (row.value is None and row.outcome in {Outcome.MISSING, Outcome.SKIPPED}):
            continue
        if row.value is None and row.outcome is Outcome.FAIL:
            missing[row.metric] = "the run stored no value for it"
            continue
        same_time = [each for each in newest.get(row.metric, ()) if as_utc(each.timestamp) == as_utc(row.timestamp)]
        newest[row.metric] = [*same_time, row]
    found = {}
    for name, candidates in newest.items():
        row = worst(candidates, side_of(name), seen[name])
        seen[name].append(row)
        share = Fraction(row.non_finite or 0.0).limit_denominator(10**9)  # all that a history has of its points
        value = math.nan if row.value is None else row.value
        points, non_finite = share.denominator, share.numerator
        found[name] = Metric(name, value, tag=name, strategy="", points=points, non_finite=non_finite)
    return found, {name: reason for name, reason in missing.items() if name not in newest}


RUNS_TO_FIND = 15
"""A rule finds a change if it fails within this many runs."""
Place = tuple[str, str]
"""A metric, and the first run of its new level."""


@dataclass(frozen=True, slots=True)
class RuleOnMetric:
    """The verdicts of a rule on one metric, or on all of them."""

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
        """The verdicts of a rule on all metrics together, or None if it judges none."""
        each = self.by_rule[rule].values()
        counts = {name: sum(getattr(one, name) for one in each) for name in ("runs", "failed", "begun", "unmatched")}
        late = {place: runs for one in each for place, runs in one.late.items()}
        return RuleOnMetric(**counts, late=late) if each else None

    def document(self) -> dict[str, Any]:
        """The document of `ml-metrics replay --rule ... --json`."""
        totals = {rule: self.total(rule) for rule in self.by_rule}
        return {
            "rules": {rule: total.document() for rule, total in totals.items() if total is not None},
            "metrics": {
                rule: {metric: one.document() for metric, one in metrics.items()}
                for rule, metrics in self.by_rule.items()
            },
            "findings": [finding.document() for finding in self.findings],
        }


def compare_rules(
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

    `rules` has, by name, the condition of each metric: None where the rule does not judge it. `rows` are past runs of
    the test, and of those that it is compared with. `changes` are by metric, oldest first. No `metrics`: all.
    """
    names = sorted(set(metrics) or {row.metric for row in rows if (row.test or test) == test} - {"", DEFAULT})
    valued = {Outcome.PASS, Outcome.FAIL, Outcome.INSUFFICIENT_DATA}
    by_rule: dict[str, dict[str, RuleOnMetric]] = {}
    for rule, condition_of in rules.items():
        given = {name: condition for name in names if (condition := condition_of(name)) is not None}
        config = RegressionTestConfig(metric_success_conditions=given)
        outcomes: dict[str, dict[str, Outcome]] = defaultdict(dict)
        for run in replay(config, rows, test=test, acceptances=acceptances, attributes=attributes).runs:
            for verdict in run.judgement.verdicts:
                if verdict.outcome in valued and verdict.value is not None:
                    outcomes[verdict.metric][run.run_key] = verdict.outcome
        by_rule[rule] = {
            metric: _on_metric(metric, given[metric], found, changes.get(metric, ()))
            for metric, found in outcomes.items()
        }
    findings = []
    for metric in names:
        seen = {rule: found[metric].late for rule, found in by_rule.items() if metric in found}
        for change in changes.get(metric, ()):
            place = (metric, change.run_key)
            late = {rule: places[place] for rule, places in seen.items() if place in places}
            findings.append(Finding(metric, change, late))
    return ComparedRules(by_rule, tuple(findings))


def _on_metric(
    metric: str, condition: Condition, outcomes: Mapping[str, Outcome], changes: Sequence[Change]
) -> RuleOnMetric:
    failing = [outcome is Outcome.FAIL for outcome in outcomes.values()]
    begun = beginnings(failing)
    matched: set[int] = set()
    places = {run: place for place, run in enumerate(outcomes)}
    known = [change for change in changes if change.run_key in places]
    firsts = [places[change.run_key] for change in known]
    late: dict[Place, int | None] = {}
    for change, first, end in zip(known, firsts, [*firsts, len(outcomes)][1:], strict=True):
        comparison = condition.comparison
        if not (comparison.bounds_above if change.after > change.before else comparison.bounds_below):
            continue  # the rule does not look for it
        in_time = failing[first : min(end, first + RUNS_TO_FIND)]
        late[metric, change.run_key] = in_time.index(True) if True in in_time else None
        # an alert may begin two runs before the first run of the new level: noise hides the edge
        matched.update(place for place in begun if first - 2 <= place < max(end, first + RUNS_TO_FIND))
    judged = sum(outcome is not Outcome.INSUFFICIENT_DATA for outcome in outcomes.values())
    return RuleOnMetric(judged, sum(failing), len(begun), len(begun) - len(matched), late)
