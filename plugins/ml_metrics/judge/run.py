"""Judging a run: every metric alone, then who hears of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from ml_metrics.config.regression import DEFAULT
from ml_metrics.judge.alerting import alerts_for
from ml_metrics.judge.history import PRESENT_RUNS, Past
from ml_metrics.judge.judgement import Judgement
from ml_metrics.judge.verdict import not_judged, verdict_on, verdict_without_condition
from ml_metrics.model import JobStatus, Outcome, Severity, Verdict
from ml_metrics.values import finite

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.config.regression import Condition, RegressionTestConfig
    from ml_metrics.judge.history import Acceptance
    from ml_metrics.model import Metric, StoredMetric

LEAST_PRESENT_RUNS = 3
"""Two runs that both had a metric may be chance."""
NO_ATTRIBUTES: Mapping[str, Mapping[str, str]] = MappingProxyType({})
NOTHING: Mapping[str, str] = MappingProxyType({})


def judge_run(  # noqa: PLR0913  (a judgement depends on all of these, and on nothing else)
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
    attributes: Mapping[str, Mapping[str, str]] = NO_ATTRIBUTES,
) -> Judgement:
    """Judge what a run measured by its conditions and by the runs before it.

    `now` is when the run ended: later rows of the history, and the run's own, do not count. `missing` names metrics
    that were asked for and could not be produced, with the reason: each of them breaks the run. `attributes` tells by
    run what it ran on (image digest, node type): a change of level names what differed. A condition that cannot be
    applied makes one failed verdict and touches no other.
    """
    past = Past(history, acceptances, test=test, run_key=run_key, now=now, attributes=attributes)
    case = _Case(config, past, _values(metrics), missing)
    verdicts = tuple(case.verdicts())
    if status is not JobStatus.SUCCESS:
        verdicts = tuple(_skipped(verdict, status) for verdict in verdicts)
    passed = status is JobStatus.SUCCESS and not any(
        verdict.broken and verdict.severity is Severity.FAIL for verdict in verdicts
    )
    alerts = alerts_for(config, verdicts, past, status=status, missing=missing, failure_reason=failure_reason)
    return Judgement(verdicts, alerts, passed)


@dataclass(frozen=True, slots=True)
class _Case:
    """One run before the judge."""

    config: RegressionTestConfig
    past: Past
    values: Mapping[str, Sequence[float]]
    missing: Mapping[str, str]

    def verdicts(self) -> Iterable[Verdict]:
        """The produced metrics in their order, then those that should have been."""
        for name in dict.fromkeys([*self.values, *self._named(), *self._vanished()]) or self._nothing_at_all():
            verdict = self._verdict(name)
            if verdict is not None:
                yield verdict

    def _named(self) -> list[str]:
        conditions = [name for name in self.config.metric_success_conditions if name != DEFAULT]
        return [*conditions, *self.config.required_metrics, *self.missing, *self.config.metric_subset_to_alert]

    def _nothing_at_all(self) -> list[str]:
        """A run without any metric has none that `default` could judge: that is told under its own name."""
        return [DEFAULT] if DEFAULT in self.config.metric_success_conditions else []

    def _vanished(self) -> list[str]:
        """The metrics that only the condition `default` covers, and that the runs before all had."""
        default = self.config.metric_success_conditions.get(DEFAULT)
        if default is None or default.optional:
            return []
        known = {*self.values, *self.config.metric_success_conditions}
        return [name for name in self.past.metrics() if name not in known and self._expected(name)]

    def _expected(self, metric: str) -> bool:
        """Whether the runs just before say that a metric should be there.

        Each of the newest runs had it; or the last run already missed it: then nothing has changed since.
        """
        default = self.config.metric_success_conditions[DEFAULT]
        accepted = self.past.accepted(metric)
        starts = [start for start in (default.since, accepted and accepted[1]) if start is not None]
        rows = [
            row
            for row in self.past.rows(metric)
            if row.job_status is JobStatus.SUCCESS and all(row.timestamp > start for start in starts)
        ]
        if not rows:
            return False
        if rows[-1].outcome is Outcome.MISSING:
            return True
        newest = [run for run in self.past.runs if run.job_status is JobStatus.SUCCESS][-PRESENT_RUNS:]
        had_it = {row.run_key for row in rows if row.value is not None or row.outcome in {None, Outcome.NON_FINITE}}
        return len(newest) >= LEAST_PRESENT_RUNS and all(run.run_key in had_it for run in newest)

    def _verdict(self, metric: str) -> Verdict | None:
        values = self.values.get(metric, ())
        value = values[0] if values else None
        condition = self.config.condition_for(metric)
        if len(values) > 1 and (condition is not None or metric in self.config.required_metrics):
            doubled = ValueError(f"the run produced {len(values)} metrics of this name")
            return not_judged(metric, None, condition, doubled)
        try:
            verdict = self._judged(metric, value, condition)
        except Exception as error:  # noqa: BLE001  (one bad rule must not lose the verdicts of the rest)
            return not_judged(metric, value, condition, error)
        return verdict if value is not None or verdict is None else self._absent(verdict)

    def _judged(self, metric: str, value: float | None, condition: Condition | None) -> Verdict | None:
        if condition is not None:
            return verdict_on(metric, value, condition, self.past)
        required = metric in self.config.required_metrics or metric in self.missing
        verdict = verdict_without_condition(metric, value, required=required)
        if verdict is None and metric in self.config.metric_subset_to_alert:
            reason = "metric_subset_to_alert names it, but no condition covers it: it can never alert"
            return Verdict(metric, Outcome.SKIPPED, finite(value), None, "", reason=reason)
        return verdict

    def _absent(self, verdict: Verdict) -> Verdict:
        """What the absence of a metric means to those who asked for it."""
        metric = verdict.metric
        if metric in self.missing:
            return replace(verdict, outcome=Outcome.FAIL, reason=self.missing[metric])
        condition = self.config.condition_for(metric)
        if condition is not None and condition.optional and metric not in self.config.required_metrics:
            return replace(verdict, outcome=Outcome.SKIPPED, reason="optional, and the run did not produce it")
        if metric == DEFAULT:
            return replace(verdict, reason="the run produced no metric at all")
        if metric not in self._named():
            reason = "the runs before had it and this one did not; `ml-metrics accept` ends that, if it is meant"
            return replace(verdict, reason=reason)
        return verdict


def _values(metrics: Sequence[Metric]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = defaultdict(list)
    for metric in metrics:
        values[metric.name].append(float(metric.value))
    return values


def _skipped(verdict: Verdict, status: JobStatus) -> Verdict:
    return replace(
        verdict, outcome=Outcome.SKIPPED, reason=f"the job's status was {status}: what it measured is partial"
    )
