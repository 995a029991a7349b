"""From a test's rows to its curves: which points later runs are compared with, and what happened between them."""

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
    from ml_metrics.warehouse import JobRow
    from ml_metrics.warehouse.pages import ShownMetric

RULE = ChangePoint()
"""Change points are drawn for every metric by the rule's own defaults, whatever its condition."""
STATUSES = {status.value: status for status in JobStatus}
OUTCOMES = {outcome.value: outcome for outcome in Outcome}


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric over the runs of a test, oldest first."""

    metric: str
    points: tuple[Plotted, ...]
    annotations: tuple[Annotation, ...]
    rule: str
    """The condition in words, as the newest run was judged by it; empty if there is none."""
    reference: float | None = None
    """The level of the baseline that the newest run's bounds were computed from."""
    spread: float | None = None

    @property
    def newest(self) -> Plotted:
        """The newest run that has the metric."""
        return self.points[-1]

    @property
    def broken(self) -> bool:
        """Whether a person should look."""
        return self.newest.outcome in BROKEN


def curves_of(runs: Sequence[JobRow], metrics: Iterable[ShownMetric], acceptances: Sequence[Acceptance]) -> list[Curve]:
    """The curves of a test, those that are broken now first, then those that were last, then by name."""
    jobs = {run.uuid: run for run in runs}
    rows: dict[str, list[ShownMetric]] = {}
    for metric in metrics:
        if metric.run_key in jobs:
            rows.setdefault(metric.metric, []).append(metric)
    attributes = {run.uuid: {"image": run.image or "", "framework": run.framework_version} for run in runs}
    curves = [_curve(name, found, jobs, acceptances, attributes) for name, found in rows.items()]
    return sorted(curves, key=lambda curve: (not curve.broken, -_last_broken(curve), curve.metric))


def what_changed(runs: Sequence[JobRow]) -> list[Annotation]:
    """Where a run ran on another image or framework than the one before it."""
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
    history = [_history(row, jobs[row.run_key]) for row in ordered]
    points = tuple(
        Plotted(row.run_key, past.timestamp, row.value, row.lower, row.upper, past.outcome, counts(past, newest))
        for row, past in zip(ordered, history, strict=True)
    )
    changes = changes_in(
        [past for past in history if past.job_status is JobStatus.SUCCESS], RULE, attributes=attributes
    )
    annotations = [Annotation(change.timestamp, str(change), "level") for change in changes]
    annotations += [Annotation(at, f"accepted by {one.accepted_by}: {one.reason}", "accepted") for at, one in accepted]
    rule = next((row.rule for row in reversed(ordered) if row.rule), "")
    return Curve(name, points, tuple(annotations), rule or "", ordered[-1].reference, ordered[-1].spread)


def _history(row: ShownMetric, job: JobRow) -> HistoryPoint:
    """A row of an older system may hold words that are none of ours; such a run is shown, and counts as failed."""
    status = STATUSES.get(job.job_status, JobStatus.FAILURE)
    return HistoryPoint(job.uuid, job.timestamp, row.metric, row.value, status, OUTCOMES.get(row.verdict or ""))


def _last_broken(curve: Curve) -> float:
    return max((point.at.timestamp() for point in curve.points if point.outcome in BROKEN), default=0.0)


def _differences(before: JobRow, after: JobRow) -> Iterator[str]:
    if before.image and after.image and before.image != after.image:
        yield f"image: {before.image} → {after.image}"
    if before.framework_version != after.framework_version:
        yield f"framework: {before.framework_version} → {after.framework_version}"
