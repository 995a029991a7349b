"""How far steps are from the time that a step should take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ml_metrics.goodput.segments import Segments

SHORTEST_USUAL_STEP = 1.0
"""Where the usual step is longer than this, shorter ones are left out of the ideal, as ml-goodput-measurement does."""
RECENT_STEPS = 100
BASELINE_STEPS = 1000
SPIKE_PERCENTILE = 90


@dataclass(frozen=True, slots=True, eq=False)
class StepTimes:
    """The time that each step took, as it was done for good, by its number."""

    step: NDArray[np.int64]
    start: NDArray[np.float64]
    seconds: NDArray[np.float64]

    def within(self, low: float, high: float) -> StepTimes:
        """The steps that ran inside a window."""
        inside = (self.start >= low) & (self.start + self.seconds <= high)
        return StepTimes(self.step[inside], self.start[inside], self.seconds[inside])


@dataclass(frozen=True, slots=True, eq=False)
class StepDeviation:
    """The distance of each step from the ideal."""

    ideal: float
    step: NDArray[np.int64]
    signed: NDArray[np.float64]

    @property
    def absolute(self) -> NDArray[np.float64]:
        """The distance without its sign."""
        return np.abs(self.signed)

    def document(self) -> dict[str, float]:
        """The figures that describe it."""
        absolute = self.absolute
        p50, p90 = np.percentile(absolute, [50, 90]).tolist()
        return {
            "mean_abs": float(absolute.mean()),
            "p50": p50,
            "p90": p90,
            "max": float(absolute.max()),
            "summary": self.summary(),
            "mean_signed": float(self.signed.mean()),
        }

    def summary(self) -> float:
        """One number that rises when steps have lately become irregular.

        The mean where there are fewer than 100 steps; else the 90th percentile of the last 100, less the median of
        the 1000 before them where there are so many.
        """
        absolute = self.absolute
        if len(absolute) < RECENT_STEPS:
            return float(absolute.mean())
        spike = float(np.percentile(absolute[-RECENT_STEPS:], SPIKE_PERCENTILE))
        if len(absolute) < RECENT_STEPS + BASELINE_STEPS:
            return spike
        return spike - float(np.median(absolute[-RECENT_STEPS - BASELINE_STEPS : -RECENT_STEPS]))


def step_times(segments: Segments) -> StepTimes:
    """The time of every step whose end is known. A step that was done twice has the time of the last."""
    if not segments.segments:
        return StepTimes(np.empty(0, np.int64), np.empty(0), np.empty(0))
    step = np.concatenate([segment.step[:-1] for segment in segments.segments])
    start = np.concatenate([segment.time[:-1] for segment in segments.segments])
    seconds = np.concatenate([segment.step_seconds for segment in segments.segments])
    if len(segments.segments) > 1:
        _, last = np.unique(step[::-1], return_index=True)
        chosen = len(step) - 1 - last
        step, start, seconds = step[chosen], start[chosen], seconds[chosen]
    return StepTimes(step, start, seconds)


def ideal_step_time(seconds: NDArray[np.float64]) -> float | None:
    """The mean of the usual steps: those that are not far above the median."""
    if not len(seconds):
        return None
    if float(np.median(seconds)) >= SHORTEST_USUAL_STEP:
        seconds = seconds[seconds >= SHORTEST_USUAL_STEP]
    median = np.median(seconds)
    spread = np.median(np.abs(seconds - median))
    return float(seconds[seconds <= median + 3 * spread].mean())


def step_deviation(times: StepTimes, ideal: float | None = None) -> StepDeviation | None:
    """The deviation from a configured or computed ideal; None where no step's time is known."""
    chosen = ideal if ideal is not None else ideal_step_time(times.seconds)
    if chosen is None or not len(times.seconds):
        return None
    return StepDeviation(chosen, times.step, times.seconds - chosen)
