"""Replays: past runs judged again, each by the runs before it, and what several rules would have found in them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from ml_metrics.config.conditions import DEFAULT, RegressionTestConfig
from ml_metrics.core.model import JobStatus, Metric, Outcome, StoredMetric
from ml_metrics.core.values import BEGINNING_OF_TIME, as_utc, finite
from ml_metrics.judge.baseline import is_measured
from ml_metrics.judge.history import (
    NO_CURVES,
    Curves,
    EarlierRuns,
    by_series,
    followed,
    moment_of,
    unknown_side,
    worse_side,
    worst,
)
from ml_metrics.judge.judgement import AlertKind, run_again
from ml_metrics.judge.relative import quotient_in, quotients
from ml_metrics.judge.run import judge_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.config.conditions import Condition
    from ml_metrics.judge.changes import Change
    from ml_metrics.judge.history import Acceptance, CurvesOfRuns, Dated
    from ml_metrics.judge.judgement import Judgement
    from ml_metrics.judge.level import LevelRule, Levels

    _Worst = Callable[[str, Sequence[StoredMetric]], StoredMetric]


class ReplayedHistory(EarlierRuns):
    """The runs before the one that a replay judges now.

    The rows of the test itself are added in the order of its runs, so they need no sorting. The rows of other tests are
    sorted once.
    """

    def __init__(
        self,
        others: Iterable[StoredMetric],
        acceptances: Sequence[Acceptance] = (),
        *,
        test: str,
        series: Mapping[str, Sequence[Dated]],
        attributes: Mapping[str, Mapping[str, str]] | None = None,
        side_of: Callable[[str], int] = unknown_side,
        curves: Curves = NO_CURVES,
    ) -> None:
        """Begin with the rows of other tests. `series` has all values that the replay will reach, by metric."""
        super().__init__(
            others, test=test, run_key="", now=BEGINNING_OF_TIME, attributes=attributes, side_of=side_of, curves=curves
        )
        self._all_acceptances = acceptances
        self._series = {metric: _KnownSeries(values) for metric, values in series.items()}
        self._others = {key: sorted(rows, key=moment_of) for key, rows in self._rows.items()}
        self._runs: list[StoredMetric] = []

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
            if row.metric in self._series and is_measured(row):
                self._series[row.metric].reached += 1
        self._runs += rows[:1]

    @property
    def runs(self) -> list[StoredMetric]:
        return self._runs

    def rows(self, metric: str, test: str | None = None) -> list[StoredMetric]:
        key = (test or self.test, metric)
        if key in self._others and key not in self._ordered:
            rows = self._others[key]
            self._ordered[key] = self._in_order(rows[: bisect_left(rows, (self.now, self.run_key), key=moment_of)])
        return self._ordered.get(key, [])

    def levels(self, metric: str, values: Sequence[Dated], rule: LevelRule) -> tuple[Levels, int]:
        """Return the levels of a series, which continues after its newest value if it is in the replay."""
        known = self._series.get(metric)
        return super().levels(metric, values, rule) if known is None else known.levels(values, rule)


class _KnownSeries:
    """All values of a metric that a replay will reach, and what a rule found in them."""

    def __init__(self, values: Sequence[Dated]) -> None:
        self._values = list(values)
        self.reached = 0
        """The number of values in the runs before the judged one."""
        self._followed: dict[LevelRule, tuple[int, Levels | None]] = {}
        """By rule: the index at which the values began in the run before, and the levels that were found from there."""

    def levels(self, values: Sequence[Dated], rule: LevelRule) -> tuple[Levels, int]:
        """Follow the values, together with those to come if they begin where those of the run before did.

        Only then are they likely to begin there in the next run, too: an acceptance or a `time_window` moves the start.
        """
        last = len(values) - 1
        start = self._start_of(values)
        begun, levels = self._followed.get(rule, (None, None))
        if start is None or begun != start:
            if start is not None:
                self._followed[rule] = (start, None)
            return followed(values, rule), last
        if levels is None:
            levels = followed(self._values[start:], rule)
            self._followed[rule] = (start, levels)
        return levels, last

    def _start_of(self, values: Sequence[Dated]) -> int | None:
        """Return the index at which these values are in the series, if they end with the judged run or before it."""
        for end in (self.reached + 1, self.reached):
            start = end - len(values)
            if start >= 0 and self._values[start:end] == list(values):
                return start
        return None


MAX_POINTS = 10**9
NO_VALUE = {Outcome.MISSING, Outcome.SKIPPED}
"""The outcomes of a metric that a run did not produce."""


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
        """Return in how many runs each metric was judged, failed and alerted; an implausibly good value is no alert."""
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
        """Return the document of `ml-metrics replay --json`."""
        return {"runs": [run.document() for run in self.runs], "summary": self.summary()}


def beginnings(failing: Iterable[bool]) -> list[int]:
    """Return the places at which a metric begins to fail: each is an alert."""
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
    own: list[StoredMetric] = []
    others: list[StoredMetric] = []
    for row in history:
        (own if (row.test or test) == test else others).append(row)

    def side_of(metric: str) -> int:
        return worse_side(config.condition_for(metric))

    runs = _runs(own, side_of)
    series: dict[str, list[Dated]] = defaultdict(list)
    for run in runs:
        measured = {metric.name: metric for metric in run.metrics}
        for metric in run.metrics if run.status is JobStatus.SUCCESS else ():
            condition, value = config.condition_for(metric.name), quotient_in(config, metric, measured)
            if condition is None or not math.isfinite(value):
                continue
            if metric.non_finite <= condition.max_non_finite * metric.points:
                series[metric.name].append((value, run.ended.weekday(), run_again(run.rerun)))
    earlier = ReplayedHistory(
        quotients(config, others, test),
        acceptances,
        test=test,
        series=series,
        attributes=attributes,
        side_of=side_of,
        curves=Curves(curves),
    )
    replayed = []
    for run in runs:
        earlier.begin(run.key, run.ended, run.rerun)
        judgement = judge_after(config, run.metrics, earlier, status=run.status, missing=run.missing)
        earlier.add(quotients(config, _stored(run, judgement, test), test))
        replayed.append(ReplayedRun(run.key, run.ended, judgement))
    return Replay(tuple(replayed))


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of the history, as it was before it was judged."""

    key: str
    ended: datetime
    status: JobStatus
    metrics: list[Metric]
    """The metrics that the run produced, each once."""
    missing: dict[str, str]
    """The reasons for those that it failed to produce."""
    values: dict[str, float | None]
    """The stored values; null for a metric that is not a finite number."""
    non_finite: dict[str, float]
    """The shares of points that are not finite, where there are any."""
    rerun: str
    """The run in Airflow if it runs another one again."""


