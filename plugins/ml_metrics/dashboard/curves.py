"""Build the curves of a test from its rows: points, the baseline's points among them, and annotations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ml_metrics.charts import Annotation
from ml_metrics.config.regression import ChangePoint
from ml_metrics.judge.baseline import in_baseline
from ml_metrics.judge.change import changes_in
from ml_metrics.model import BROKEN, JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ml_metrics.judge import Acceptance
    from ml_metrics.model import StoredMetric
    from ml_metrics.warehouse import JobRow

RULE = ChangePoint()
"""Change points are drawn for every metric with the defaults of the rule, whatever the metric's condition."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric over the runs of a test, oldest first."""

    metric: str
    points: tuple[StoredMetric, ...]
    excluded: frozenset[str]
    """The keys of the runs that later runs are not compared with."""
    annotations: tuple[Annotation, ...]
    rule: str
    """The condition of the newest run that has one, as text; empty if there is none."""

    @property
    def newest(self) -> StoredMetric:
        """The newest point."""
        return self.points[-1]

    @property
    def broken(self) -> bool:
        """Whether the metric failed in its newest run."""
        return self.newest.outcome in BROKEN


def curves_of(
    runs: Sequence[JobRow], metrics: Iterable[StoredMetric], acceptances: Sequence[Acceptance]
) -> list[Curve]:
    """Return the curves of a test: broken metrics first, then the most recently broken, then by name."""
    run_keys = {run.uuid for run in runs}
    rows: dict[str, list[StoredMetric]] = {}
    for metric in metrics:
        if metric.run_key in run_keys:
            rows.setdefault(metric.metric, []).append(metric)
    attributes = {run.uuid: {"image": run.image or "", "framework": run.framework_version} for run in runs}
    curves = [_curve(name, found, acceptances, attributes) for name, found in rows.items()]
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
    rows: Iterable[StoredMetric],
    acceptances: Sequence[Acceptance],
    attributes: Mapping[str, Mapping[str, str]],
) -> Curve:
    ordered = sorted(rows, key=lambda row: (row.timestamp, row.run_key))
    accepted = [(one.timestamp, one) for one in acceptances if one.metric == name and one.timestamp]
    newest = max((((at, one.run_key), one.accepted_at) for at, one in accepted), default=None)
    excluded = frozenset(row.run_key for row in ordered if not in_baseline(row, newest))
    changes = changes_in([row for row in ordered if row.job_status is JobStatus.SUCCESS], RULE, attributes=attributes)
    annotations = [Annotation(change.timestamp, str(change), "level") for change in changes]
    annotations += [Annotation(at, f"accepted by {one.accepted_by}: {one.reason}", "accepted") for at, one in accepted]
    rule = next((row.rule for row in reversed(ordered) if row.rule), "")
    return Curve(name, tuple(ordered), excluded, tuple(annotations), rule or "")


def _last_broken(curve: Curve) -> float:
    return max((point.timestamp.timestamp() for point in curve.points if point.outcome in BROKEN), default=0.0)


def _differences(before: JobRow, after: JobRow) -> Iterator[str]:
    if before.image and after.image and before.image != after.image:
        yield f"image: {before.image} → {after.image}"
    if before.framework_version != after.framework_version:
        yield f"framework: {before.framework_version} → {after.framework_version}"
