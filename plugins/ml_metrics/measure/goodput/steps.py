"""Step times: their deviation and rate, and the long ones that recur on a schedule and that no event records."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.measure.goodput.buckets import PRODUCTIVE, Bucket
from ml_metrics.measure.goodput.timeline import Interval, Timeline

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from ml_metrics.measure.goodput.timeline import Segment, Segments


SCHEDULES = 4
"""How many schedules are looked for, such as one of evaluations and one of checkpoints."""
FEW = 12
"""Of so few long steps, all distances are tried as the period."""
PERIODS = 3
"""How many of the most common distances between neighbours are tried otherwise."""
COVERED = 0.7
"""The share of the steps on a schedule that are long, at least."""
PAIR = 2
SIMILAR = 1.5
"""How far two long steps may be from each other in size, if there are only two on a schedule."""
REGULAR_STEPS = 3
"""How many distances a schedule by time has at least."""
OUTLIER = 3.0
"""How many times the median of the long steps a step takes that is not on a schedule by time."""
REGULAR = 0.2
"""How far the distances of a schedule by time may be from each other, as a share of their median."""


def recurring(step: NDArray[np.int64], seconds: NDArray[np.float64], span: tuple[int, int]) -> Iterator[float]:
    """Yield the usual time of the long steps on each schedule.

    Args:
        step: The numbers of the long steps, rising.
        seconds: How long each took.
        span: The first and the last step of the job.
    """
    left = np.ones(len(step), np.bool_)
    for _ in range(SCHEDULES):
        found = _on_schedule(step, seconds, left, span)
        if found is None:
            return
        yield float(np.median(seconds[found]))
        left &= ~found


def _periods(step: NDArray[np.int64]) -> list[int]:
    """Return the distances that may be the period of a schedule, the most common first.

    If there are few steps, they are the distances of all pairs, as two on a schedule may have another between them.
    """
    few = len(step) <= FEW
    distances = (step[None, :] - step[:, None])[np.triu_indices(len(step), 1)] if few else np.diff(step)
    periods, counts = np.unique(distances[distances > 1], return_counts=True)
    most_common: list[int] = periods[np.argsort(-counts, kind="stable")].tolist()
    return most_common if few else most_common[:PERIODS]


def _on_schedule(
    step: NDArray[np.int64], seconds: NDArray[np.float64], left: NDArray[np.bool_], span: tuple[int, int]
) -> NDArray[np.bool_] | None:
    """Return which long steps are on a schedule with some of those that are left, or None."""
    for period in _periods(step[left]):
        remainders, counted = np.unique(step[left] % period, return_counts=True)
        remainder = int(remainders[np.argmax(counted)])
        on: NDArray[np.bool_] = step % period == remainder
        expected = (span[1] - remainder) // period - (span[0] - 1 - remainder) // period
        if on.sum() > PAIR and on.sum() >= COVERED * expected:
            return on
        pair = on.sum() == expected == PAIR and remainder in {0, 1, period - 1}
        if pair and seconds[on].max() <= SIMILAR * seconds[on].min():
            return on
    return _regular(step, seconds, left)


def _regular(
    step: NDArray[np.int64], seconds: NDArray[np.float64], left: NDArray[np.bool_]
) -> NDArray[np.bool_] | None:
    """Return the long steps at nearly equal distances, as those of a schedule by time are, or None."""
    if left.sum() <= REGULAR_STEPS:
        return None
    similar = left & (seconds <= OUTLIER * np.median(seconds[left]))
    gaps = np.diff(step[similar])
    if len(gaps) >= REGULAR_STEPS and gaps.max() - gaps.min() <= REGULAR * float(np.median(gaps)):
        return similar
    return None


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
    stalls = find_stalls(timeline.intervals, segments)
    return replace(timeline, intervals=tuple(split_stalls(timeline.intervals, stalls))), stalls


def find_stalls(intervals: Sequence[Interval], segments: Segments) -> tuple[Stall, ...]:
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
        return np.abs(self.signed)

    def document(self) -> dict[str, float]:
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
    chosen = ideal if ideal is not None else ideal_step_time(times.seconds)
    if chosen is None or not len(times.seconds):
        return None
    return StepDeviation(chosen, times.step, times.seconds - chosen)


FEWEST_STEPS_OF_RATE = 10


@dataclass(frozen=True, slots=True)
class StepRate:
    """The step times of a job in seconds. The first step after each (re)start does not count."""

    p50: float
    p90: float
    p99: float
    """Percentiles of the time of a step without recorded events. Stalls are in it."""
    per_second: float
    """Steps per second of productive time."""

    def figures(self) -> dict[str, float]:
        percentiles = {f"step_time_{name}": getattr(self, name) for name in ("p50", "p90", "p99")}
        return {**percentiles, "steps_per_second": self.per_second}


def step_rate(timeline: Timeline, segments: Segments, low: float, high: float) -> StepRate | None:
    """Return the step times of the steps that ran within a window; None if they are too few."""
    steps = counted_steps(timeline.intervals, segments, (PRODUCTIVE, Bucket.STALL))
    inside = (steps.start >= low) & (steps.end <= high)
    if inside.sum() < FEWEST_STEPS_OF_RATE:
        return None
    productive = counted_steps(timeline.intervals, segments)
    spent = float((productive.seconds * productive.count)[inside].sum())
    if spent <= 0:
        return None
    p50, p90, p99 = np.percentile(steps.seconds[inside], [50, 90, 99]).tolist()
    return StepRate(p50, p90, p99, float(steps.count[inside].sum()) / spent)
