"""Replays a history: judges each of its runs by the given conditions."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from ml_metrics.judge.curves.source import Curves
from ml_metrics.judge.judgement import AlertKind
from ml_metrics.judge.repeated import worse_side, worst
from ml_metrics.judge.replayed_history import ReplayedHistory
from ml_metrics.judge.run import judge_after
from ml_metrics.model import JobStatus, Metric, Outcome, StoredMetric
from ml_metrics.values import as_utc, finite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.config.regression import RegressionTestConfig
    from ml_metrics.judge.curves.source import CurvesOfRuns
    from ml_metrics.judge.history import Acceptance
    from ml_metrics.judge.judgement import Judgement

    _Worst = Callable[[str, Sequence[StoredMetric]], StoredMetric]

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
        """Return the run as JSON."""
        document = {"uuid": self.run_key, "timestamp": self.timestamp.isoformat(), **self.judgement.document()}
        del document["passed"]
        return document


@dataclass(frozen=True, slots=True)
class Replay:
    """Every run of a history, judged by the runs before it."""

    runs: tuple[ReplayedRun, ...]

    @property
    def passed(self) -> bool:
        """Whether every run passes."""
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


def replay(  # noqa: PLR0913  (as `judge_run`)
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
    rows, found = list(history), Curves(curves)
    runs = _replayed(config, rows, test=test, acceptances=acceptances, attributes=attributes, curves=found)
    return Replay(tuple(runs))


def _replayed(  # noqa: PLR0913
    config: RegressionTestConfig,
    history: list[StoredMetric],
    *,
    test: str,
    acceptances: Sequence[Acceptance],
    attributes: Mapping[str, Mapping[str, str]] | None,
    curves: Curves,
) -> Iterator[ReplayedRun]:
    others = [row for row in history if (row.test or test) != test]
    own = [row for row in history if (row.test or test) == test]

    def side_of(metric: str) -> int:
        return worse_side(config.condition_for(metric))

    runs = _runs(own, side_of)
    series: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for metric in run.metrics if run.status is JobStatus.SUCCESS else ():
            condition = config.condition_for(metric.name)
            if condition is None or not math.isfinite(metric.value):
                continue
            if metric.non_finite <= condition.max_non_finite * metric.points:
                series[metric.name].append(metric.value)
    earlier = ReplayedHistory(
        others, acceptances, test=test, series=series, attributes=attributes, side_of=side_of, curves=curves
    )
    for run in runs:
        earlier.begin(run.key, run.ended)
        judgement = judge_after(config, run.metrics, earlier, status=run.status, missing=run.missing)
        earlier.add(_stored(run, judgement, test))
        yield ReplayedRun(run.key, run.ended, judgement)


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


def _runs(rows: Iterable[StoredMetric], side_of: Callable[[str], int]) -> list[_Run]:
    """Return the runs in the order in which they ended."""
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
    return _Run(key, ended, status, measured, missing, values, non_finite)


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
    found = [_metric(worst_of(name, candidates)) for name, candidates in newest.items()]
    return found, {name: reason for name, reason in missing.items() if name not in newest}


def _metric(row: StoredMetric) -> Metric:
    """Return the metric that a run produced. Of its points, a history has the share of those that are not finite."""
    share = Fraction(row.non_finite or 0.0).limit_denominator(MAX_POINTS)
    return Metric(
        row.metric,
        math.nan if row.value is None else row.value,
        tag=row.metric,
        strategy="",
        points=share.denominator,
        non_finite=share.numerator,
    )


def _stored(run: _Run, judgement: Judgement, test: str) -> list[StoredMetric]:
    """Return the rows that the run would have stored, with the verdicts of the replay."""
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
        )
        for name in dict.fromkeys([*run.values, *outcomes])
    ]
