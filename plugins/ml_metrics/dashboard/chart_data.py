"""The charts of a page as data for its script: the shapes, each once, and the numbers of each chart.

A browser takes longer to compile a shape than to draw a chart, and the charts of all metrics share one shape.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ml_metrics.charts import PRODUCTIVE, goodput_chart, metric_chart
from ml_metrics.charts.theme import theme

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ml_metrics.charts import Annotation, Axis
    from ml_metrics.dashboard.curves import Curve
    from ml_metrics.warehouse import JobRow

NOT_SHAPE = ("datasets", "config")
"""The parts of a spec that do not belong to its shape. The values of its parameters do not, either."""
BADPUT_PREFIX, BADPUT_SUFFIX = "badput_", "_percent"


def charts_data(charts: Sequence[tuple[str, Mapping[str, Any]]], runs: Mapping[str, str]) -> dict[str, Any]:
    """Return the data for the page's script.

    Args:
        charts: the id of each chart's element, and the chart's spec.
        runs: the address of each run's page, by the name of the run in the specs.
    """
    shapes: dict[str, int] = {}
    drawn = []
    for element, spec in charts:
        params = spec.get("params", [])
        unset = {"params": [{**one, "value": 0} for one in params]}
        shape = json.dumps({name: part for name, part in {**spec, **unset}.items() if name not in NOT_SHAPE})
        number = shapes.setdefault(shape, len(shapes))
        drawn.append({"id": element, "shape": number, "datasets": spec["datasets"], "params": params})
    return {
        "themes": {"light": theme(), "dark": theme(dark=True)},
        "shapes": [json.loads(shape) for shape in shapes],
        "charts": drawn,
        "runs": dict(runs),
    }


def charts_of_test(
    curves: Sequence[Curve], runs: Sequence[JobRow], changed: Sequence[Annotation], *, axis: Axis, utc: bool
) -> list[tuple[str, dict[str, Any]]]:
    """Return the charts of a test's page. They name a run by its index in `runs`, because every chart repeats it."""
    number = {run.uuid: str(index) for index, run in enumerate(runs)}
    size: dict[str, Any] = {"width": "container", "height": 190}
    charts = [
        (
            f"chart-{index}",
            metric_chart(
                "",
                [replace(point, run_key=number[point.run_key]) for point in curve.points],
                [*changed, *curve.annotations],
                excluded={number[run_key] for run_key in curve.excluded},
                axis=axis,
                utc=utc,
                **size,
            ),
        )
        for index, curve in enumerate(curves)
    ]
    if parts := time_parts(curves):
        bars = [(number[run.uuid], run.timestamp, parts[run.uuid]) for run in runs if run.uuid in parts]
        charts.append(("chart-goodput", goodput_chart(bars, **size)))
    return charts


def time_parts(curves: Iterable[Curve]) -> dict[str, dict[str, float]]:
    """Return the percentage of each run's time that was productive, and that was lost by each cause."""
    parts: dict[str, dict[str, float]] = {}
    for curve in curves:
        lost = curve.metric.startswith(BADPUT_PREFIX) and curve.metric.endswith(BADPUT_SUFFIX)
        if not lost and curve.metric != "goodput":
            continue
        kind = curve.metric[len(BADPUT_PREFIX) : -len(BADPUT_SUFFIX)] if lost else PRODUCTIVE
        for point in curve.points:
            if point.value is not None:
                parts.setdefault(point.run_key, {})[kind] = point.value
    # asynchronous loading runs beside the steps and takes no time of its own
    return {run: {k: v for k, v in kinds.items() if k != "data_loading_async"} for run, kinds in parts.items()}
