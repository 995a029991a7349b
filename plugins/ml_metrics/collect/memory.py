"""The most memory that the workload used: the cluster's own reading, or what a monitoring service has seen."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ml_metrics.collect.source import COMPUTED, Found, Request
from ml_metrics.config.collection import MEMORY
from ml_metrics.model import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping


def read(request: Request) -> Found:
    """What is known. What was not measured is absent: no memory at all is nothing that a program can use."""
    workload = request.workload
    if workload is None:
        return Found()
    vm, gpu = MEMORY
    used: Mapping[str, float] = {}
    if workload.peak_memory_bytes:
        used = {vm: float(workload.peak_memory_bytes)}
    elif request.memory_used is not None:
        used = request.memory_used(workload)
    end = workload.ended_at.timestamp() if workload.ended_at else None
    return Found(
        metrics=[
            Metric(name, float(used[name]), name, COMPUTED, wall_time=end)
            for name in (vm, gpu)
            if name in used and math.isfinite(used[name]) and used[name] > 0
        ],
    )
