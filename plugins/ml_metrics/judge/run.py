"""Judges a run: each metric on its own, then the alerts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import Any

from ml_metrics.config.collection import Strategy
from ml_metrics.config.conditions import DEFAULT, Condition, RegressionTestConfig
from ml_metrics.config.patterns import is_pattern, matches
from ml_metrics.core.kinds import Measure
from ml_metrics.core.model import JobStatus, Metric, Outcome, Severity, StoredMetric, Sweep, TagCurve, Verdict
from ml_metrics.core.values import finite
from ml_metrics.judge.history import (
    PRESENT_RUNS,
    Acceptance,
    Curves,
    EarlierRuns,
    ReadCurves,
    in_units_of,
    worse_side,
)
from ml_metrics.judge.judgement import Judgement, confirmed, job_alerts, metric_alerts, suspicious
from ml_metrics.judge.relative import in_unit, quotient, quotients, reference_in
from ml_metrics.judge.siblings import Sibling
from ml_metrics.judge.verdict import not_judged, verdict_on, verdict_without_condition


def limited(verdict: Verdict, metric: Metric, condition: Condition | None) -> Verdict:
    """The verdict with the share of values that are not finite: `non_finite` if the condition allows fewer.

    The number of points, `count`, is no value of them, so NaN does not make it wrong.
    """
    if not metric.non_finite or not metric.points or metric.strategy == Strategy.COUNT:
        return verdict
    share, text = metric.non_finite / metric.points, metric.non_finite_text
    verdict = replace(verdict, non_finite=share)
    broken = verdict.outcome is Outcome.NON_FINITE or condition is None
    if condition is None or broken or share <= condition.max_non_finite:
        text = text if broken else f"{text}, as max_non_finite allows"
        return replace(verdict, reason="; ".join(filter(None, (verdict.reason, text))))
    reason = f"{text}; max_non_finite of the condition allows a share of {condition.max_non_finite:g}"
    if verdict.outcome is Outcome.FAIL:
        reason = f"{reason}; beside that, {verdict.reason}"
    return replace(verdict, outcome=Outcome.NON_FINITE, reason=reason, false_alarm_rate=None, implausible=False)


NOTHING: Mapping[str, Any] = MappingProxyType({})


def judge_run(
    config: RegressionTestConfig,
    metrics: Sequence[Metric],
    history: Iterable[StoredMetric],
    *,
    status: JobStatus,
    run_key: str,
    now: datetime,
    missing: Mapping[str, str] = NOTHING,
    acceptances: Sequence[Acceptance] = (),
    failure_reason: str | None = None,
    test: str = "",
    attributes: Mapping[str, Mapping[str, str]] = NOTHING,
    curves: Mapping[str, TagCurve | Sweep] = NOTHING,
    read_curves: ReadCurves | None = None,
    reasons: Mapping[str, str] = NOTHING,
    mixed: Mapping[str, str] = NOTHING,
    run_id: str = "",
    siblings: Callable[[], Sequence[Sibling]] = tuple,
) -> Judgement:
    """Judge the metrics of a run by its conditions and the runs before it.

    `now` is the end of the run: its own rows and later ones are ignored. `missing` has the reasons for requested
    metrics that the run failed to produce; each fails the run. `attributes` has the environment of each run, such as
    image digest and node type, from which the reason for a change of level is made. `curves` has the run's own curves
    by tag; `read_curves` reads those of earlier runs, if conditions with `curve` need them. `reasons` states why the
    run lacks a metric that may be absent, for a condition that names it; `mixed`, that a metric aggregates several
    series, which every verdict on it states. `run_id` tells whether the run runs another one again. `siblings` reads
    the noise that young metrics borrow. A condition that cannot be applied fails its metric and affects no other.
    """
    earlier = EarlierRuns(
        quotients(config, in_units_of({one.name: (one.unit, one.value) for one in metrics}, history), test),
        acceptances,
        test=test,
        run_key=run_key,
        now=now,
        run_id=run_id,
        attributes=attributes,
        side_of=lambda metric: worse_side(config.condition_for(metric)),
        curves=Curves({(run_key, tag): curve for tag, curve in curves.items()}, read_curves),
        siblings=siblings,
    )
    why = {"missing": missing, "reasons": reasons, "mixed": mixed}
    return judge_after(config, metrics, earlier, status=status, failure_reason=failure_reason, **why)


def judge_after(
    config: RegressionTestConfig,
    metrics: Sequence[Metric],
    earlier: EarlierRuns,
    *,
    status: JobStatus,
    missing: Mapping[str, str] = NOTHING,
    failure_reason: str | None = None,
    reasons: Mapping[str, str] = NOTHING,
    mixed: Mapping[str, str] = NOTHING,
) -> Judgement:
    """Judge the metrics of a run by its conditions and the runs before it, which a replay keeps from run to run."""
    measured = {metric.name: metric for metric in metrics}
    values: dict[str, list[float]] = defaultdict(list)
    for metric in metrics:
        values[metric.name].append(float(metric.value))
    judge = _RunJudge(config, earlier, values, missing, measured, reasons, mixed)
    conditions = bool(config.conditions or config.required_metrics or missing)
    verdicts = tuple(judge.verdicts())
    if status is not JobStatus.SUCCESS:
        reason = f"the job's status was {status}: its metrics may be incomplete"
        verdicts = tuple(
            replace(verdict, outcome=Outcome.SKIPPED, reason=reason, false_alarm_rate=None, implausible=False)
            for verdict in verdicts
        )
        alerts = job_alerts(config, earlier, status, failure_reason)
        return Judgement(verdicts, alerts, passed=False, conditions=conditions)
    verdicts, unconfirmed = confirmed(config, verdicts, earlier, missing)
    passed = not any(verdict.broken and verdict.severity is Severity.FAIL for verdict in verdicts)
    unconfirmed += suspicious(config, verdicts, earlier, missing)
    names = {each.metric for each in unconfirmed}
    ready = [verdict for verdict in verdicts if verdict.metric not in names]
    return Judgement(verdicts, metric_alerts(config, ready, earlier.test, missing), passed, unconfirmed, conditions)


@dataclass(frozen=True, slots=True)
class _RunJudge:
    """Judges the metrics of one run."""

    config: RegressionTestConfig
    earlier: EarlierRuns
    values: Mapping[str, Sequence[float]]
    missing: Mapping[str, str]
    measured: Mapping[str, Metric]
    reasons: Mapping[str, str]
    mixed: Mapping[str, str]

    def verdicts(self) -> Iterable[Verdict]:
        """Yield the verdicts on the produced metrics in their order, then on the missing ones."""
        names = dict.fromkeys([*self.values, *self._requested(), *self._disappeared()])
        # a run without metrics is judged under the name of the default condition
        for name in names or {DEFAULT} & self.config.metric_success_conditions.keys():
            verdict = self._verdict(name)
            if verdict is not None:
                yield verdict

    def _requested(self) -> list[str]:
        """The names of the config that no metric of the run has or matches."""
        named = [*self.config.named_metrics, *self.missing]
        return [name for name in named if not any(matches(name, each) for each in self.values)]

    def _disappeared(self) -> list[str]:
        """The missing metrics that only a pattern or `default` covers and that the last runs had."""
        covered = {DEFAULT, *self.values, *self.config.named_metrics}
        conditions = {name: self.config.condition_for(name) for name in self.earlier.metrics() if name not in covered}
        wanted = [(name, each) for name, each in conditions.items() if each is not None and not each.optional]
        if not wanted:
            return []
        newest = [run.run_key for run in self.earlier.runs if run.job_status is JobStatus.SUCCESS][-PRESENT_RUNS:]
        return [name for name, condition in wanted if self._expected(name, condition, newest)]

    def _expected(self, metric: str, condition: Condition, newest: Sequence[str]) -> bool:
        """Whether a metric is expected: each of the newest runs had it, or its last verdict is `missing`."""
        accepted = self.earlier.accepted(metric)
        starts = [start for start in (condition.since, accepted and accepted[1]) if start is not None]
        newest_first = (
            row
            for row in reversed(self.earlier.rows(metric))
            if row.job_status is JobStatus.SUCCESS and (not starts or row.timestamp > max(starts))
        )
        last = next(newest_first, None)
        if last is None or last.outcome is Outcome.MISSING:
            return last is not None
        without = set(newest)
        for row in chain([last], newest_first):
            if not without:
                break
            if row.value is not None or row.outcome in {None, Outcome.NON_FINITE}:
                without.discard(row.run_key)
        return len(newest) > 2 and not without  # two runs with a metric are not enough to expect it in the next

    def _verdict(self, metric: str) -> Verdict | None:
        values = self.values.get(metric, ())
        value = values[0] if values else None
        condition = self.config.condition_for(metric)
        if len(values) > 1 and (condition is not None or self.config.requires(metric)):
            duplicate = ValueError(f"the run produced {len(values)} metrics of this name")
            return not_judged(metric, None, condition, duplicate)
        try:
            verdict = self._judged(metric, value, condition)
        except Exception as error:  # noqa: BLE001  (an error in one rule must not lose the other verdicts)
            return not_judged(metric, value, condition, error)
        if verdict is not None and (measured := self.measured.get(metric)) is not None:
            verdict = limited(verdict, measured, condition)
            reasons = filter(None, (verdict.reason, self.mixed.get(metric)))
            verdict = replace(verdict, reason="; ".join(reasons))
        return verdict if value is not None or verdict is None else self._absent(verdict)

    def _judged(self, metric: str, value: float | None, condition: Condition | None) -> Verdict | None:
        if condition is not None:
            measured, key = self.measured.get(metric), self.config.key_for(metric) or ""
            unit = measured.unit if measured else ""
            if (name := condition.relative_to) is not None:
                reference = math.nan if value is None else reference_in(self.config, name, self.measured)
                by = None if value is None else quotient(value, reference)
                found = verdict_on(metric, by, condition, self.earlier, key=key, measure=Measure.QUANTITY)
                if value is None:  # there is no machine on which it has bounds
                    return replace(found, bounds=None, reference=None, spread=None, watched=None, unit=unit)
                return in_unit(found, value, reference, unit, name)
            what = self.config.known_about(metric).measure
            return verdict_on(metric, value, condition, self.earlier, unit=unit, key=key, measure=what)
        required = self.config.requires(metric) or metric in self.missing
        verdict = verdict_without_condition(metric, value, required=required)
        if verdict is None and self.config.bounds_better_side(metric):
            reason = "`default` bounds only its better side, and does not judge it"
            return Verdict(metric, Outcome.SKIPPED, finite(value), None, "", reason=reason, condition=DEFAULT)
        if verdict is None and self.config.metric_subset_to_alert and self.config.may_alert(metric):
            reason = "metric_subset_to_alert names it, but no condition covers it: it can never alert"
            return Verdict(metric, Outcome.SKIPPED, finite(value), None, "", reason=reason)
        return verdict

    def _absent(self, verdict: Verdict) -> Verdict:
        metric = verdict.metric
        if metric in self.missing:
            return replace(verdict, outcome=Outcome.FAIL, reason=self.missing[metric])
        condition = self.config.condition_for(metric)
        if condition is not None and condition.optional and not self.config.requires(metric):
            return replace(verdict, outcome=Outcome.SKIPPED, reason="optional, and the run did not produce it")
        if metric in self.reasons:
            return replace(verdict, reason=self.reasons[metric])
        if metric == DEFAULT:
            return replace(verdict, reason="the run produced no metric at all")
        if is_pattern(metric) and metric in self.config.named_metrics:
            return replace(verdict, reason="no metric of the run matches it")
        if metric not in self._requested():
            reason = "earlier runs produced it and this one did not; if that is intended, run `ml-metrics accept`"
            return replace(verdict, reason=reason)
        return verdict
