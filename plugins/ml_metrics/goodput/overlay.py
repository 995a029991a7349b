"""Laying spans over the pieces that steps and restarts make, so that each moment is counted once."""

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

_WAITING = {Bucket.OTHER, Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION}
"""Time between segments, of which the steps say nothing."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of time that was spent on one thing."""

    start: float
    end: float
    label: str


def overlay(base: Iterable[Interval], spans: Iterable[Span]) -> list[Interval]:
    """The same stretch of time, with the spans in the places that they can hold.

    Where spans overlap, the one that began last holds the time, as it is the most particular; elastic events
    hold theirs against all others, as they contain the others.
    """
    waiting = deque(sorted((span for span in spans if span.end > span.start), key=lambda span: span.start))
    active = _Active()
    pieces: list[Interval] = []
    for piece in base:
        at = piece.start
        while at < piece.end:
            while waiting and waiting[0].start <= at:
                active.add(waiting.popleft())
            holder = active.holder(piece.label, at)
            until = min(piece.end, holder.end if holder else piece.end, waiting[0].start if waiting else piece.end)
            label = holder.label if holder else piece.label
            if pieces and pieces[-1].label == label and pieces[-1].end == at:
                pieces[-1] = Interval(pieces[-1].start, until, label)
            else:
                pieces.append(Interval(at, until, label))
            at = until
    return pieces


class _Active:
    """The spans that have begun, the most particular first, apart by the time that they can hold."""

    def __init__(self) -> None:
        self._heaps: tuple[list[_Ranked], list[_Ranked], list[_Ranked]] = ([], [], [])

    def add(self, span: Span) -> None:
        """A span begins."""
        heappush(self._heap_of(span), (span.label not in ELASTIC, -span.start, span.end, span))

    def holder(self, label: str, at: float) -> Span | None:
        """The span that holds a moment of a piece, if any can."""
        everywhere, training, between = self._heaps
        able = [everywhere]
        if label == PRODUCTIVE:
            able.append(training)
        if label in _WAITING:
            able.append(between)
        for heap in able:
            while heap and heap[0][2] <= at:
                heappop(heap)
        return min((heap[0] for heap in able if heap), default=(None,))[-1]

    def _heap_of(self, span: Span) -> list[_Ranked]:
        """Custom events hold up training that counts, and no other; loading beside steps holds up nothing."""
        everywhere, training, between = self._heaps
        if span.label.startswith(CUSTOM_PREFIX):
            return training
        return between if span.label == Bucket.DATA_LOADING_SYNC else everywhere
