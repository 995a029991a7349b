"""A metric over its runs: values, bounds as a band, verdicts as marks, and annotations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from ml_metrics.charts.axis import Axis, domain_of, drawable, drawn, milliseconds, time_axis, value_labels
from ml_metrics.charts.band import band_of
from ml_metrics.charts.theme import BLUE, GREY, ORANGE, RED, clock, frame
from ml_metrics.model import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from ml_metrics.model import StoredMetric

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


def metric_chart(  # noqa: PLR0913  (how one picture may differ from the next)
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
    """Return the chart of one metric.

    Args:
        title: the title of the chart, or an empty string.
        points: the runs, in any order.
        annotations: drawn as vertical lines with a text on hover.
        excluded: the keys of runs that later runs are not compared with. Their points are hollow.
        axis: linear, log, or percent of the level, which is the median of the points that are not excluded.
        utc: use UTC on the time axis; otherwise the time zone of the viewer.
        ends: the first and the last time of the axis, which charts beside each other share; None for those of the runs.
        width: pixels, or `container`.
        height: pixels.
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
    """Restore the row of each run, with its texts."""
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
