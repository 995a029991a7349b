"""A job's time as pieces that touch and never overlap: every second is spent on one thing.

All figures are read off these pieces, so that productive time and badput always add up to the whole, for the job, for
any window of it and for what is left when some of it is excluded.
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
    """The pieces of a job's time, in order."""

    start: float
    """When the job began."""
    end: float
    """When it ended, or until when it is known."""
    pieces: tuple[Interval, ...]

    def seconds(self, low: float = -np.inf, high: float = np.inf) -> dict[str, float]:
        """The time spent on each thing, of the whole job or of a window."""
        spent: dict[str, float] = {}
        for piece in self.pieces:
            duration = min(piece.end, high) - max(piece.start, low)
            if duration > 0:
                spent[piece.label] = spent.get(piece.label, 0.0) + duration
        return spent


def build_timeline(segments: Segments, spans: Sequence[Span], start: float, end: float) -> Timeline:
    """Lay what the log tells over what its steps tell, and name every moment from start to end."""
    base = (piece for piece in _base(segments, start, end) if piece.end > piece.start)
    return Timeline(start, end, tuple(split_program_startup(overlay(base, spans), segments)))


def _base(segments: Segments, start: float, end: float) -> Iterator[Interval]:
    """What the steps and restarts tell."""
    known = start
    for index, segment in enumerate(segments.segments):
        first, last = float(segment.time[0]), float(segment.time[-1])
        yield Interval(known, first, Bucket.OTHER)
        yield Interval(first, segment.survives_until, PRODUCTIVE)
        yield Interval(segment.survives_until, last, Bucket.WASTED_PROGRESS_FROM_DISRUPTION)
        following = float(segments.segments[index + 1].time[0]) if index + 1 < len(segments.segments) else end
        done = _last_step_until(segment, following, segments)
        yield Interval(last, done, PRODUCTIVE)
        back = done if segment.restart is None else max(done, segment.restart)
        yield Interval(done, back, Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION)
        known = back
    yield Interval(known, end, Bucket.OTHER)


def _last_step_until(segment: Segment, following: float, segments: Segments) -> float:
    """When the last step of a segment was done, if it was.

    A later segment that goes on behind it proves that it was, but nobody saw it end: it gets the time of a usual step.
    """
    last = float(segment.time[-1])
    if not segment.last_step_is_done:
        return last
    if segment.ended is not None:
        return segment.ended
    usual = float(np.median(segment.step_seconds)) if len(segment.step) > 1 else segments.usual_step_seconds
    unseen = (segment.redone_from - segment.last_step) * usual
    return min(last + unseen, following if segment.restart is None else segment.restart)
