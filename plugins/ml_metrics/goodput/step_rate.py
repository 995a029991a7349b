"""How long steps take, without the time that was lost in them, and how many there are per second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.goodput.stalls import counted_steps
from ml_metrics.goodput.time_buckets import PRODUCTIVE, Bucket

if TYPE_CHECKING:
    from ml_metrics.goodput.segments import Segments
    from ml_metrics.goodput.timeline import Timeline

FEWEST_STEPS = 10


@dataclass(frozen=True, slots=True)
class StepRate:
    """The step times of a job in seconds. The first step after each (re)start does not count."""

    p50: float
    p90: float
    p99: float
    """Percentiles of the time of a step without recorded events. Stalls are in it."""
    per_second: float
    """Steps per second of productive time."""

    def figures(self) -> dict[str, float]:
        """Return the figures by the names of their metrics."""
        percentiles = {f"step_time_{name}": getattr(self, name) for name in ("p50", "p90", "p99")}
        return {**percentiles, "steps_per_second": self.per_second}


def step_rate(timeline: Timeline, segments: Segments, low: float, high: float) -> StepRate | None:
    """Return the step times of the steps that ran within a window; None if they are too few."""
    steps = counted_steps(timeline.intervals, segments, (PRODUCTIVE, Bucket.STALL))
    inside = (steps.start >= low) & (steps.end <= high)
    if inside.sum() < FEWEST_STEPS:
        return None
    productive = counted_steps(timeline.intervals, segments)
    spent = float((productive.seconds * productive.count)[inside].sum())
    if spent <= 0:
        return None
    p50, p90, p99 = np.percentile(steps.seconds[inside], [50, 90, 99]).tolist()
    return StepRate(p50, p90, p99, float(steps.count[inside].sum()) / spent)
