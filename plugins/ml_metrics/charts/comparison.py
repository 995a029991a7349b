"""One metric of several tests: a line per test, distinguished by its colour and by the shape of its points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.charts.axis import Axis
from ml_metrics.charts.band import milliseconds
from ml_metrics.charts.domain import drawable, rounded
from ml_metrics.charts.theme import SCHEMA, SERIES_COLOURS, SERIES_SHAPES, clock, theme

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.model import StoredMetric


def comparison_chart(
    lines: Mapping[str, Sequence[StoredMetric]],
    *,
    axis: Axis = Axis.LINEAR,
    utc: bool = True,
    width: int | str = 640,
    height: int = 260,
) -> dict[str, Any]:
    """Return the chart of one metric.

    Args:
        lines: the runs of each test.
        axis: linear or log; percent is drawn as linear, because the tests have no common level.
        utc: use UTC on the time axis; otherwise the time zone of the viewer.
        width: pixels, or `container`.
        height: pixels.
    """
    tests = list(lines)
    rows = [
        {"test": test, "run": point.run_key, "at": milliseconds(point.timestamp), "value": rounded(point.value)}
        for test, points in lines.items()
        for point in sorted(points, key=lambda point: point.timestamp)
        if drawable(point.value, axis)
    ]
    x = {"field": "at", "type": "temporal", "title": None, "scale": {"type": "utc" if utc else "time", "padding": 8}}
    y = {
        "field": "value", "type": "quantitative", "title": None, "axis": {"format": ".4~g"},
        "scale": {"type": "log" if axis is Axis.LOG else "linear", "zero": False},
    }  # fmt: skip
    colours = [SERIES_COLOURS[index % len(SERIES_COLOURS)] for index in range(len(tests))]
    shapes = [SERIES_SHAPES[(index + index // len(SERIES_COLOURS)) % len(SERIES_SHAPES)] for index in range(len(tests))]
    legend = {"orient": "bottom", "columns": 2, "labelLimit": 300, "symbolStrokeWidth": 2}
    by_test = {"field": "test", "type": "nominal", "title": None, "legend": legend}
    return {
        "$schema": SCHEMA,
        "width": width,
        "height": height,
        "config": theme(),
        "datasets": {"values": rows},
        "data": {"name": "values"},
        "transform": [{"calculate": clock("datum.at", utc=utc), "as": "when"}],
        "encoding": {"x": x, "y": y, "color": {**by_test, "scale": {"domain": tests, "range": colours}}},
        "layer": [
            {"mark": {"type": "line", "strokeWidth": 1.3, "tooltip": None, "aria": False}},
            {
                "mark": {"type": "point", "size": 34, "opacity": 1, "cursor": "pointer"},
                "encoding": {
                    "shape": {**by_test, "scale": {"domain": tests, "range": shapes}},
                    "tooltip": [
                        {"field": "test", "title": "test"},
                        {"field": "when", "title": "stopped"},
                        {"field": "value", "type": "quantitative", "title": "value", "format": ".6~g"},
                    ],
                },
            },
        ],
    }  # fmt: skip
