"""A metric over its runs: values, bounds as a band, verdicts as marks, and annotations."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.charts.frame import (
    BLUE,
    GREY,
    ORANGE,
    RED,
    SERIES_COLOURS,
    SERIES_SHAPES,
    Axis,
    clock,
    domain_of,
    drawable,
    drawn,
    frame,
    milliseconds,
    rounded,
    time_axis,
    value_labels,
)
from ml_metrics.core.model import Outcome
from ml_metrics.core.units import readable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.core.model import StoredMetric


SINGLE_RUN_HALF_WIDTH = timedelta(hours=6)
"""Half the width of the band of a metric with a single run."""

Edge = tuple["datetime", float | None, float | None]


def band_of(points: Sequence[StoredMetric], domain: tuple[float, float], axis: Axis) -> dict[str, list[Any]]:
    """Return the columns `at`, `low`, `high`. An open side extends to the chart's edge; nulls separate segments."""
    edges = list(_without_redundant_edges(list(_edges(points, domain, axis))))
    return {
        "at": [milliseconds(at) for at, _, _ in edges],
        "low": [low for _, low, _ in edges],
        "high": [high for _, _, high in edges],
    }


def _edges(points: Sequence[StoredMetric], domain: tuple[float, float], axis: Axis) -> Iterator[Edge]:
    bounded = [point.lower is not None or point.upper is not None for point in points]
    reach = _half_gap(points)
    for index, point in enumerate(points):
        if not bounded[index]:
            continue
        starts = index == 0 or not bounded[index - 1]
        ends = index == len(points) - 1 or not bounded[index + 1]
        low = _clipped(point.lower, domain, axis, domain[0])
        high = _clipped(point.upper, domain, axis, domain[1])
        if starts and ends:  # an area needs two sides, however thin
            yield point.timestamp - reach, low, high
            yield point.timestamp + reach, low, high
        else:
            yield point.timestamp, low, high
        if ends:
            yield point.timestamp + reach, None, None


def _clipped(bound: float | None, domain: tuple[float, float], axis: Axis, edge: float) -> float:
    if bound is None or not drawable(bound, axis):
        return edge
    return rounded(min(max(bound, domain[0]), domain[1]))


def _half_gap(points: Sequence[StoredMetric]) -> timedelta:
    gaps = [(after.timestamp - before.timestamp).total_seconds() for before, after in pairwise(points)]
    return timedelta(seconds=median(gaps) / 2) if gaps and median(gaps) else SINGLE_RUN_HALF_WIDTH


def _without_redundant_edges(edges: list[Edge]) -> Iterator[Edge]:
    """Drop points on a horizontal line between two equal neighbours."""
    for index, edge in enumerate(edges):
        inside = 0 < index < len(edges) - 1
        if not (inside and edges[index - 1][1:] == edge[1:] == edges[index + 1][1:]):
            yield edge


VERDICTS: tuple[tuple[Outcome | None, str, str, str, str], ...] = (
    (Outcome.PASS, "in bounds", BLUE, "circle", "-"),
    (Outcome.FAIL, "out of bounds", RED, "cross", "-"),
    (Outcome.INSUFFICIENT_DATA, "not enough history", ORANGE, "triangle-up", "-"),
    (Outcome.MISSING, "missing", RED, "cross", "M"),
    (Outcome.NON_FINITE, "not a finite number", RED, "cross", "N"),
    (Outcome.SKIPPED, "not judged", GREY, "square", "-"),
    (None, "no condition", BLUE, "circle", "-"),
)
"""The label, colour and shape of each verdict, and the letter at the bottom of the chart if there is no value."""

VERDICT_NUMBERS = {outcome: number for number, (outcome, *_) in enumerate(VERDICTS)}
VERDICT_NUMBERS[Outcome.RECORDED] = VERDICT_NUMBERS[None]
_, LABELS, COLOURS, SHAPES, LETTERS = (list(column) for column in zip(*VERDICTS, strict=True))
PATH = {"color": BLUE, "clip": True, "tooltip": None, "invalid": "break-paths-filter-domains", "aria": False}


@dataclass(frozen=True, slots=True)
class Annotation:
    """An event between runs: a level was accepted, a level changed, or an image was replaced."""

    at: datetime
    text: str
    kind: str
    """`accepted`, `level` or `changed`."""


