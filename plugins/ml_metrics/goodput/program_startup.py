"""Program start-up: the extra time of a segment's first step, in which programs are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.goodput.overlay import Interval
from ml_metrics.goodput.time_buckets import PRODUCTIVE, Bucket

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.goodput.segments import Segment, Segments

_STEP_TIME = {PRODUCTIVE, Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME}
"""The labels of time that counts as step time when steps are compared; with saves, as in ml-goodput-measurement."""


def split_program_startup(intervals: Sequence[Interval], segments: Segments) -> Iterator[Interval]:
    """Yield the same intervals, with each segment's start-up taken from the productive time of its first step."""
    at = 0
    for segment in segments.segments:
        start = float(segment.time[0])
        while at < len(intervals) and intervals[at].end <= start:
            yield intervals[at]
            at += 1
        left = _startup_seconds(intervals, at, segment)
        until = float(segment.time[1]) if left else start
        while left > 0 and at < len(intervals) and intervals[at].start < until:
            interval = intervals[at]
            at += 1
            if interval.label != PRODUCTIVE:
                yield interval
                continue
            cut = min(interval.end, max(interval.start, start) + left, until)
            left -= cut - interval.start
            yield Interval(interval.start, cut, Bucket.PROGRAM_STARTUP)
            if cut < interval.end:
                yield Interval(cut, interval.end, PRODUCTIVE)
                break
    yield from intervals[at:]


def _startup_seconds(intervals: Sequence[Interval], at: int, segment: Segment) -> float:
    """Return how much longer the first step took than the mean of the later steps that count."""
    second_step = int(segment.step[1]) if len(segment.step) > 1 else segment.last_step
    counted = min(segment.repeated_from, segment.last_step) - second_step
    if counted <= 0:
        return 0.0
    start, second, survives = float(segment.time[0]), float(segment.time[1]), segment.survives_until
    first = _step_seconds(intervals, at, start, second)
    others = _step_seconds(intervals, at, second, survives)
    return max(0.0, first - others / counted * int(segment.step[1] - segment.step[0]))


def _step_seconds(intervals: Sequence[Interval], at: int, low: float, high: float) -> float:
    total = 0.0
    while at < len(intervals) and intervals[at].start < high:
        interval = intervals[at]
        if interval.label in _STEP_TIME:
            total += max(0.0, min(interval.end, high) - max(interval.start, low))
        at += 1
    return total
