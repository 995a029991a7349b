"""A job's time as adjacent intervals that never overlap: every second is spent on one thing.

All figures are sums over these intervals, so productive time and badput always add up to the total: for the job, for
any window, and with exclusions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.goodput.overlay import Interval, overlay
from ml_metrics.goodput.program_startup import split_program_startup
from ml_metrics.goodput.time_buckets import PRODUCTIVE, Bucket

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.goodput.segments import Segment, Segments
    from ml_metrics.goodput.spans import Span


@dataclass(frozen=True, slots=True)
class Timeline:
    """The intervals of a job's time, in order."""

    start: float
    """When the job started."""
    end: float
    """When the job ended, or the last time at which it is known to have run."""
    intervals: tuple[Interval, ...]

    def seconds(self, low: float = -np.inf, high: float = np.inf) -> dict[str, float]:
        """Return the time spent on each thing, in the whole job or in a window."""
        spent: dict[str, float] = {}
        for interval in self.intervals:
            duration = min(interval.end, high) - max(interval.start, low)
            if duration > 0:
                spent[interval.label] = spent.get(interval.label, 0.0) + duration
        return spent


def build_timeline(segments: Segments, spans: Sequence[Span], start: float, end: float) -> Timeline:
    """Overlay the spans on the intervals between steps, and label every moment from start to end."""
    base = (interval for interval in _base(segments, start, end) if interval.end > interval.start)
    return Timeline(start, end, tuple(split_program_startup(overlay(base, spans), segments)))


def _base(segments: Segments, start: float, end: float) -> Iterator[Interval]:
    """Yield the intervals that steps and restarts define."""
    at = start
    for index, segment in enumerate(segments.segments):
        first, last = float(segment.time[0]), float(segment.time[-1])
        yield Interval(at, first, Bucket.OTHER)
        yield Interval(first, segment.survives_until, PRODUCTIVE)
        yield Interval(segment.survives_until, last, Bucket.WASTED_PROGRESS_FROM_DISRUPTION)
        following = float(segments.segments[index + 1].time[0]) if index + 1 < len(segments.segments) else end
        done = _last_step_end(segment, following, segments)
        yield Interval(last, done, PRODUCTIVE)
        back = done if segment.restart is None else max(done, segment.restart)
        yield Interval(done, back, Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION)
        at = back
    yield Interval(at, end, Bucket.OTHER)


def _last_step_end(segment: Segment, following: float, segments: Segments) -> float:
    """Return when the last step of a segment was completed, or its start if it was not.

    If a later segment continues after the step, the step was completed, but its end was not recorded. Its duration is
    then taken to be the median.
    """
    last = float(segment.time[-1])
    if not segment.last_step_is_done:
        return last
    if segment.ended is not None:
        return segment.ended
    median = float(np.median(segment.step_seconds)) if len(segment.step) > 1 else segments.median_step_seconds
    unrecorded = (segment.repeated_from - segment.last_step) * median
    return min(last + unrecorded, following if segment.restart is None else segment.restart)