def metric_chart(
    title: str,
    points: Sequence[StoredMetric],
    annotations: Sequence[Annotation] = (),
    *,
    excluded: Collection[str] = frozenset(),
    axis: Axis = Axis.LINEAR,
    utc: bool = True,
    ends: tuple[datetime, datetime] | None = None,
    width: int | str = 640,
    height: int = 220,
) -> dict[str, Any]:
    """Return the chart of one metric, from runs in any order.

    Annotations are vertical lines with a text on hover. `excluded` are the keys of runs that later runs are not
    compared with: their points are hollow. Percent is of the level, which is the median of the other points. `ends` are
    those of the time axis, which charts beside each other share; None for those of the runs. Times that are not in UTC
    are in the time zone of the viewer. `width` is in pixels, or `container`; `height` in pixels.
    """
    ordered = _as_percent(sorted(points, key=lambda point: (point.timestamp, point.run_key)), axis, excluded)
    low, high = domain = domain_of(ordered, axis)
    unit = "%" if axis is Axis.PERCENT else next((point.unit for point in reversed(ordered) if point.unit), "")
    y = {
        "type": "quantitative", "title": None, "axis": value_labels(unit),
        "scale": {
            "domainMin": {"expr": "low"}, "domainMax": {"expr": "high"},
            "nice": False, "zero": False, "type": "log" if axis is Axis.LOG else "linear",
        },
    }  # fmt: skip
    runs, x = _as_rows(utc=utc), time_axis(utc=utc, shared=ends is not None)
    times = [{"name": name, "value": milliseconds(at)} for name, at in zip(("start", "end"), ends or (), strict=False)]
    layers = [_band(x, y), _curve(runs, x, y), _letters(runs, x), _marks(runs, x, y)]
    return {
        **frame(width, height),
        **({"title": title} if title else {}),
        "params": [{"name": "low", "value": low}, {"name": "high", "value": high}, *times],
        "datasets": {
            "points": [_as_columns(ordered, axis, excluded)],
            "band": [band_of(ordered, domain, axis)],
            "notes": [{"at": milliseconds(one.at), "text": one.text, "kind": one.kind} for one in annotations],
        },
        "layer": layers + (_annotations(x) if annotations else []),
    }


def _as_percent(points: Sequence[StoredMetric], axis: Axis, excluded: Collection[str]) -> Sequence[StoredMetric]:
    counted = [point.value for point in points if point.run_key not in excluded and drawable(point.value, Axis.LINEAR)]
    level = abs(median(counted)) if counted else 0.0
    if axis is not Axis.PERCENT or not level:
        return points

    def percent(number: float | None) -> float | None:
        return None if number is None else number / level * 100

    return [
        replace(each, value=percent(each.value), lower=percent(each.lower), upper=percent(each.upper))
        for each in points
    ]


def _as_columns(points: Sequence[StoredMetric], axis: Axis, excluded: Collection[str]) -> dict[str, list[Any]]:
    """Return a single row of columns, a third of the size of a row per run. `flatten` restores the rows."""
    return {
        "run": [point.run_key for point in points],
        "at": [milliseconds(point.timestamp) for point in points],
        "value": [drawn(point.value, axis) for point in points],
        "lower": [drawn(point.lower, Axis.LINEAR) for point in points],
        "upper": [drawn(point.upper, Axis.LINEAR) for point in points],
        "verdict": [VERDICT_NUMBERS[point.outcome] for point in points],
        "counts": [int(point.run_key not in excluded) for point in points],
    }


def _as_rows(*, utc: bool) -> dict[str, Any]:
    return {
        "data": {"name": "points"},
        "transform": [
            {"flatten": ["run", "at", "value", "lower", "upper", "verdict", "counts"]},
            {"calculate": f"isValid(datum.value) ? '' : {LETTERS}[datum.verdict]", "as": "letter"},
            {"calculate": f"{LABELS}[datum.verdict]", "as": "verdict_label"},
            {"calculate": "datum.counts ? 'yes' : 'no'", "as": "compared"},
            {"calculate": clock("datum.at", utc=utc), "as": "when"},
        ],
    }


