"""The step times of hosts: a map of hosts by steps, coloured by how much longer than the others each took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.charts.theme import BLUE, RED, frame

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_SCALE, MOST_SCALE = 5.0, 50.0
"""The percentage at which a cell has the full colour: by the data, within these limits."""
ROW_HEIGHT, LEAST_HEIGHT = 14, 60
NEUTRAL = "#e5e7eb"


def host_chart(
    hosts: Sequence[str],
    first_steps: Sequence[int],
    percent: Sequence[Sequence[float]],
    *,
    width: int | str = "container",
) -> dict[str, Any]:
    """Return the chart: a row for each host, a column for each span of steps."""
    cells = [
        {"host": f"{place + 1}. {host}", "step": step, "percent": value}
        for place, (host, row) in enumerate(zip(hosts, percent, strict=True))
        for step, value in zip(first_steps, row, strict=True)
    ]
    largest = max((abs(value) for row in percent for value in row), default=0.0)
    scale = min(max(largest, LEAST_SCALE), MOST_SCALE)
    return {
        **frame(width, max(LEAST_HEIGHT, ROW_HEIGHT * len(hosts))),
        "datasets": {"cells": cells},
        "data": {"name": "cells"},
        "mark": {"type": "rect"},
        "encoding": {
            "x": {"field": "step", "type": "ordinal", "title": "from step",
                  "axis": {"labelAngle": 0, "labelOverlap": "greedy", "labelSeparation": 8, "ticks": False}},
            "y": {"field": "host", "type": "ordinal", "title": None, "sort": None, "axis": {"labelLimit": 160}},
            "color": {"field": "percent", "type": "quantitative", "title": "% above the median",
                      "scale": {"domain": [-scale, 0, scale], "range": [BLUE, NEUTRAL, RED], "clamp": True},
                      "legend": {"orient": "bottom", "gradientLength": 160}},
            "tooltip": [
                {"field": "host", "title": "host"},
                {"field": "step", "title": "from step"},
                {"field": "percent", "title": "% above the median", "type": "quantitative", "format": ".4~g"},
            ],
        },
    }  # fmt: skip
