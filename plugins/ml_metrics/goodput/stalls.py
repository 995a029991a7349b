"""Stalls: the time of a step beyond any usual step of its job, such as an hour in which a disk did not respond.

Nothing in a log marks a stall. It is a step that took more than five times the median, and more than three times the
longest usual step. Usual are all steps except the longest twentieth, and of that those which recur on a schedule, as
steps with an evaluation or a checkpoint do. Only productive time counts: recorded events explain theirs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.goodput.recurring import recurring
from ml_metrics.goodput.time_buckets import PRODUCTIVE, Bucket
from ml_metrics.goodput.timeline import Interval, Timeline

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from ml_metrics.goodput.segments import Segment, Segments

FEWEST_STEPS = 5
"""Fewer steps do not show what is usual."""
TIMES_MEDIAN = 5.0
TIMES_USUAL = 3.0
"""How many times the median, and the longest usual step, a stalled step takes at least."""
SET_ASIDE = 0.05
"""The share of steps, those that took longest, which may be unusual. In a short job it is up to three steps."""
FIRST_STEPS = 5
"""The number of steps after a (re)start that are not stalls if they took no longer than the first of them: programs may
be compiled in several steps."""


@dataclass(frozen=True, slots=True)
class Stall:
    """The part of a step that is beyond any usual step: the last productive seconds before the step ended."""

    step: int
    start: float
    """When the step started."""
    end: float
    """When the step ended."""
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class CountedSteps:
    """The steps that count, except the first after each (re)start, whose extra time is start-up."""

    step: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    count: NDArray[np.float64]
    """How many steps lie between two entries; 1 where every step is in the log."""
    seconds: NDArray[np.float64]
    """The productive time per step."""
    least: NDArray[np.float64]
    """What a step must take at least to be a stall, by the steps of its own segment."""


def with_stalls(timeline: Timeline, segments: Segments) -> tuple[Timeline, tuple[Stall, ...]]:
    """Return a timeline in which stalls are no longer productive, and the stalls."""
    stalls = find_stalls(timeline.intervals, segments)
    return replace(timeline, intervals=tuple(split_stalls(timeline.intervals, stalls))), stalls


def find_stalls(intervals: Sequence[Interval], segments: Segments) -> tuple[Stall, ...]:
    """Return the stalls of a job, in order."""
    if not intervals:
        return ()
    steps = counted_steps(intervals, segments)
    if len(steps.step) < FEWEST_STEPS:
        return ()
    seconds = steps.seconds
    set_aside = max(min(3, len(seconds) // 4), int(np.ceil(SET_ASIDE * len(seconds))))
    usual = float(np.partition(seconds, -1 - set_aside)[-1 - set_aside])
    least = np.maximum(steps.least, max(TIMES_MEDIAN * float(np.median(seconds)), TIMES_USUAL * usual))
    long = np.flatnonzero((seconds > least) & (seconds > 0))
    if not len(long):
        return ()
    span = (int(steps.step[0]), int(steps.step[-1]))
    usual = max([usual, *recurring(steps.step[long], seconds[long], span)])
    stalled = long[seconds[long] > TIMES_USUAL * usual]
    beyond = (seconds[stalled] - usual) * steps.count[stalled]
    columns = (steps.step[stalled], steps.start[stalled], steps.end[stalled], beyond)
    return tuple(Stall(*row) for row in zip(*(column.tolist() for column in columns), strict=True))


def counted_steps(
    intervals: Sequence[Interval], segments: Segments, labels: Collection[str] = (PRODUCTIVE,)
) -> CountedSteps:
    """Return the steps that count, and how much of their time has one of these labels."""
    edges = np.array([intervals[0].start, *(interval.end for interval in intervals)])
    productive = np.array([interval.label in labels for interval in intervals])
    spent = np.concatenate([[0.0], np.cumsum(np.where(productive, np.diff(edges), 0.0))])
    parts = [_steps_of(segment, edges, spent) for segment in segments.segments]
    empty = CountedSteps(np.empty(0, np.int64), *(np.empty(0) for _ in range(5)))
    columns = ("step", "start", "end", "count", "seconds", "least")
    return CountedSteps(*(np.concatenate([getattr(part, name) for part in (empty, *parts)]) for name in columns))


def _steps_of(segment: Segment, edges: NDArray[np.float64], spent: NDArray[np.float64]) -> CountedSteps:
    time, step = segment.time, segment.step
    count = np.diff(step).astype(np.float64)
    until = segment.survives_until
    if segment.last_step_is_done and segment.ended is not None and len(step) > 1:
        # if only some steps are in the log, several may follow the last entry
        until = segment.ended
        time, count = np.append(time, until), np.append(count, np.median(count))
    start, end = time[:-1], time[1:]
    kept = end <= until
    seconds = (np.interp(end, edges, spent) - np.interp(start, edges, spent)) / count
    least = np.zeros(len(start))
    if len(seconds[1:]) > 1:
        least[:] = TIMES_MEDIAN * np.median(seconds[1:])
    least[:FIRST_STEPS] = np.maximum(least[:FIRST_STEPS], (end - start)[:1] / count[:1])
    kept[:1] = False
    return CountedSteps(step[: len(start)][kept], start[kept], end[kept], count[kept], seconds[kept], least[kept])


def split_stalls(intervals: Sequence[Interval], stalls: Sequence[Stall]) -> Iterator[Interval]:
    """Yield the same intervals, with the stalls taken from the productive time of their steps."""
    cuts = deque(cut for stall in stalls for cut in _cuts(intervals, stall))
    for interval in intervals:
        at = interval.start
        while cuts and cuts[0].start < interval.end:
            cut = cuts.popleft()
            if cut.start > at:
                yield Interval(at, cut.start, interval.label)
            yield cut
            at = cut.end
        if at < interval.end:
            yield Interval(at, interval.end, interval.label)


def _cuts(intervals: Sequence[Interval], stall: Stall) -> list[Interval]:
    """Return the last productive seconds of a step that are its stall. Each lies within one interval."""
    left = stall.seconds
    cuts: list[Interval] = []
    at = bisect_left(intervals, stall.end, key=attrgetter("start")) - 1
    while at >= 0 and left > 0 and intervals[at].end > stall.start:
        low, high = max(intervals[at].start, stall.start), min(intervals[at].end, stall.end)
        if intervals[at].label == PRODUCTIVE and high > low:
            start = max(low, high - left)
            left -= high - start
            cuts.append(Interval(start, high, Bucket.STALL))
        at -= 1
    return cuts[::-1]