def _runs(rows: Iterable[StoredMetric], side_of: Callable[[str], int]) -> list[_Run]:
    by_run: dict[str, list[StoredMetric]] = defaultdict(list)
    for row in rows:
        by_run[row.run_key].append(row)
    ended = {key: max(as_utc(row.timestamp) for row in group) for key, group in by_run.items()}
    seen: dict[str, list[StoredMetric]] = defaultdict(list)

    def worst_of(metric: str, candidates: Sequence[StoredMetric]) -> StoredMetric:
        found = worst(candidates, side_of(metric), seen[metric])
        seen[metric].append(found)
        return found

    return [_run(key, by_run[key], ended[key], worst_of) for key in sorted(by_run, key=lambda key: (ended[key], key))]


def _run(key: str, rows: list[StoredMetric], ended: datetime, worst_of: _Worst) -> _Run:
    status = next((row.job_status for row in rows if row.job_status is not JobStatus.SUCCESS), JobStatus.SUCCESS)
    measured, missing = _measured(rows, worst_of)
    values = {row.metric: None for row in rows} | {metric.name: finite(metric.value) for metric in measured}
    non_finite = {metric.name: metric.non_finite / metric.points for metric in measured if metric.non_finite}
    rerun = next((row.rerun for row in rows if row.rerun), "")
    return _Run(key, ended, status, measured, missing, values, non_finite, rerun)


def _measured(rows: list[StoredMetric], worst_of: _Worst) -> tuple[list[Metric], dict[str, str]]:
    """Return the metrics that a run produced, each once, and the reasons for those that it failed to produce."""
    newest: dict[str, list[StoredMetric]] = {}
    missing: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: (row.metric, as_utc(row.timestamp))):
        if not row.metric or (row.value is None and row.outcome in NO_VALUE):
            continue
        if row.value is None and row.outcome is Outcome.FAIL:
            missing[row.metric] = "the run stored no value for it"
            continue
        same_time = [each for each in newest.get(row.metric, ()) if as_utc(each.timestamp) == as_utc(row.timestamp)]
        newest[row.metric] = [*same_time, row]
    found = []
    for name, candidates in newest.items():
        row = worst_of(name, candidates)
        share = Fraction(row.non_finite or 0.0).limit_denominator(MAX_POINTS)  # all that a history has of its points
        value = math.nan if row.value is None else row.value
        points, non_finite = share.denominator, share.numerator
        found.append(Metric(name, value, tag=name, strategy="", points=points, non_finite=non_finite))
    return found, {name: reason for name, reason in missing.items() if name not in newest}


def _stored(run: _Run, judgement: Judgement, test: str) -> list[StoredMetric]:
    outcomes = {verdict.metric: verdict.outcome for verdict in judgement.verdicts}
    return [
        StoredMetric(
            run.key,
            run.ended,
            name,
            run.values.get(name),
            run.status,
            outcomes.get(name),
            test,
            non_finite=run.non_finite.get(name),
            rerun=run.rerun,
        )
        for name in dict.fromkeys([*run.values, *outcomes])
    ]


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
        """Return the verdicts of a rule on all metrics together, or None if it judges none."""
        each = list(self.by_rule[rule].values())
        if not each:
            return None
        late = {place: runs for one in each for place, runs in one.late.items()}
        counts = {name: sum(getattr(one, name) for one in each) for name in ("runs", "failed", "begun", "unmatched")}
        return RuleOnMetric(each[0].condition, **counts, late=late)

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
    comparison = condition.comparison
    rises, falls = comparison.bounds_above, comparison.bounds_below  # which changes the rule looks for
    levels = _levels(outcomes, changes)
    levels = [level for level in levels if (rises if level.change.after > level.change.before else falls)]
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


def _late(by_rule: Mapping[str, Mapping[str, RuleOnMetric]], place: Place) -> dict[str, int | None]:
    metric = place[0]
    return {
        rule: metrics[metric].late[place]
        for rule, metrics in by_rule.items()
        if metric in metrics and place in metrics[metric].late
    }
