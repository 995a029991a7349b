"""Literals: numbers that the cluster knows of every run, whatever the workload wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.collect.source import COMPUTED, Found, Request
from ml_metrics.config.sources import Literal
from ml_metrics.model import Metric

if TYPE_CHECKING:
    from ml_metrics.model import Workload


def read(request: Request) -> Found:
    """The literals that the config asks for. One that is not known is missing, with the reason."""
    workload, asked_for = request.workload, request.config.sources.literals
    if workload is None:
        return Found(missing=dict.fromkeys(asked_for, "nothing says how the workload went"))
    end = workload.ended_at.timestamp() if workload.ended_at else None
    known = {name: _value(literal, workload) for name, literal in asked_for.items()}
    return Found(
        metrics=[
            Metric(name, value, name, COMPUTED, wall_time=end) for name, value in known.items() if value is not None
        ],
        missing={name: "the workload did not run so far" for name, value in known.items() if value is None},
    )


def _value(literal: Literal, workload: Workload) -> float | None:
    match literal:
        case Literal.DURATION:
            return workload.duration_seconds
        case Literal.ATTEMPTS:
            return float(workload.attempts)
        case Literal.QUEUE_TIME:
            return workload.queued_seconds
