"""Program start-up: what the first step of a segment took more than the others, as programs are compiled in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.goodput.overlay import Interval
from ml_metrics.goodput.time_buckets import PRODUCTIVE, Bucket

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.goodput.segments import Segment, Segments

_STEP_TIME = {PRODUCTIVE, Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME}
"""What belongs to a step when steps are compared. A save is part of it, as in ml-goodput-measurement."""


def split_program_startup(pieces: Sequence[Interval], segments: Segments) -> Iterator[Interval]:
    """The same pieces, with the start-up of each segment cut out of the productive time of its first step."""
    at = 0
    for segment in segments.segments:
        begin = float(segment.time[0])
        while at < len(pieces) and pieces[at].end <= begin:
            yield pieces[at]
            at += 1
        left = _startup_seconds(pieces, at, segment)
        until = float(segment.time[1]) if left else begin
        while left > 0 and at < len(pieces) and pieces[at].start < until:
            piece = pieces[at]
            at += 1
            if piece.label != PRODUCTIVE:
                yield piece
                continue
            cut = min(piece.end, max(piece.start, begin) + left, until)
            left -= cut - piece.start
            yield Interval(piece.start, cut, Bucket.PROGRAM_STARTUP)
            if cut < piece.end:
                yield Interval(cut, piece.end, PRODUCTIVE)
                break
    yield from pieces[at:]


def _startup_seconds(pieces: Sequence[Interval], at: int, segment: Segment) -> float:
    """How much longer the first step took than the mean of those that count after it."""
    counted = min(segment.redone_from, segment.last_step) - (
        int(segment.step[1]) if len(segment.step) > 1 else segment.last_step
    )
    if counted <= 0:
        return 0.0
    begin, second, survives = float(segment.time[0]), float(segment.time[1]), segment.survives_until
    first = _step_seconds(pieces, at, begin, second)
    others = _step_seconds(pieces, at, second, survives)
    return max(0.0, first - others / counted * int(segment.step[1] - segment.step[0]))


def _step_seconds(pieces: Sequence[Interval], at: int, low: float, high: float) -> float:
    total = 0.0
    while at < len(pieces) and pieces[at].start < high:
        piece = pieces[at]
        if piece.label in _STEP_TIME:
            total += max(0.0, min(piece.end, high) - max(piece.start, low))
        at += 1
    return total
