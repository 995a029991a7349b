"""A metric over its last runs as a mail shows it: small, with large text, its bounds labelled, the bad run marked.

The card is white in both themes, since a mail cannot choose between two pictures.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ml_metrics.charts.axis import Axis, drawable, rounded, value_labels
from ml_metrics.charts.theme import BLUE, GREY, RED, frame
from ml_metrics.units import readable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ml_metrics.model import StoredMetric

WIDTH, HEIGHT = 360, 200
"""With the labels: a phone shows the picture about as wide as it is, so that its text keeps its size."""
FONT_SIZE = 14
MARGIN = 0.12
HALO = {"stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}
"""Text over lines stays readable."""


def mail_chart(points: Sequence[StoredMetric], *, excluded: Collection[str] = frozenset()) -> dict[str, Any]:
    """Return the chart of a metric, oldest run first; the last one is the run that the mail is about."""
    low, high = _domain(points)
    last = len(points) - 1
    x = {
        "field": "number", "type": "quantitative", "title": None, "scale": {"domain": [0, max(last, 1)], "padding": 14},
        "axis": {**_dates(points), "grid": False, "labelFontSize": FONT_SIZE, "labelFlush": True, "labelPadding": 6},
    }  # fmt: skip
    y = {
        "type": "quantitative", "title": None, "scale": {"domain": [low, high], "nice": False, "zero": False},
        "axis": {**value_labels(points[-1].unit), "tickCount": 3, "labelFontSize": FONT_SIZE, "domain": False},
    }  # fmt: skip
    return {
        **frame(WIDTH, HEIGHT),
        "padding": 10,
        "autosize": {"type": "fit", "contains": "padding"},
        "datasets": {"runs": list(_rows(points, excluded)), "bounds": list(_bounds(points, low, high))},
        "layer": [*_bound_lines(x, y, points[-1]), *_values(x, y), *_last(x, y, points[-1], last)],
    }


def _rows(points: Sequence[StoredMetric], excluded: Collection[str]) -> Iterator[dict[str, Any]]:
    for number, point in enumerate(points):
        if drawable(point.value, Axis.LINEAR):
            bad = point.outcome is not None and point.outcome.broken
            yield {
                "number": number,
                "value": rounded(point.value),
                "state": "bad" if bad else "other" if point.run_key in excluded else "good",
            }


def _bounds(points: Sequence[StoredMetric], low: float, high: float) -> Iterator[dict[str, Any]]:
    """Yield the bounds of each run that are inside the chart. An open side has no line."""
    for number, point in enumerate(points if len(points) > 1 else [*points, *points]):
        for side, bound in (("lower", point.lower), ("upper", point.upper)):
            if drawable(bound, Axis.LINEAR) and low <= bound <= high:
                yield {"number": number, "value": rounded(bound), "side": side}


def _domain(points: Sequence[StoredMetric]) -> tuple[float, float]:
    """Return the limits of the axis: every value, and the bounds of the last run."""
    values = [point.value for point in points if drawable(point.value, Axis.LINEAR)]
    bounds = [bound for bound in (points[-1].lower, points[-1].upper) if drawable(bound, Axis.LINEAR)]
    near = sorted(bounds, key=lambda bound: abs(bound - values[-1]))[:1] if values else bounds
    shown = [*values, *near] or [0.0, 1.0]
    least, greatest = min(shown), max(shown)
    reach = (greatest - least) * 2
    shown += [bound for bound in bounds if least - reach <= bound <= greatest + reach]
    least, greatest = min(shown), max(shown)
    margin = (greatest - least) * MARGIN or abs(greatest) * MARGIN or 1.0
    return least - margin, greatest + margin


def _dates(points: Sequence[StoredMetric]) -> dict[str, Any]:
    """Return an axis with two labels: the day of the first run, and this run."""
    last = len(points) - 1
    first = f"{points[0].timestamp:%b} {points[0].timestamp.day}"
    if last == 0:
        return {"values": [0], "labelExpr": "'this run'"}
    return {"values": [0, last], "labelExpr": f"datum.value === 0 ? '{first}' : 'this run'"}


def _bound_lines(x: dict[str, Any], y: dict[str, Any], now: StoredMetric) -> Iterator[dict[str, Any]]:
    position = {"x": x, "y": {**y, "field": "value"}, "detail": {"field": "side"}}
    line = {"type": "line", "interpolate": "step", "color": GREY, "strokeWidth": 1.5, "strokeDash": [5, 4]}
    yield {"data": {"name": "bounds"}, "mark": line, "encoding": position}
    for side, bound, words in (("lower", now.lower, "above"), ("upper", now.upper, "below")):
        if drawable(bound, Axis.LINEAR):
            text = f"must be {words} {readable([bound], now.unit)[0]}"
            yield from _label(text, rounded(bound), y, dy=12 if side == "lower" else -9)


def _label(text: str, value: float, y: dict[str, Any], dy: int) -> Iterator[dict[str, Any]]:
    mark = {"type": "text", "align": "left", "dx": 4, "dy": dy, "fontSize": FONT_SIZE, "color": "#374151"}
    domain = y["scale"]["domain"]
    data = {"values": [{"value": value}] if domain[0] <= value <= domain[1] else []}
    for style in (HALO, {}):
        encoding = {"x": {"value": 0}, "y": {**y, "field": "value"}, "text": {"value": text}}
        yield {"data": data, "mark": {**mark, **style}, "encoding": encoding}


def _values(x: dict[str, Any], y: dict[str, Any]) -> Iterator[dict[str, Any]]:
    position = {"x": x, "y": {**y, "field": "value"}}
    runs = {"data": {"name": "runs"}}
    yield {**runs, "mark": {"type": "line", "color": BLUE, "strokeWidth": 1.6, "opacity": 0.6}, "encoding": position}
    states = {"domain": ["good", "bad", "other"]}
    by_state = {"field": "state", "type": "nominal", "legend": None}
    yield {
        **runs,
        "mark": {"type": "point", "filled": True, "size": 42, "opacity": 1},
        "encoding": {
            **position,
            "color": {**by_state, "scale": {**states, "range": [BLUE, RED, GREY]}},
            "shape": {**by_state, "scale": {**states, "range": ["circle", "cross", "square"]}},
        },
    }


def _last(x: dict[str, Any], y: dict[str, Any], now: StoredMetric, number: int) -> Iterator[dict[str, Any]]:
    """Mark the run of the mail with a ring and its value, or state that it has none."""
    if not drawable(now.value, Axis.LINEAR) or not math.isfinite(now.value):
        corner = {"x": {"value": {"expr": "width"}}, "y": {"value": {"expr": "height"}}}
        mark = {"type": "text", "align": "right", "baseline": "bottom", "dx": -6, "dy": -4, "fontSize": FONT_SIZE}
        none = {"text": {"value": "this run: no value"}}
        red = {**mark, "color": RED, "fontWeight": "bold"}
        yield {"data": {"values": [{}]}, "mark": red, "encoding": {**corner, **none}}
        return
    bad = now.outcome is not None and now.outcome.broken
    colour = RED if bad else BLUE
    data = {"data": {"values": [{"number": number, "value": rounded(now.value)}]}}
    position = {"x": x, "y": {**y, "field": "value"}}
    yield {**data, "mark": {"type": "point", "size": 260, "color": colour, "strokeWidth": 2}, "encoding": position}
    text = readable([now.value], now.unit)[0]
    low, high = y["scale"]["domain"]
    dy = 18 if now.value / 2 > low / 4 + high / 4 else -16
    mark = {"type": "text", "align": "right", "dx": 8, "dy": dy, "fontSize": FONT_SIZE + 1, "fontWeight": "bold"}
    for style in (HALO, {}):
        yield {**data, "mark": {**mark, "color": colour, **style}, "encoding": {**position, "text": {"value": text}}}
