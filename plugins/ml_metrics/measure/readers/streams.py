"""Metric streams: the values that the workload added to `<group>`, as the tags `<group>/<name>`."""

from __future__ import annotations

import math

import numpy as np

from ml_metrics.core.model import Series
from ml_metrics.measure.lines import LinesFile, is_part_of
from ml_metrics.measure.points import Points
from ml_metrics.measure.source import Found, Request
from ml_metrics.measure.text import number_of

STEM = "telemetry"
"""Streams are in `telemetry.jsonl`, or in a bucket in its parts."""


def read(request: Request) -> Found:
    """A point's step is the number of earlier points of its metric."""
    points: Points[tuple[str, str]] = Points(request.allowance)
    warnings: list[str] = []
    files = [file for file in request.files if is_part_of(STEM, file)]
    for file in files:
        lines = LinesFile(file, request.allowance)
        for block in lines.blocks():
            _add_lines(lines, points, block)
        warnings += lines.warnings()
    series = [Series(run, tag, np.arange(len(values)), times, values) for (run, tag), (_, times, values) in points]
    return Found(series=series, warnings=warnings, files=len(files))


def _add_lines(lines: LinesFile, points: Points[tuple[str, str]], block: bytes) -> None:
    """Add the lines of a block. Only group and name are required; a missing value or time is NaN."""
    rows_of: dict[tuple[str, str], list[float]] = {}
    for line in lines.objects(block):
        group, name = line.get("group"), line.get("name")
        if not isinstance(group, str) or not isinstance(name, str):
            lines.reject("without group and name", line)
            continue
        value, time = number_of(line.get("value")), number_of(line.get("timestamp"))
        if value is None:
            lines.reject("the value is not a number", line["value"])
            continue
        rows = rows_of.get((group, name))
        if rows is None:
            rows = points.rows_of((lines.folder, f"{group}/{name}"))
            if rows is None:
                points.leave_out()
                continue
            rows_of[group, name] = rows
        rows += (0, math.nan if time is None else time, value)
        points.waiting += 1
    points.settle()
