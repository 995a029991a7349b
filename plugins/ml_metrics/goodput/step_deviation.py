"""The deviation of step times from the ideal step time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ml_metrics.goodput.segments import Segments

MIN_STEP_SECONDS = 1.0
"""If the median step is longer than this, shorter steps are left out of the ideal, as in ml-goodput-measurement."""
RECENT_STEPS = 100
BASELINE_STEPS = 1000
SPIKE_PERCENTILE = 90


@dataclass(frozen=True, slots=True, eq=False)
class StepTimes:
    """How long each step took. A step that was repeated has the time of its last repetition."""

    step: NDArray[np.int64]
    start: NDArray[np.float64]
    seconds: NDArray[np.float64]

    def within(self, low: float, high: float) -> StepTimes:
        """Return the steps that ran entirely within a window."""
        inside = (self.start >= low) & (self.start + self.seconds <= high)
        return StepTimes(self.step[inside], self.start[inside], self.seconds[inside])


@dataclass(frozen=True, slots=True, eq=False)
class StepDeviation:
    """The difference between each step's time and the ideal."""

    ideal: float
    step: NDArray[np.int64]
    signed: NDArray[np.float64]

    @property
    def absolute(self) -> NDArray[np.float64]:
        """The differences without their signs."""
        return np.abs(self.signed)

    def document(self) -> dict[str, float]:
        """Return the statistics that reports contain."""
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
        """Return one number that rises when recent steps are irregular.

        It is the mean of fewer than 100 steps, else the 90th percentile of the last 100, minus the median of the 1,000
        steps before those if the job has that many.
        """
        absolute = self.absolute
        if len(absolute) < RECENT_STEPS:
            return float(absolute.mean())
        spike = float(np.percentile(absolute[-RECENT_STEPS:], SPIKE_PERCENTILE))
        if len(absolute) < RECENT_STEPS + BASELINE_STEPS:
            return spike
        return spike - float(np.median(absolute[-RECENT_STEPS - BASELINE_STEPS : -RECENT_STEPS]))


def step_times(segments: Segments) -> StepTimes:
    """Return the time of every step whose end is known. For a repeated step, the last repetition counts."""
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
    """Return the mean of all steps that are not far above the median."""
    if not len(seconds):
        return None
    if float(np.median(seconds)) >= MIN_STEP_SECONDS:
        seconds = seconds[seconds >= MIN_STEP_SECONDS]
    median = np.median(seconds)
    spread = np.median(np.abs(seconds - median))
    return float(seconds[seconds <= median + 3 * spread].mean())


def step_deviation(times: StepTimes, ideal: float | None = None) -> StepDeviation | None:
    """Return the deviation from a configured or computed ideal, or None if no step's time is known."""
    chosen = ideal if ideal is not None else ideal_step_time(times.seconds)
    if chosen is None or not len(times.seconds):
        return None
    return StepDeviation(chosen, times.step, times.seconds - chosen)
