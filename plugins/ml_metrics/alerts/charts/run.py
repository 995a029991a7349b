"""One run: curves over steps or a load, over the envelope of past good runs; the times of its hosts and goodput."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from zlib import crc32

from ml_metrics.alerts.charts.frame import (
    BLUE,
    GREY,
    RED,
    SERIES_COLOURS,
    Axis,
    clock,
    drawable,
    drawn,
    frame,
    milliseconds,
    quantity,
    rounded,
    step_axis,
    time_axis,
    value_labels,
)
from ml_metrics.core.kinds import kind_of
from ml_metrics.core.model import CurveBand, Sweep, TagCurve

WIDE = 8.0
"""From which quotient of the ends of x on it is drawn by its logarithm."""
BY_PLACE: dict[str, Any] = {"domain": ["inside", "outside", "not judged"]}


def curve_chart(curve: TagCurve, band: CurveBand | None = None, *, width: int | str = "container") -> dict[str, Any]:
    """The chart of a curve. Points outside its envelope are crosses, of which only lasting ones count."""
    bounds = {} if band is None else dict(zip(band.steps, zip(band.low, band.high, strict=True), strict=True))

    def place(step: int, value: float) -> str:
        low, high = bounds.get(step, (None, None))
        return "not judged" if low is None or high is None else "inside" if low <= value <= high else "outside"

    values = [
        {"step": step, "value": drawn(value, Axis.LINEAR), "place": place(step, value)}
        for step, value in zip(curve.steps, curve.values, strict=True)
    ]
    x, y = step_axis(), _values_axis(kind_of(curve.tag).unit)
    encoding = {"x": x, "y": {**y, "field": "value"}}
    by_place = {"field": "place", "type": "nominal", "legend": None}
    line = {"type": "line", "color": BLUE, "strokeWidth": 1.3, "opacity": 0.6, "tooltip": None, "aria": False}
    points: dict[str, Any] = {
        **encoding,
        "color": {**by_place, "scale": {**BY_PLACE, "range": [BLUE, RED, GREY]}},
        "shape": {**by_place, "scale": {**BY_PLACE, "range": ["circle", "cross", "square"]}},
        "tooltip": [
            quantity("step"),
            quantity("value", format=".6~g"),
            {"field": "place", "title": "envelope of good runs"},
        ],
    }
    return {
        **frame(width, 220),
        "datasets": {"values": values, "band": _band("step", bounds)},
        "layer": [
            _area(x, y),
            {"data": {"name": "values"}, "mark": line, "encoding": encoding},
            {"data": {"name": "values"}, "mark": {"type": "point", "size": 16, "opacity": 1}, "encoding": points},
        ],
    }


def sweep_chart(sweep: Sweep, before: Sequence[Sweep], *, width: int | str = "container") -> dict[str, Any]:
    """The chart of a curve over a load or a size, over the range of the curves of runs before."""
    own = sweep.measured
    past: dict[float, list[float]] = {}
    for one in before:
        for each, value in one.measured.items():
            past.setdefault(each, []).append(value)
    xs = [*own, *past]
    is_wide = bool(xs) and 0 < min(xs) * WIDE <= max(xs)
    title = f"{sweep.x_name}, {sweep.x_unit}" if sweep.x_unit else sweep.x_name
    scale: dict[str, Any] = {"type": "log", "nice": False} if is_wide else {"zero": False}
    x, y = {**quantity("x", title), "scale": scale}, _values_axis(sweep.unit)
    tooltip = [quantity("x", sweep.x_name), quantity("value", sweep.unit or "value", format=".6~g")]
    line = {"type": "line", "color": BLUE, "strokeWidth": 1.3, "point": {"color": BLUE, "size": 20}}
    encoding = {"x": x, "y": {**y, "field": "value"}, "tooltip": tooltip}
    return {
        **frame(width, 220),
        "datasets": {
            "values": [{"x": each, "value": drawn(value, Axis.LINEAR)} for each, value in own.items()],
            "band": _band("x", {each: (min(ys), max(ys)) for each, ys in sorted(past.items())}),
        },
        "layer": [_area(x, y), {"data": {"name": "values"}, "mark": line, "encoding": encoding}],
    }


def _values_axis(unit: str) -> dict[str, Any]:
    return {"type": "quantitative", "title": None, "axis": value_labels(unit), "scale": {"zero": False}}


def _band(name: str, bounds: Mapping[Any, tuple[float, float]]) -> list[dict[str, Any]]:
    return [
        {name: at, "low": drawn(low, Axis.LINEAR), "high": drawn(high, Axis.LINEAR)}
        for at, (low, high) in bounds.items()
    ]


def _area(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    return {
        "data": {"name": "band"},
        "mark": {"type": "area", "color": BLUE, "opacity": 0.16, "tooltip": None, "aria": False},
        "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
    }


PRODUCTIVE = "productive"
OTHER = "other"
CUSTOM = "custom_badput_events"
"""The kind of all custom events; `custom_badput_events_<type>` is the kind of one type."""
COLOURS = {
    PRODUCTIVE: "#2f6fde",
    "stall": "#d11a2a",
    "wasted_progress_from_disruption": "#c2479b",
    "infrastructure_recovery_from_disruption": "#b45309",
    "unproductive_checkpoint_save_time": "#1b9e77",
    "unproductive_checkpoint_restore_time": "#0e7490",
    "data_loading_sync": "#8a6d00",
    "program_startup": "#7570b3",
    "training_prep": "#4d7c0f",
    "tpu_initialization": "#a05a2c",
    "elastic_slice_down": "#e0699f",
    "elastic_scale_up": "#5b8def",
    "elastic_reinitialization": "#9d4edd",
    CUSTOM: "#b08900",
    OTHER: "#5f6b7a",
}
"""The colour of each kind, the same in every chart."""
CUSTOM_COLOURS = ("#e07b39", "#3fa34d", "#8e6c8a", "#2a9db8", "#c9a227", "#6b4fbb")
"""The colours of types of custom events. A type keeps its colour unless two in a chart would have the same."""
BAR_SHARE, WIDEST_BAR = 0.8, 16
"""How much of its share of the axis a bar fills, and its greatest width in pixels: the outer ones stay inside."""
SMALL = 1.0
"""A kind that takes less than this percentage of every run is drawn as part of `other`."""


def goodput_chart(
    runs: Sequence[tuple[str, datetime, Mapping[str, float]]],
    *,
    utc: bool = True,
    ends: tuple[datetime, datetime] | None = None,
) -> dict[str, Any]:
    """The chart of some runs: of each its key, its end, and the percentage of its time by kind.

    `ends` are the first and the last time of the axis, which charts beside it share; None for those of the runs.
    """
    folded = [(key, at, parts) for (key, at, _), parts in zip(runs, _folded([run[2] for run in runs]), strict=True)]
    every = {kind for _, _, parts in folded for kind in parts}
    # productive time is at the bottom of a bar, and other time at its top
    kinds = sorted(every, key=lambda kind: (kind != PRODUCTIVE, kind == OTHER, kind))
    colours = colours_of(kinds)
    rows = [
        {"run": key, "at": milliseconds(at), "kind": kind, "percent": rounded(parts[kind]), "order": kinds.index(kind)}
        for key, at, parts in sorted(folded, key=lambda run: run[1])
        for kind in kinds
        if parts.get(kind)
    ]
    times = [at for _, at, _ in runs]
    start, end = ends or (min(times), max(times))
    params = {"start": milliseconds(start), "end": milliseconds(end), "share": BAR_SHARE / (len(runs) + 1)}
    return {
        **frame("container", 190),
        "params": [{"name": name, "value": value} for name, value in params.items()],
        "datasets": {"times": rows},
        "data": {"name": "times"},
        "transform": [{"calculate": clock("datum.at", utc=utc), "as": "when"}],
        "mark": {"type": "bar", "cursor": "pointer", "size": {"expr": f"max(2, min({WIDEST_BAR}, width * share))"}},
        "encoding": {
            "x": time_axis(utc=utc, shared=True),
            "y": {**quantity("percent"), "title": None, "stack": "zero", "axis": value_labels("%")},
            "order": {"field": "order"},
            "color": {"field": "kind", "type": "nominal", "title": None,
                      "legend": {"orient": "bottom", "columns": 3,
                                 "labelExpr": "replace(datum.label, regexp('_', 'g'), ' ')"},
                      "scale": {"domain": kinds, "range": [colours[kind] for kind in kinds]}},
            "tooltip": [
                {"field": "kind", "title": "kind"},
                quantity("percent", format=".4~g"),
                {"field": "when", "title": "stopped"},
            ],
        },
    }  # fmt: skip


def _folded(runs: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """The parts of each run, with the kinds that are small in all runs, and types without a colour, in `other`.

    Kinds that take no time are left out.
    """
    kinds = {kind for parts in runs for kind in parts}
    largest = {kind: max(parts.get(kind, 0.0) for parts in runs) for kind in kinds}
    types = sorted((kind for kind in largest if kind not in COLOURS), key=lambda kind: (-largest[kind], kind))
    small = {kind for kind, percent in largest.items() if percent < SMALL and kind != PRODUCTIVE}
    small.update(types[len(CUSTOM_COLOURS) :])
    folded = []
    for parts in runs:
        kept = {kind: percent for kind, percent in parts.items() if percent > 0 and kind not in small}
        rest = sum(percent for kind, percent in parts.items() if kind in small)
        if rest > 0:
            kept[OTHER] = kept.get(OTHER, 0.0) + rest
        folded.append(kept)
    return folded


def colours_of(kinds: Iterable[str]) -> dict[str, str]:
    """The colour of each kind: its own, and for a type of custom events one that its name determines."""
    colours: dict[str, str] = {}
    for kind in kinds:
        at = crc32(kind.encode()) % len(CUSTOM_COLOURS)
        choices = [COLOURS[kind]] if kind in COLOURS else [*CUSTOM_COLOURS[at:], *CUSTOM_COLOURS[:at]]
        colours[kind] = next((one for one in choices if one not in colours.values()), choices[0])
    return colours


def host_chart(
    hosts: Sequence[str],
    first_steps: Sequence[int],
    percent: Sequence[Sequence[float]],
    *,
    width: int | str = "container",
) -> dict[str, Any]:
    cells = [
        {"host": f"{place + 1}. {host}", "step": step, "percent": value}
        for place, (host, row) in enumerate(zip(hosts, percent, strict=True))
        for step, value in zip(first_steps, row, strict=True)
    ]
    largest = max((abs(value) for row in percent for value in row), default=0.0)
    # the percentage at which a cell has the full colour
    scale = min(max(largest, 5.0), 50.0)
    return {
        **frame(width, max(60, 14 * len(hosts))),
        "datasets": {"cells": cells},
        "data": {"name": "cells"},
        "mark": {"type": "rect"},
        "encoding": {
            "x": {"field": "step", "type": "ordinal", "title": "from step",
                  "axis": {"labelAngle": 0, "labelOverlap": "greedy", "labelSeparation": 8, "ticks": False}},
            "y": {"field": "host", "type": "ordinal", "title": None, "sort": None, "axis": {"labelLimit": 160}},
            "color": {"field": "percent", "type": "quantitative", "title": "% above the median",
                      "scale": {"domain": [-scale, 0, scale], "range": [BLUE, "#e5e7eb", RED], "clamp": True},
                      "legend": {"orient": "bottom", "gradientLength": 160}},
            "tooltip": [
                {"field": "host", "title": "host"},
                {"field": "step", "title": "from step"},
                quantity("percent", "% above the median", format=".4~g"),
            ],
        },
    }  # fmt: skip


def with_flags(chart: dict[str, Any], flags: Iterable[tuple[int, str]]) -> dict[str, Any]:
    """A chart over steps with what was done to the run at some of them, such as planned faults."""
    shown = [{"step": step, "what": what} for step, what in flags]
    if not shown:
        return chart
    own = {name: chart[name] for name in ("data", "mark", "encoding") if name in chart}
    layers, cells = chart.get("layer", [own]), chart["datasets"].get("cells", ())
    if places := sorted({cell["step"] for cell in cells}):  # a column stands for the steps from its first one on
        shown = [{**one, "step": max((at for at in places if at <= one["step"]), default=places[0])} for one in shown]
    tooltip = [{"field": "what", "title": "planned fault"}, {"field": "step", "title": "step"}]
    flag = {
        "data": {"name": "flags"},
        "mark": {"type": "rule", "color": RED, "strokeDash": [4, 3], "strokeWidth": 1.5},
        "encoding": {"x": layers[0]["encoding"]["x"], "tooltip": tooltip},
    }
    rest = {name: value for name, value in chart.items() if name not in {*own, "layer"}}
    return {**rest, "datasets": {**chart["datasets"], "flags": shown}, "layer": [*layers, flag]}


def run_curves_chart(lines: Mapping[str, Sequence[tuple[int, float]]], unit: str = "") -> dict[str, Any]:
    """The chart of the steps and values of each run, by the name that the legend has."""
    rows = [
        {"line": line, "step": step, "value": rounded(value)}
        for line, points in lines.items()
        for step, value in points
        if drawable(value, Axis.LINEAR)
    ]
    legend = {"orient": "top", "columns": 1, "labelLimit": 300, "symbolStrokeWidth": 2}
    by_line = {"field": "line", "type": "nominal", "title": None, "legend": legend}
    names = list(lines)
    return {
        **frame("container", 190),
        "datasets": {"values": rows},
        "data": {"name": "values"},
        "mark": {"type": "line", "strokeWidth": 1.5, "aria": False, "tooltip": True},
        "encoding": {
            "x": step_axis(zero=False),
            "y": {**_values_axis(unit), "field": "value"},
            "color": {**by_line, "scale": {"domain": names, "range": list(SERIES_COLOURS[: len(names)])}},
            "strokeDash": {**by_line, "scale": {"domain": names, "range": [[1, 0], [5, 3]][: len(names)]}},
        },
    }
