"""Overlaying spans on the intervals between steps and restarts, so that each moment is counted once."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ml_metrics.goodput.time_buckets import CUSTOM_PREFIX, ELASTIC, PRODUCTIVE, Bucket

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.goodput.spans import Span

    _Ranked = tuple[bool, float, float, "Span"]

_BETWEEN_SEGMENTS = {Bucket.OTHER, Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION}
"""The labels of time outside segments."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A part of the timeline that was spent on one thing."""

    start: float
    end: float
    label: str


def overlay(intervals: Iterable[Interval], spans: Iterable[Span]) -> list[Interval]:
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
