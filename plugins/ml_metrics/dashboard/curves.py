"""Build the curves of a test from its rows: points, the baseline's points among them, and annotations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ml_metrics.charts import Annotation, Plotted
from ml_metrics.config.regression import ChangePoint
from ml_metrics.judge.baseline import counts
from ml_metrics.judge.change import changes_in
from ml_metrics.model import BROKEN, HistoryPoint, JobStatus, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ml_metrics.judge import Acceptance
    from ml_metrics.warehouse import JobRow, ShownMetric

RULE = ChangePoint()
"""Change points are drawn for every metric with the defaults of the rule, whatever the metric's condition."""
STATUSES = {status.value: status for status in JobStatus}
OUTCOMES = {outcome.value: outcome for outcome in Outcome}


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric over the runs of a test, oldest first."""

    metric: str
    points: tuple[Plotted, ...]
    annotations: tuple[Annotation, ...]
    rule: str
    """The condition of the newest run, as text; empty if there is none."""
    reference: float | None = None
    """The level of the baseline that the newest run's bounds were computed from."""
    spread: float | None = None

    @property
    def newest(self) -> Plotted:
        """The newest point."""
        return self.points[-1]

    @property
    def broken(self) -> bool:
        """Whether the metric failed in its newest run."""
        return self.newest.outcome in BROKEN


def curves_of(runs: Sequence[JobRow], metrics: Iterable[ShownMetric], acceptances: Sequence[Acceptance]) -> list[Curve]:
    """Return the curves of a test: broken metrics first, then the most recently broken, then by name."""
    jobs = {run.uuid: run for run in runs}
    rows: dict[str, list[ShownMetric]] = {}
    for metric in metrics:
        if metric.run_key in jobs:
            rows.setdefault(metric.metric, []).append(metric)
    attributes = {run.uuid: {"image": run.image or "", "framework": run.framework_version} for run in runs}
    curves = [_curve(name, found, jobs, acceptances, attributes) for name, found in rows.items()]
    return sorted(curves, key=lambda curve: (not curve.broken, -_last_broken(curve), curve.metric))


def environment_changes(runs: Sequence[JobRow]) -> list[Annotation]:
    """Return an annotation for each run with another image or framework than the run before."""
    ordered = sorted(runs, key=lambda run: (run.timestamp, run.uuid))
    return [
        Annotation(after.timestamp, "; ".join(differences), "changed")
        for before, after in pairwise(ordered)
        if (differences := list(_differences(before, after)))
    ]


def _curve(
    name: str,
    rows: Iterable[ShownMetric],
    jobs: Mapping[str, JobRow],
    acceptances: Sequence[Acceptance],
    attributes: Mapping[str, Mapping[str, str]],
) -> Curve:
    ordered = sorted(rows, key=lambda row: (jobs[row.run_key].timestamp, row.run_key))
    accepted = [(one.timestamp, one) for one in acceptances if one.metric == name and one.timestamp]
    newest = max((((at, one.run_key), one.accepted_at) for at, one in accepted), default=None)
    history = [_history_point(row, jobs[row.run_key]) for row in ordered]
    points = tuple(
        Plotted(row.run_key, point.timestamp, row.value, row.lower, row.upper, point.outcome, counts(point, newest))
        for row, point in zip(ordered, history, strict=True)
    )
    changes = changes_in(
        [point for point in history if point.job_status is JobStatus.SUCCESS], RULE, attributes=attributes
    )
    annotations = [Annotation(change.timestamp, str(change), "level") for change in changes]
    annotations += [Annotation(at, f"accepted by {one.accepted_by}: {one.reason}", "accepted") for at, one in accepted]
    rule = next((row.rule for row in reversed(ordered) if row.rule), "")
    return Curve(name, points, tuple(annotations), rule or "", ordered[-1].reference, ordered[-1].spread)


def _history_point(row: ShownMetric, job: JobRow) -> HistoryPoint:
    """Return a row as the judge reads it. A job with an unknown status, from an older system, counts as failed."""
    status = STATUSES.get(job.job_status, JobStatus.FAILURE)
    return HistoryPoint(job.uuid, job.timestamp, row.metric, row.value, status, OUTCOMES.get(row.verdict or ""))


def _last_broken(curve: Curve) -> float:
    return max((point.at.timestamp() for point in curve.points if point.outcome in BROKEN), default=0.0)


def _differences(before: JobRow, after: JobRow) -> Iterator[str]:
    if before.image and after.image and before.image != after.image:
        yield f"image: {before.image} → {after.image}"
    if before.framework_version != after.framework_version:
        yield f"framework: {before.framework_version} → {after.framework_version}"
