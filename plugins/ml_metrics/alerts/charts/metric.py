"""A metric over its runs: values, bounds as a band, verdicts as marks, and annotations."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any

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
    quantity,
    rounded,
    time_axis,
    value_labels,
)
from ml_metrics.core.model import Outcome, StoredMetric
from ml_metrics.core.units import readable
from ml_metrics.judge import in_newest_units

SINGLE_RUN_HALF_WIDTH = timedelta(hours=6)
"""Half the width of the band of a metric with a single run."""
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
RUNS = {"type": "point", "size": 34, "opacity": 1, "cursor": "pointer"}

Edge = tuple["datetime", float | None, float | None]
Spec = dict[str, Any]


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
) -> Spec:
    """The chart of one metric, from runs in any order.

    Annotations are vertical lines with a text on hover. `excluded` are the keys of runs that later runs are not
    compared with: their points are hollow. Percent is of the level, which is the median of the other points. `ends` are
    those of the time axis, which charts beside each other share; None for those of the runs. Times that are not in UTC
    are in the time zone of the viewer. `width` is in pixels, or `container`; `height` in pixels.
    """
    points = sorted(in_newest_units(points), key=lambda point: (point.timestamp, point.run_key))
    ordered = _as_percent(points, axis, excluded)
    low, high = domain = domain_of(ordered, axis)
    unit = "%" if axis is Axis.PERCENT else next((point.unit for point in reversed(ordered) if point.unit), "")
    kind = "log" if axis is Axis.LOG else "linear"
    ends_of_y = {"domainMin": {"expr": "low"}, "domainMax": {"expr": "high"}}
    scale = {**ends_of_y, "nice": False, "zero": False, "type": kind}
    y = {"type": "quantitative", "title": None, "axis": value_labels(unit), "scale": scale}
    x = time_axis(utc=utc, shared=ends is not None)
    times = [{"name": name, "value": milliseconds(at)} for name, at in zip(("start", "end"), ends or (), strict=False)]
    # columns are a third of the size of a row per run; `flatten` restores the rows
    columns = {
        "run": [point.run_key for point in ordered],
        "at": [milliseconds(point.timestamp) for point in ordered],
        "value": [drawn(point.value, axis) for point in ordered],
        "lower": [drawn(point.lower, Axis.LINEAR) for point in ordered],
        "upper": [drawn(point.upper, Axis.LINEAR) for point in ordered],
        "verdict": [VERDICT_NUMBERS[point.outcome] for point in ordered],
        "counts": [int(point.run_key not in excluded) for point in ordered],
    }
    return {
        **frame(width, height),
        **({"title": title} if title else {}),
        "params": [{"name": "low", "value": low}, {"name": "high", "value": high}, *times],
        "datasets": {
            "points": [columns],
            "band": [band_of(ordered, domain, axis)],
            "notes": [{"at": milliseconds(one.at), "text": one.text, "kind": one.kind} for one in annotations],
        },
        "layer": [*_layers(list(columns), x, y, utc=utc), *(_annotations(x) if annotations else [])],
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


def _layers(columns: list[str], x: Spec, y: Spec, *, utc: bool) -> list[Spec]:
    """The band, the curve, the letters of runs without a value, and the marks.

    Shape and colour of a mark show the verdict. Filled marks count for later runs.
    """
    rows = [
        {"flatten": columns},
        {"calculate": f"isValid(datum.value) ? '' : {LETTERS}[datum.verdict]", "as": "letter"},
        {"calculate": f"{LABELS}[datum.verdict]", "as": "verdict_label"},
        {"calculate": "datum.counts ? 'yes' : 'no'", "as": "compared"},
        {"calculate": clock("datum.at", utc=utc), "as": "when"},
    ]
    data, values = {"name": "points"}, {"x": x, "y": {**y, "field": "value"}}
    line = {"color": BLUE, "strokeWidth": 1, "strokeDash": [3, 3], "opacity": 0.7}
    by_verdict = {"field": "verdict_label", "type": "nominal", "legend": None}
    colour = {**by_verdict, "scale": {"domain": LABELS, "range": COLOURS}}
    return [
        {
            "data": {"name": "band"},
            "transform": [{"flatten": ["at", "low", "high"]}],
            "mark": {**PATH, "type": "area", "opacity": 0.16, "line": line},
            "encoding": {"x": x, "y": {**y, "field": "high"}, "y2": {"field": "low"}},
        },
        {
            "data": data,
            "transform": rows,
            "mark": {**PATH, "type": "line", "strokeWidth": 1.3, "opacity": 0.6},
            "encoding": values,
        },
        {
            "data": data,
            "transform": [*rows, {"filter": "datum.letter"}],
            "mark": {"type": "text", "color": RED, "fontWeight": "bold", "fontSize": 12, "dy": -7},
            "encoding": {
                "x": x,
                "y": {"value": {"expr": "height"}},
                "text": {"field": "letter"},
                "tooltip": [{"field": "verdict_label", "title": "no value"}],
            },
        },
        {
            "data": data,
            "transform": rows,
            "name": "runs",
            "mark": {**RUNS, "strokeWidth": 1.4, "clip": True},
            "encoding": {
                **values,
                "stroke": colour,
                "fill": {"condition": {"test": "datum.counts", **colour}, "value": "transparent"},
                "shape": {**by_verdict, "scale": {"domain": LABELS, "range": SHAPES}},
                "tooltip": [
                    {"field": "when", "title": "stopped"},
                    quantity("value", format=".6~g"),
                    quantity("lower", "lower bound", format=".6~g"),
                    quantity("upper", "upper bound", format=".6~g"),
                    {"field": "verdict_label", "type": "nominal", "title": "verdict"},
                    {"field": "compared", "type": "nominal", "title": "later runs are compared with it"},
                ],
            },
        },
    ]


def _annotations(x: Spec) -> list[Spec]:
    tooltip = {"tooltip": [{"field": "text", "title": "what"}]}
    scale = {"domain": ["accepted", "level", "changed"], "range": [ORANGE, RED, GREY]}
    kinds = {"field": "kind", "type": "nominal", "legend": None, "scale": scale}
    signs = "{'accepted': 'A', 'level': '↕', 'changed': '◆'}[datum.kind]"
    heights = "{'accepted': 2, 'level': 15, 'changed': 28}[datum.kind]"  # annotations at the same time must not overlap
    height = {"field": "height", "type": "quantitative", "scale": None}
    return [
        {
            "data": {"name": "notes"},
            "mark": {"type": "rule", "strokeDash": [4, 2], "aria": False},
            "encoding": {"x": x, "color": kinds, **tooltip},
        },
        {
            "data": {"name": "notes"},
            "transform": [{"calculate": signs, "as": "sign"}, {"calculate": heights, "as": "height"}],
            "mark": {"type": "text", "fontSize": 12, "fontWeight": "bold", "baseline": "top", "dx": 7},
            "encoding": {"x": x, "y": height, "text": {"field": "sign"}, "color": kinds, **tooltip},
        },
    ]


def band_of(points: Sequence[StoredMetric], domain: tuple[float, float], axis: Axis) -> dict[str, list[Any]]:
    """The columns `at`, `low`, `high`. An open side extends to the chart's edge; nulls separate segments."""
    edges = list(_edges(points, domain, axis))
    # points on a horizontal line between two equal neighbours are redundant
    inner = [
        edge
        for before, edge, after in zip(edges, edges[1:], edges[2:], strict=False)
        if not before[1:] == edge[1:] == after[1:]
    ]
    kept = [*edges[:1], *inner, *edges[1:][-1:]]
    return {
        "at": [milliseconds(at) for at, _, _ in kept],
        "low": [low for _, low, _ in kept],
        "high": [high for _, _, high in kept],
    }


