"""One metric of several tests: a line per test, distinguished by its colour and by the shape of its points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.charts.axis import Axis, drawable, milliseconds, rounded, time_axis, value_labels
from ml_metrics.charts.theme import SERIES_COLOURS, SERIES_SHAPES, clock, frame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.model import StoredMetric


def comparison_chart(
    lines: Mapping[str, Sequence[StoredMetric]], *, axis: Axis = Axis.LINEAR, utc: bool = True
) -> dict[str, Any]:
    """Return the chart of one metric in the runs of each test.

    Percent is drawn as linear, because the tests have no common level.
    """
    tests = list(lines)
    rows = [
        {"test": test, "run": point.run_key, "at": milliseconds(point.timestamp), "value": rounded(point.value)}
        for test, points in lines.items()
        for point in sorted(points, key=lambda point: point.timestamp)
        if drawable(point.value, axis)
    ]
    y = {
        "field": "value", "type": "quantitative", "title": None, "axis": value_labels(""),
        "scale": {"type": "log" if axis is Axis.LOG else "linear", "zero": False},
    }  # fmt: skip
    colours = [SERIES_COLOURS[index % len(SERIES_COLOURS)] for index in range(len(tests))]
    shapes = [SERIES_SHAPES[(index + index // len(SERIES_COLOURS)) % len(SERIES_SHAPES)] for index in range(len(tests))]
    legend = {"orient": "bottom", "columns": 2, "labelLimit": 300, "symbolStrokeWidth": 2}
    x, by_test = time_axis(utc=utc), {"field": "test", "type": "nominal", "title": None, "legend": legend}
    return {
        **frame("container", 260),
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