def _band(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    return {
        "data": {"name": "band"},
        "transform": [{"flatten": ["at", "low", "high"]}],
        "mark": {
            **PATH, "type": "area", "opacity": 0.16,
            "line": {"color": BLUE, "strokeWidth": 1, "strokeDash": [3, 3], "opacity": 0.7},
        },
        "encoding": {"x": x, "y": {**y, "field": "high"}, "y2": {"field": "low"}},
    }  # fmt: skip


def _curve(runs: dict[str, Any], x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    return {
        **runs,
        "mark": {**PATH, "type": "line", "strokeWidth": 1.3, "opacity": 0.6},
        "encoding": {"x": x, "y": {**y, "field": "value"}},
    }


def _marks(runs: dict[str, Any], x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    """Shape and colour show the verdict. Filled marks count for later runs."""
    colour = {"field": "verdict_label", "type": "nominal", "scale": {"domain": LABELS, "range": COLOURS}}
    return {
        **runs,
        "name": "runs",
        "mark": {"type": "point", "size": 34, "opacity": 1, "strokeWidth": 1.4, "clip": True, "cursor": "pointer"},
        "encoding": {
            "x": x,
            "y": {**y, "field": "value"},
            "stroke": {**colour, "legend": None},
            "fill": {
                "condition": {"test": "datum.counts", "field": "verdict_label", "type": "nominal",
                              "scale": colour["scale"], "legend": None},
                "value": "transparent",
            },
            "shape": {
                "field": "verdict_label", "type": "nominal", "legend": None,
                "scale": {"domain": LABELS, "range": SHAPES},
            },
            "tooltip": [
                {"field": "when", "title": "stopped"},
                {"field": "value", "type": "quantitative", "title": "value", "format": ".6~g"},
                {"field": "lower", "type": "quantitative", "title": "lower bound", "format": ".6~g"},
                {"field": "upper", "type": "quantitative", "title": "upper bound", "format": ".6~g"},
                {"field": "verdict_label", "type": "nominal", "title": "verdict"},
                {"field": "compared", "type": "nominal", "title": "later runs are compared with it"},
            ],
        },
    }  # fmt: skip


def _letters(runs: dict[str, Any], x: dict[str, Any]) -> dict[str, Any]:
    return {
        "data": runs["data"],
        "transform": [*runs["transform"], {"filter": "datum.letter"}],
        "mark": {"type": "text", "color": RED, "fontWeight": "bold", "fontSize": 12, "dy": -7},
        "encoding": {
            "x": x,
            "y": {"value": {"expr": "height"}},
            "text": {"field": "letter"},
            "tooltip": [{"field": "verdict_label", "title": "no value"}],
        },
    }


def _annotations(x: dict[str, Any]) -> list[dict[str, Any]]:
    data = {"data": {"name": "notes"}}
    tooltip = {"tooltip": [{"field": "text", "title": "what"}]}
    kinds = {
        "field": "kind", "type": "nominal", "legend": None,
        "scale": {"domain": ["accepted", "level", "changed"], "range": [ORANGE, RED, GREY]},
    }  # fmt: skip
    signs = "{'accepted': 'A', 'level': '↕', 'changed': '◆'}[datum.kind]"
    heights = "{'accepted': 2, 'level': 15, 'changed': 28}[datum.kind]"  # annotations at the same time must not overlap
    return [
        {**data, "mark": {"type": "rule", "strokeDash": [4, 2], "aria": False},
         "encoding": {"x": x, "color": kinds, **tooltip}},
        {**data, "transform": [{"calculate": signs, "as": "sign"}, {"calculate": heights, "as": "height"}],
         "mark": {"type": "text", "fontSize": 12, "fontWeight": "bold", "baseline": "top", "dx": 7},
         "encoding": {"x": x, "y": {"field": "height", "type": "quantitative", "scale": None},
                      "text": {"field": "sign"}, "color": kinds, **tooltip}},
    ]  # fmt: skip


def comparison_chart(
    lines: Mapping[str, Sequence[StoredMetric]], *, axis: Axis = Axis.LINEAR, utc: bool = True
) -> dict[str, Any]:
    """Percent is drawn as linear, because the tests have no common level."""
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
