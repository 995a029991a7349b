"""A tag over the steps of a run, beside another run: told apart by colour and by dashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.charts.axis import Axis, drawable, rounded, step_axis, value_labels
from ml_metrics.charts.theme import SERIES_COLOURS, frame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DASHES = ([1, 0], [5, 3])


def run_curves_chart(lines: Mapping[str, Sequence[tuple[int, float]]]) -> dict[str, Any]:
    """Return the chart of the steps and values of each run, by the name that the legend has."""
    rows = [
        {"line": line, "step": step, "value": rounded(value)}
        for line, points in lines.items()
        for step, value in points
        if drawable(value, Axis.LINEAR)
    ]
    legend = {"orient": "bottom", "columns": 1, "labelLimit": 300, "symbolStrokeWidth": 2}
    by_line = {"field": "line", "type": "nominal", "title": None, "legend": legend}
    names = list(lines)
    return {
        **frame("container", 190),
        "datasets": {"values": rows},
        "data": {"name": "values"},
        "mark": {"type": "line", "strokeWidth": 1.5, "aria": False, "tooltip": True},
        "encoding": {
            "x": step_axis(zero=False),
            "y": {
                "field": "value",
                "type": "quantitative",
                "title": None,
                "axis": value_labels(""),
                "scale": {"zero": False},
            },
            "color": {**by_line, "scale": {"domain": names, "range": list(SERIES_COLOURS[: len(names)])}},
            "strokeDash": {**by_line, "scale": {"domain": names, "range": list(DASHES[: len(names)])}},
        },
    }
