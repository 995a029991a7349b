"""A job's time as adjacent intervals that never overlap: every second is spent on one thing.

All figures are sums over these intervals, so productive time and badput always add up to the total: for the job, for
any window, and with exclusions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.goodput.time_buckets import CUSTOM_PREFIX, ELASTIC, PRODUCTIVE, Bucket

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ml_metrics.goodput.segments import Segment, Segments
    from ml_metrics.goodput.spans import Span

    _Ranked = tuple[bool, float, float, Span]

_BETWEEN_SEGMENTS = {Bucket.OTHER, Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION}
"""The labels of time outside segments."""
_STEP_TIME = {PRODUCTIVE, Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME}
"""The labels of time that counts as step time when steps are compared; with saves, as in ml-goodput-measurement."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A part of the timeline that was spent on one thing."""

    start: float
    end: float
    label: str


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
    return Timeline(start, end, tuple(_split_program_startup(_overlay(base, spans), segments)))


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


def _overlay(intervals: Iterable[Interval], spans: Iterable[Span]) -> list[Interval]:
    """Return the same period, with the spans in place of the intervals that they may replace.

    Where spans overlap, the one that started last counts, as it is the most specific. Elastic events take precedence
    over all others, because they contain others.
    """
    waiting = deque(sorted((span for span in spans if span.end > span.start), key=lambda span: span.start))
    active = _Active()
    result: list[Interval] = []
    for interval in intervals:
        at = interval.start
        while at < interval.end:
            while waiting and waiting[0].start <= at:
                active.add(waiting.popleft())
            span = active.winner(interval.label, at)
            until = min(interval.end, span.end if span else interval.end, waiting[0].start if waiting else interval.end)
            label = span.label if span else interval.label
            if result and result[-1].label == label and result[-1].end == at:
                result[-1] = Interval(result[-1].start, until, label)
            else:
                result.append(Interval(at, until, label))
            at = until
    return result


class _Active:
    """The spans that have started, most specific first, in one heap for each set of labels that they may replace."""

    def __init__(self) -> None:
        self._heaps: tuple[list[_Ranked], list[_Ranked], list[_Ranked]] = ([], [], [])

    def add(self, span: Span) -> None:
        """Add a span that starts now."""
        heappush(self._heap_of(span), (span.label not in ELASTIC, -span.start, span.end, span))

    def winner(self, label: str, at: float) -> Span | None:
        """Return the span that a moment of an interval with this label belongs to, or None."""
        everywhere, training, between = self._heaps
        heaps = [everywhere]
        if label == PRODUCTIVE:
            heaps.append(training)
        if label in _BETWEEN_SEGMENTS:
            heaps.append(between)
        for heap in heaps:
            while heap and heap[0][2] <= at:
                heappop(heap)
        return min((heap[0] for heap in heaps if heap), default=(None,))[-1]

    def _heap_of(self, span: Span) -> list[_Ranked]:
        """Custom events may replace only productive time, and blocking loads only time between segments."""
        everywhere, training, between = self._heaps
        if span.label.startswith(CUSTOM_PREFIX):
            return training
        return between if span.label == Bucket.DATA_LOADING_SYNC else everywhere


def _split_program_startup(intervals: Sequence[Interval], segments: Segments) -> Iterator[Interval]:
    """Yield the same intervals, with each segment's start-up taken from the productive time of its first step.

    Start-up is the extra time of a segment's first step, in which programs are compiled.
    """
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
