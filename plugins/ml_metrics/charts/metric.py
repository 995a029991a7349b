"""A metric over its runs: values, the bounds they were judged by as a band, verdicts as marks, and what happened."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

from ml_metrics.charts.band import band_of, milliseconds
from ml_metrics.charts.domain import domain_of, shown
from ml_metrics.charts.points import Axis
from ml_metrics.charts.theme import BLUE, GREY, ORANGE, RED, SCHEMA, theme
from ml_metrics.model import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.charts.points import Annotation, Plotted

WORDS = {
    Outcome.PASS: "in bounds",
    Outcome.FAIL: "out of bounds",
    Outcome.INSUFFICIENT_DATA: "not enough history",
    Outcome.MISSING: "missing",
    Outcome.NON_FINITE: "not a finite number",
    Outcome.SKIPPED: "not judged",
    None: "no condition",
}
LETTERS = {Outcome.MISSING: "X", Outcome.NON_FINITE: "N"}
"""How a run without a value is marked at the foot of the chart; any other such run with a dot."""

MARKS = {
    "domain": list(WORDS.values()),
    "color": [BLUE, RED, ORANGE, RED, RED, GREY, BLUE],
    "shape": ["circle", "cross", "triangle-up", "cross", "cross", "diamond", "circle"],
}


def metric_chart(  # noqa: PLR0913  (how one picture may differ from the next)
    title: str,
    points: Sequence[Plotted],
    annotations: Sequence[Annotation] = (),
    *,
    axis: Axis = Axis.LINEAR,
    utc: bool = True,
    width: int | str = 640,
    height: int = 220,
    dark: bool = False,
) -> dict[str, Any]:
    """The chart of one metric.

    Args:
        title: what the chart says it is; empty for none.
        points: the runs; drawn in the order of their times.
        annotations: drawn as vertical lines with a text on hover.
        axis: linear, log, or percent of the usual level, which is the median of the points that count.
        utc: the time axis is in UTC; else in the time zone of whoever draws it.
        width: pixels, or `container`.
        height: pixels.
        dark: for a dark page.
    """
    ordered = _in_percent(sorted(points, key=lambda point: (point.at, point.run_key)), axis)
    low, high = domain = domain_of(ordered, axis)
    drawn = {
        "points": [_columns(ordered, axis)],
        "band": [band_of(ordered, domain, axis)],
        "notes": [{"at": milliseconds(one.at), "text": one.text, "kind": one.kind} for one in annotations],
    }
    unit = {"labelExpr": "datum.label + ' %'"} if axis is Axis.PERCENT else {}
    y = {
        "type": "quantitative", "title": None, "axis": {"format": ".4~g", **unit},
        "scale": {"domain": [low, high], "nice": False, "zero": False, "type": "log" if axis is Axis.LOG else "linear"},
    }  # fmt: skip
    x = {"field": "at", "type": "temporal", "title": None, "scale": {"type": "utc" if utc else "time", "padding": 8}}
    return {
        "$schema": SCHEMA,
        **({"title": title} if title else {}),
        "width": width,
        "height": height,
        "config": theme(dark=dark),
        "datasets": drawn,
        "layer": [_band(x, y), _curve(x, y), _without_value(x), _marks(x, y, utc=utc), *_notes(x, annotations)],
    }


def _in_percent(points: Sequence[Plotted], axis: Axis) -> Sequence[Plotted]:
    usual = [point.value for point in points if point.counts and shown(point.value, Axis.LINEAR)]
    level = abs(median(usual)) if usual else 0.0
    if axis is not Axis.PERCENT or not level:
        return points

    def percent(number: float | None) -> float | None:
        return None if number is None else number / level * 100

    return [
        replace(each, value=percent(each.value), lower=percent(each.lower), upper=percent(each.upper))
        for each in points
    ]


def _columns(points: Sequence[Plotted], axis: Axis) -> dict[str, list[Any]]:
    """One row of columns: a third of the bytes of a row for each run. `flatten` makes rows of them again."""
    return {
        "run": [point.run_key for point in points],
        "at": [milliseconds(point.at) for point in points],
        "value": [point.value if shown(point.value, axis) else None for point in points],
        "lower": [point.lower if shown(point.lower, Axis.LINEAR) else None for point in points],
        "upper": [point.upper if shown(point.upper, Axis.LINEAR) else None for point in points],
        "verdict": [WORDS[point.outcome] for point in points],
        "letter": ["" if shown(point.value, axis) else _letter(point.outcome) for point in points],
        "counts": [point.counts for point in points],
    }


def _letter(outcome: Outcome | None) -> str:
    return LETTERS.get(outcome, "·") if outcome else "·"


POINTS: dict[str, Any] = {
    "data": {"name": "points"},
    "transform": [{"flatten": ["run", "at", "value", "lower", "upper", "verdict", "letter", "counts"]}],
}


def _band(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    return {
        "data": {"name": "band"},
        "transform": [{"flatten": ["at", "low", "high"]}],
        "mark": {
            "type": "area", "color": BLUE, "opacity": 0.16, "clip": True, "tooltip": None,
            "line": {"color": BLUE, "strokeWidth": 1, "strokeDash": [3, 3], "opacity": 0.7},
            "invalid": "break-paths-filter-domains", "aria": False,
        },
        "encoding": {"x": x, "y": {**y, "field": "high"}, "y2": {"field": "low"}},
    }  # fmt: skip


def _curve(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    return {
        **POINTS,
        "mark": {
            "type": "line", "color": BLUE, "strokeWidth": 1.3, "opacity": 0.6, "clip": True, "tooltip": None,
            "invalid": "break-paths-filter-domains", "aria": False,
        },
        "encoding": {"x": x, "y": {**y, "field": "value"}},
    }  # fmt: skip


def _marks(x: dict[str, Any], y: dict[str, Any], *, utc: bool) -> dict[str, Any]:
    """Shape and colour say the verdict; filled says that later runs are compared with this one."""
    colour = {"field": "verdict", "type": "nominal", "scale": {"domain": MARKS["domain"], "range": MARKS["color"]}}
    return {
        **POINTS,
        "name": "runs",
        "mark": {"type": "point", "size": 34, "strokeWidth": 1.4, "clip": True, "cursor": "pointer"},
        "encoding": {
            "x": x,
            "y": {**y, "field": "value"},
            "stroke": {**colour, "legend": None},
            "fill": {
                "condition": {"test": "datum.counts", "field": "verdict", "type": "nominal", "scale": colour["scale"],
                              "legend": None},
                "value": "transparent",
            },
            "shape": {
                "field": "verdict", "type": "nominal", "legend": None,
                "scale": {"domain": MARKS["domain"], "range": MARKS["shape"]},
            },
            "tooltip": [
                {"field": "at", "type": "temporal", "title": "stopped", "format": "%Y-%m-%d %H:%M",
                 "formatType": "utc" if utc else "time"},
                {"field": "value", "type": "quantitative", "title": "value", "format": ".6~g"},
                {"field": "lower", "type": "quantitative", "title": "lower bound", "format": ".6~g"},
                {"field": "upper", "type": "quantitative", "title": "upper bound", "format": ".6~g"},
                {"field": "verdict", "type": "nominal", "title": "verdict"},
                {"field": "counts", "type": "nominal", "title": "in later baselines"},
            ],
        },
    }  # fmt: skip


def _without_value(x: dict[str, Any]) -> dict[str, Any]:
    return {
        "data": POINTS["data"],
        "transform": [*POINTS["transform"], {"filter": "datum.letter"}],
        "mark": {"type": "text", "color": RED, "fontWeight": "bold", "fontSize": 12, "dy": -7},
        "encoding": {
            "x": x,
            "y": {"value": {"expr": "height"}},
            "text": {"field": "letter"},
            "tooltip": [{"field": "verdict", "title": "no value"}],
        },
    }


def _notes(x: dict[str, Any], annotations: Sequence[Annotation]) -> list[dict[str, Any]]:
    if not annotations:
        return []
    data = {"data": {"name": "notes"}}
    tooltip = {"tooltip": [{"field": "text", "title": "what"}]}
    kinds = {
        "field": "kind", "type": "nominal", "legend": None,
        "scale": {"domain": ["accepted", "level", "changed"], "range": [ORANGE, RED, GREY]},
    }  # fmt: skip
    signs = "{'accepted': '✓', 'level': '↕', 'changed': '◆'}[datum.kind]"
    return [
        {**data, "mark": {"type": "rule", "strokeDash": [4, 2], "aria": False},
         "encoding": {"x": x, "color": kinds, **tooltip}},
        {**data, "transform": [{"calculate": signs, "as": "sign"}],
         "mark": {"type": "text", "fontSize": 12, "fontWeight": "bold", "baseline": "top", "dx": 7},
         "encoding": {"x": x, "y": {"value": 2}, "text": {"field": "sign"}, "color": kinds, **tooltip}},
    ]  # fmt: skip
