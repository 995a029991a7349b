"""Metric streams: the values that the workload added to `<group>`, as the tags `<group>/<name>`.

    {"timestamp": 1790000000.5, "group": "app", "name": "loss", "value": 2.5}
    {"timestamp": 1790000001.5, "group": "app", "name": "loss", "value": 2.25}

Streams are in `telemetry.jsonl`, or in a bucket in its parts.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.measure.lines import is_part_of
from ml_metrics.measure.readings import Readings
from ml_metrics.measure.text import number_of

if TYPE_CHECKING:
    from ml_metrics.measure.source import Found, Request

STEM = "telemetry"


def read(request: Request) -> Found:
    """A point's step is the number of earlier points of its metric."""
    readings = Readings(request.allowance)
    readings.read_each((file for file in request.files if is_part_of(STEM, file)), _read_file)
    found = readings.found()
    return replace(found, series=[replace(one, step=np.arange(len(one))) for one in found.series])


def _read_file(found: Readings) -> None:
    """Add each line. Only group and name are required; a missing value or time is NaN."""
    for block in found.lines.blocks():
        for line in found.lines.objects(block):
            group, name = line.get("group"), line.get("name")
            value, time = number_of(line.get("value")), number_of(line.get("timestamp"))
            if not isinstance(group, str) or not isinstance(name, str):
                found.lines.reject("without group and name", line)
            elif value is None:
                found.lines.reject("the value is not a number", line["value"])
            else:
                found.points(0, math.nan if time is None else time, [(f"{group}/{name}", value)])
        found.settle()