def _edges(points: Sequence[StoredMetric], domain: tuple[float, float], axis: Axis) -> Iterator[Edge]:
    def clipped(bound: float | None, edge: float) -> float:
        return rounded(min(max(bound, domain[0]), domain[1])) if drawable(bound, axis) else edge

    bounded = [point.lower is not None or point.upper is not None for point in points]
    gaps = [(after.timestamp - before.timestamp).total_seconds() for before, after in pairwise(points)]
    reach = timedelta(seconds=median(gaps) / 2) if gaps and median(gaps) else SINGLE_RUN_HALF_WIDTH
    for index, point in enumerate(points):
        if not bounded[index]:
            continue
        starts = index == 0 or not bounded[index - 1]
        ends = index == len(points) - 1 or not bounded[index + 1]
        low, high = clipped(point.lower, domain[0]), clipped(point.upper, domain[1])
        if starts and ends:  # an area needs two sides, however thin
            yield point.timestamp - reach, low, high
            yield point.timestamp + reach, low, high
        else:
            yield point.timestamp, low, high
        if ends:
            yield point.timestamp + reach, None, None


def comparison_chart(
    lines: Mapping[str, Sequence[StoredMetric]], *, axis: Axis = Axis.LINEAR, utc: bool = True
) -> Spec:
    """Percent is drawn as linear, because the tests have no common level."""
    tests, number = list(lines), len(SERIES_COLOURS)
    rows = [
        {"test": test, "run": point.run_key, "at": milliseconds(point.timestamp), "value": rounded(point.value)}
        for test, points in lines.items()
        for point in sorted(in_newest_units(points), key=lambda point: point.timestamp)
        if drawable(point.value, axis)
    ]
    scale = {"type": "log" if axis is Axis.LOG else "linear", "zero": False}
    y = {"field": "value", "type": "quantitative", "title": None, "axis": value_labels(""), "scale": scale}
    colours = [SERIES_COLOURS[index % number] for index in range(len(tests))]
    shapes = [SERIES_SHAPES[(index + index // number) % number] for index in range(len(tests))]
    legend = {"orient": "bottom", "columns": 2, "labelLimit": 300, "symbolStrokeWidth": 2}
    by_test = {"field": "test", "type": "nominal", "title": None, "legend": legend}
    points = {
        "shape": {**by_test, "scale": {"domain": tests, "range": shapes}},
        "tooltip": [
            {"field": "test", "title": "test"},
            {"field": "when", "title": "stopped"},
            quantity("value", format=".6~g"),
        ],
    }
    color = {**by_test, "scale": {"domain": tests, "range": colours}}
    return {
        **frame("container", 260),
        "datasets": {"values": rows},
        "data": {"name": "values"},
        "transform": [{"calculate": clock("datum.at", utc=utc), "as": "when"}],
        "encoding": {"x": time_axis(utc=utc), "y": y, "color": color},
        "layer": [
            {"mark": {"type": "line", "strokeWidth": 1.3, "tooltip": None, "aria": False}},
            {"mark": RUNS, "encoding": points},
        ],
    }


FONT_SIZE = 14


def mail_chart(points: Sequence[StoredMetric], *, excluded: Collection[str] = frozenset()) -> Spec:
    """The chart of a metric, oldest run first; the last one is the run that the mail is about.

    A phone shows the picture about as wide as it is, so that its text keeps its size.
    """
    points = in_newest_units(points)
    last, now = len(points) - 1, points[-1]
    earlier = (replace(point, lower=None, upper=None) for point in points[:-1])
    low, high = domain_of([*earlier, now], Axis.LINEAR, margin=0.12)
    first = f"{points[0].timestamp:%b} {points[0].timestamp.day}"
    label = f"datum.value === 0 ? '{first}' : 'this run'" if last else "'this run'"
    axis = {"values": [0, last] if last else [0], "labelExpr": label, "grid": False, "labelFontSize": FONT_SIZE}
    x = {
        **quantity("number"),
        "title": None,
        "scale": {"domain": [0, max(last, 1)], "padding": 14},
        "axis": {**axis, "labelFlush": True, "labelPadding": 6},
    }
    y = {
        **quantity("value"),
        "title": None,
        "scale": {"domain": [low, high], "nice": False, "zero": False},
        "axis": {**value_labels(now.unit), "tickCount": 3, "labelFontSize": FONT_SIZE, "domain": False},
    }
    runs = [
        {"number": number, "value": rounded(point.value), "state": _state(point, excluded)}
        for number, point in enumerate(points)
        if drawable(point.value, Axis.LINEAR)
    ]
    return {
        **frame(360, 200),
        "padding": 10,
        "autosize": {"type": "fit", "contains": "padding"},
        "datasets": {"runs": runs, "bounds": list(_bounds(points, low, high))},
        "layer": [*_bound_lines(x, y, now), *_values(x, y), *_last(x, y, now, last)],
    }


def _state(point: StoredMetric, excluded: Collection[str]) -> str:
    if point.outcome is not None and point.outcome.broken:
        return "bad"
    return "other" if point.run_key in excluded else "good"


def _bounds(points: Sequence[StoredMetric], low: float, high: float) -> Iterator[Spec]:
    """The bounds of each run that are inside the chart. An open side has no line."""
    for number, point in enumerate(points if len(points) > 1 else [*points, *points]):
        for side, bound in (("lower", point.lower), ("upper", point.upper)):
            if drawable(bound, Axis.LINEAR) and low <= bound <= high:
                yield {"number": number, "value": rounded(bound), "side": side}


def _bound_lines(x: Spec, y: Spec, now: StoredMetric) -> Iterator[Spec]:
    line = {"type": "line", "interpolate": "step", "color": GREY, "strokeWidth": 1.5, "strokeDash": [5, 4]}
    yield {"data": {"name": "bounds"}, "mark": line, "encoding": {"x": x, "y": y, "detail": {"field": "side"}}}
    low, high = y["scale"]["domain"]
    least, most = ("at least", "at most") if now.inclusive else ("above", "below")
    for bound, words, dy in ((now.lower, least, 12), (now.upper, most, -9)):
        if drawable(bound, Axis.LINEAR):
            text = {"value": f"must be {words} {readable([bound], now.unit)[0]}"}
            mark = {"type": "text", "align": "left", "dx": 4, "dy": dy, "fontSize": FONT_SIZE, "color": "#374151"}
            data = {"values": [{"value": rounded(bound)}] if low <= rounded(bound) <= high else []}
            yield from _with_halo({"data": data, "encoding": {"x": {"value": 0}, "y": y, "text": text}}, mark)


def _with_halo(layer: Spec, mark: Spec) -> Iterator[Spec]:
    """Text over lines stays readable."""
    for style in ({"stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}, {}):
        yield {**layer, "mark": {**mark, **style}}


def _values(x: Spec, y: Spec) -> Iterator[Spec]:
    runs = {"data": {"name": "runs"}, "encoding": {"x": x, "y": y}}
    yield {**runs, "mark": {"type": "line", "color": BLUE, "strokeWidth": 1.6, "opacity": 0.6}}
    states = {"domain": ["good", "bad", "other"]}
    by_state = {"field": "state", "type": "nominal", "legend": None}
    yield {
        "data": {"name": "runs"},
        "mark": {"type": "point", "filled": True, "size": 42, "opacity": 1},
        "encoding": {
            "x": x,
            "y": y,
            "color": {**by_state, "scale": {**states, "range": [BLUE, RED, GREY]}},
            "shape": {**by_state, "scale": {**states, "range": ["circle", "cross", "square"]}},
        },
    }


def _last(x: Spec, y: Spec, now: StoredMetric, number: int) -> Iterator[Spec]:
    """Mark the run of the mail with a ring and its value, or state that it has none."""
    if not drawable(now.value, Axis.LINEAR) or not math.isfinite(now.value):
        corner = {"x": {"value": {"expr": "width"}}, "y": {"value": {"expr": "height"}}}
        place = {"type": "text", "align": "right", "baseline": "bottom", "dx": -6, "dy": -4, "fontSize": FONT_SIZE}
        red, none = {**place, "color": RED, "fontWeight": "bold"}, {"text": {"value": "this run: no value"}}
        yield from _with_halo({"data": {"values": [{}]}, "encoding": {**corner, **none}}, red)  # on the line of a bound
        return
    colour = RED if now.outcome is not None and now.outcome.broken else BLUE
    data = {"data": {"values": [{"number": number, "value": rounded(now.value)}]}}
    ring = {"type": "point", "size": 260, "color": colour, "strokeWidth": 2}
    yield {**data, "mark": ring, "encoding": {"x": x, "y": y}}
    low, high = y["scale"]["domain"]
    dy = 18 if now.value / 2 > low / 4 + high / 4 else -16
    text = {"value": readable([now.value], now.unit)[0]}
    mark = {"type": "text", "align": "right", "dx": 8, "dy": dy, "fontSize": FONT_SIZE + 1, "fontWeight": "bold"}
    yield from _with_halo({**data, "encoding": {"x": x, "y": y, "text": text}}, {**mark, "color": colour})
