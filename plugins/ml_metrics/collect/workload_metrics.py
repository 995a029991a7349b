"""Metrics of the workload itself, whatever it wrote: literals and peak memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ml_metrics.collect.source import COMPUTED, Found, Request
from ml_metrics.config.collection import MEMORY, Literal
from ml_metrics.model import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ml_metrics.model import Workload

VALUES: dict[Literal, Callable[[Workload], float | None]] = {
    Literal.DURATION: lambda workload: workload.duration_seconds,
    Literal.ATTEMPTS: lambda workload: float(workload.attempts),
    Literal.QUEUE_TIME: lambda workload: workload.queued_seconds,
}


def read_literals(request: Request) -> Found:
    """Return the literals that the config requires. One that is unknown is missing, with the reason."""
    workload, required = request.workload, request.config.sources.literals
    if workload is None:
        return Found(missing=dict.fromkeys(required, "there is no record of how the workload ended"))
    values = {name: VALUES[literal](workload) for name, literal in required.items()}
    return Found(
        metrics=list(_metrics({name: value for name, value in values.items() if value is not None}, workload)),
        missing={name: _why_unknown(required[name], workload) for name, value in values.items() if value is None},
    )


def _why_unknown(literal: Literal, workload: Workload) -> str:
    first, then = workload.queued_at, workload.started_at
    if literal is Literal.DURATION:
        first, then = workload.started_at, workload.ended_at
    if first is None or then is None:
        return "the workload has not run yet"
    what = "container ended" if literal is Literal.DURATION else "container started"
    return f"the {what} {(first - then).total_seconds():.6g} s too early: the clocks of the machines differ"


def read_memory(request: Request) -> Found:
    """Return the peak memory that the cluster or a monitoring service measured. Without a measurement there is none."""
    workload = request.workload
    if workload is None:
        return Found()
    vm, gpu = MEMORY
    used: Mapping[str, float] = {}
    if workload.peak_memory_bytes:
        used = {vm: float(workload.peak_memory_bytes)}
    elif request.memory_used is not None:
        used = request.memory_used(workload)
    measured = {name: float(used[name]) for name in (vm, gpu) if name in used}
    positive = {name: value for name, value in measured.items() if math.isfinite(value) and value > 0}
    return Found(metrics=list(_metrics(positive, workload)))


def _metrics(values: Mapping[str, float], workload: Workload) -> Iterator[Metric]:
    end = workload.ended_at.timestamp() if workload.ended_at else None
    for name, value in values.items():
        yield Metric(name, value, name, COMPUTED, wall_time=end)
