"""A tag over the steps of one run, over the envelope of past good runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.charts.axis import Axis, drawn, step_axis, value_labels
from ml_metrics.charts.theme import BLUE, GREY, RED, frame

if TYPE_CHECKING:
    from ml_metrics.model import CurveBand, TagCurve


def curve_chart(curve: TagCurve, band: CurveBand | None = None, *, width: int | str = "container") -> dict[str, Any]:
    """Return the chart of a curve. Points outside its envelope are crosses, of which only lasting ones count."""
    bounds = {} if band is None else dict(zip(band.steps, zip(band.low, band.high, strict=True), strict=True))
    values = [
        {"step": step, "value": drawn(value, Axis.LINEAR), "place": _place(value, bounds.get(step))}
        for step, value in zip(curve.steps, curve.values, strict=True)
    ]
    shown = [
        {"step": step, "low": drawn(low, Axis.LINEAR), "high": drawn(high, Axis.LINEAR)}
        for step, (low, high) in bounds.items()
    ]
    x = step_axis()
    y = {"type": "quantitative", "title": None, "axis": value_labels(""), "scale": {"zero": False}}
    places = {"domain": ["inside", "outside", "not judged"]}
    by_place = {"field": "place", "type": "nominal", "legend": None}
    line = {"type": "line", "color": BLUE, "strokeWidth": 1.3, "opacity": 0.6, "tooltip": None, "aria": False}
    return {
        **frame(width, 220),
        "datasets": {"values": values, "band": shown},
        "layer": [
            {
                "data": {"name": "band"},
                "mark": {"type": "area", "color": BLUE, "opacity": 0.16, "tooltip": None, "aria": False},
                "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
            {"data": {"name": "values"}, "mark": line, "encoding": {"x": x, "y": {**y, "field": "value"}}},
            {
                "data": {"name": "values"},
                "mark": {"type": "point", "size": 16, "opacity": 1},
                "encoding": {
                    "x": x,
                    "y": {**y, "field": "value"},
                    "color": {**by_place, "scale": {**places, "range": [BLUE, RED, GREY]}},
                    "shape": {**by_place, "scale": {**places, "range": ["circle", "cross", "square"]}},
                    "tooltip": [
                        {"field": "step", "type": "quantitative", "title": "step"},
                        {"field": "value", "type": "quantitative", "title": "value", "format": ".6~g"},
                        {"field": "place", "title": "envelope of good runs"},
                    ],
                },
            },
        ],
    }


def _place(value: float, bounds: tuple[float, float] | None) -> str:
    if bounds is None:
        return "not judged"
    return "inside" if bounds[0] <= value <= bounds[1] else "outside"
