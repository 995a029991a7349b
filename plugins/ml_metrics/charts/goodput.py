"""The time of each run by kind: productive time and every kind of lost time, stacked to 100 percent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.charts.axis import milliseconds, rounded
from ml_metrics.charts.theme import frame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

PRODUCTIVE = "productive"
COLOURS = (
    "#2f6fde", "#b45309", "#c2479b", "#7570b3", "#1b9e77", "#8a6d00", "#d11a2a", "#5f6b7a", "#0e7490", "#a16207",
)  # fmt: skip


def goodput_chart(runs: Sequence[tuple[str, datetime, Mapping[str, float]]]) -> dict[str, Any]:
    """Return the chart of some runs: of each its key, its end, and the percentage of its time by kind."""
    kinds = [PRODUCTIVE, *sorted({kind for _, _, parts in runs for kind in parts} - {PRODUCTIVE})]
    rows = [
        {"run": key, "at": milliseconds(at), "kind": kind, "percent": rounded(parts[kind]), "order": kinds.index(kind)}
        for key, at, parts in sorted(runs, key=lambda run: run[1])
        for kind in kinds
        if parts.get(kind)
    ]
    return {
        **frame("container", 190),
        "datasets": {"times": rows},
        "data": {"name": "times"},
        "transform": [{"calculate": "utcFormat(datum.at, '%Y-%m-%d %H:%M') + ' · ' + datum.run", "as": "label"}],
        "mark": {"type": "bar", "cursor": "pointer"},
        "encoding": {
            "x": {"field": "label", "type": "ordinal", "sort": {"field": "at"}, "title": None,
                  "axis": {"labelExpr": "split(datum.label, ' ')[0]", "labelAngle": 0, "labelOverlap": "greedy"}},
            "y": {"field": "percent", "type": "quantitative", "title": "percent of the time", "stack": "zero"},
            "order": {"field": "order"},
            "color": {"field": "kind", "type": "nominal", "title": None, "legend": {"orient": "bottom", "columns": 3},
                      "scale": {"domain": kinds, "range": [*COLOURS][: len(kinds)]}},
            "tooltip": [
                {"field": "kind", "title": "kind"},
                {"field": "percent", "title": "percent", "type": "quantitative", "format": ".4~g"},
                {"field": "label", "title": "run"},
            ],
        },
    }  # fmt: skip
