"""The charts of a page: the curves of a test, and the data from which the page's script draws.

A browser takes longer to compile a shape than to draw a chart, so charts share shapes: the data has each once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ml_metrics.charts import PRODUCTIVE, Annotation, goodput_chart, metric_chart
from ml_metrics.charts.goodput import CUSTOM
from ml_metrics.charts.theme import theme
from ml_metrics.dashboard.export import as_script_json
from ml_metrics.dashboard.ribbon import ends_of
from ml_metrics.judge.baseline import in_baseline
from ml_metrics.judge.level_changes import changes_in
from ml_metrics.model import BROKEN, JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ml_metrics.charts import Axis
    from ml_metrics.judge import Acceptance
    from ml_metrics.model import StoredMetric
    from ml_metrics.warehouse import JobRow

NOT_SHAPE = ("datasets", "config")
"""The parts of a spec that do not belong to its shape. The values of its parameters do not, either."""
BADPUT_PREFIX, BADPUT_SUFFIX = "badput_", "_percent"
ROUNDING = 1e-6
"""The difference between a total and its parts, in percent, that is due to rounding."""


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
    runs: Sequence[JobRow],
    metrics: Iterable[StoredMetric],
    acceptances: Sequence[Acceptance],
    attributes: Mapping[str, Mapping[str, str]],
) -> list[Curve]:
    """Return the curves of a test: broken metrics first, then the most recently broken, then by name."""
    run_keys = {run.uuid for run in runs}
    rows: dict[str, list[StoredMetric]] = defaultdict(list)
    for metric in metrics:
        if metric.run_key in run_keys:
            rows[metric.metric].append(metric)
    curves = [_curve(name, found, acceptances, attributes) for name, found in rows.items()]
    return sorted(curves, key=lambda curve: (not curve.broken, -_last_broken(curve), curve.metric))


def charts_script(charts: Iterable[tuple[str, Mapping[str, Any]]], runs: Mapping[str, str]) -> str:
    """Return the data of a page's charts as JSON for its script.

    Args:
        charts: the id of each chart's element, and the chart's spec.
        runs: the address of each run's page, by the name of the run in the specs.
    """
    return as_script_json({"themes": {"light": theme(), "dark": theme(dark=True)}, **charts_document(charts, runs)})


def charts_document(charts: Iterable[tuple[str, Mapping[str, Any]]], runs: Mapping[str, str]) -> dict[str, Any]:
    """Return the data of some charts, without the themes, which a page has only once."""
    shapes: dict[str, int] = {}
    drawn = []
    for element, spec in charts:
        params = spec.get("params", [])
        unset = {"params": [{**one, "value": 0} for one in params]}
        shape = json.dumps({name: part for name, part in {**spec, **unset}.items() if name not in NOT_SHAPE})
        number = shapes.setdefault(shape, len(shapes))
        drawn.append({"id": element, "shape": number, "datasets": spec["datasets"], "params": params})
    return {"shapes": [json.loads(shape) for shape in shapes], "charts": drawn, "runs": runs}


def charts_of_test(
    curves: Sequence[Curve], runs: Sequence[JobRow], changed: Sequence[Annotation], *, axis: Axis, utc: bool
) -> list[tuple[str, dict[str, Any]]]:
    """Return the name and the chart of each curve, all on the time axis of `runs`.

    The charts name a run by its index in `runs`, because every chart repeats it.
    """
    number = {run.uuid: str(index) for index, run in enumerate(runs)}
    ends = ends_of(runs)
    charts = []
    for curve in curves:
        points = [replace(point, run_key=number[point.run_key]) for point in curve.points]
        excluded = {number[run_key] for run_key in curve.excluded}
        notes = [*changed, *curve.annotations]
        spec = metric_chart(
            "", points, notes, excluded=excluded, axis=axis, utc=utc, ends=ends, width="container", height=150
        )
        charts.append((curve.metric, spec))
    return charts


def time_chart(curves: Sequence[Curve], runs: Sequence[JobRow], *, utc: bool) -> dict[str, Any] | None:
    """Return the chart of productive and lost time on the time axis of `runs`, or None if no run measured it."""
    parts = time_parts(curves)
    bars = [(str(index), run.timestamp, parts[run.uuid]) for index, run in enumerate(runs) if run.uuid in parts]
    return goodput_chart(bars, utc=utc, ends=ends_of(runs)) if bars else None


def is_time_part(metric: str) -> bool:
    """Whether a metric is a part of the chart of productive and lost time."""
    return metric == "goodput" or (metric.startswith(BADPUT_PREFIX) and metric.endswith(BADPUT_SUFFIX))


def time_of_run(metrics: Iterable[StoredMetric]) -> dict[str, float]:
    """Return the percentage of one run's time that was productive, and that was lost by each cause."""
    found = time_parts(Curve(one.metric, (one,), frozenset(), (), "") for one in metrics)
    return next(iter(found.values()), {})


def time_parts(curves: Iterable[Curve]) -> dict[str, dict[str, float]]:
    """Return the percentage of each run's time that was productive, and that was lost by each cause."""
    parts: dict[str, dict[str, float]] = defaultdict(dict)
    for curve in curves:
        lost = curve.metric.startswith(BADPUT_PREFIX) and curve.metric.endswith(BADPUT_SUFFIX)
        if not lost and curve.metric != "goodput":
            continue
        kind = curve.metric[len(BADPUT_PREFIX) : -len(BADPUT_SUFFIX)] if lost else PRODUCTIVE
        for point in curve.points:
            if point.value is not None:
                parts[point.run_key][kind] = point.value
    return {run: _each_second_once(kinds) for run, kinds in parts.items()}


def _each_second_once(kinds: Mapping[str, float]) -> dict[str, float]:
    """Return the parts of a run's time without those that are contained in others, or take no time.

    The total of custom events contains those types that are metrics themselves: only the rest of it is a part.
    Asynchronous loading runs beside the steps.
    """
    types = sum(percent for kind, percent in kinds.items() if kind.startswith(f"{CUSTOM}_"))
    rest = max(0.0, kinds.get(CUSTOM, 0.0) - types)
    parts = {**kinds, CUSTOM: rest if rest > ROUNDING else 0.0, "data_loading_async": 0.0}
    return {kind: percent for kind, percent in parts.items() if percent or kind == PRODUCTIVE}


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
    changes = changes_in([row for row in ordered if row.job_status is JobStatus.SUCCESS], attributes=attributes)
    annotations = [Annotation(change.timestamp, str(change), "level") for change in changes]
    annotations += [Annotation(at, f"accepted by {one.accepted_by}: {one.reason}", "accepted") for at, one in accepted]
    rule = next((row.rule for row in reversed(ordered) if row.rule), "")
    return Curve(name, tuple(ordered), excluded, tuple(annotations), rule or "")


def _last_broken(curve: Curve) -> float:
    return max((point.timestamp.timestamp() for point in curve.points if point.outcome in BROKEN), default=0.0)
