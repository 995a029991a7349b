"""Step times: their deviation and rate, and the long ones that recur on a schedule and that no event records."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ml_metrics.measure.goodput.report import PRODUCTIVE, Bucket, Interval

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from ml_metrics.measure.goodput.timeline import Segment

    Seconds = NDArray[np.float64]
    Numbers = NDArray[np.int64]


def recurring(step: Numbers, seconds: Seconds, span: tuple[int, int]) -> Iterator[float]:
    """Yield the usual time of the long steps on each of up to four schedules, as of evaluations and of checkpoints.

    Args:
        step: The numbers of the long steps, rising.
        seconds: How long each took.
        span: The first and the last step of the job.
    """
    left = np.ones(len(step), np.bool_)
    for _ in range(4):
        found = _on_schedule(step, seconds, left, span)
        if found is None:
            return
        yield float(np.median(seconds[found]))
        left &= ~found


def _periods(step: Numbers) -> list[int]:
    """The distances that may be the period of a schedule, the most common first.

    If there are few steps, they are the distances of all pairs, as two on a schedule may have another between them.
    """
    few = len(step) <= 12
    distances = (step[None, :] - step[:, None])[np.triu_indices(len(step), 1)] if few else np.diff(step)
    periods, counts = np.unique(distances[distances > 1], return_counts=True)
    most_common: list[int] = periods[np.argsort(-counts, kind="stable")].tolist()
    return most_common if few else most_common[:3]


def _on_schedule(
    step: Numbers, seconds: Seconds, left: NDArray[np.bool_], span: tuple[int, int]
) -> NDArray[np.bool_] | None:
    """Which long steps are on a schedule with some of those that are left, or None.

    Most steps of a schedule by number are long. Those of one by time are long at nearly equal distances.
    """
    for period in _periods(step[left]):
        remainders, counted = np.unique(step[left] % period, return_counts=True)
        remainder = int(remainders[np.argmax(counted)])
        on: NDArray[np.bool_] = step % period == remainder
        count = int(on.sum())
        expected = (span[1] - remainder) // period - (span[0] - 1 - remainder) // period
        if count > 2 and count >= 0.7 * expected:
            return on
        pair = count == expected == 2 and remainder in {0, 1, period - 1}
        if pair and seconds[on].max() <= 1.5 * seconds[on].min():
            return on
    if left.sum() > 3:
        similar = left & (seconds <= 3 * np.median(seconds[left]))
        gaps = np.diff(step[similar])
        if len(gaps) >= 3 and np.ptp(gaps) <= 0.2 * float(np.median(gaps)):
            return similar
    return None


TIMES_MEDIAN = 5.0
TIMES_USUAL = 3.0
"""How many times the median, and the longest usual step, a stalled step takes at least."""


class Stall(NamedTuple):
    """The part of a step that is beyond any usual step: the last productive seconds before the step ended."""

    step: int
    start: float
    """When the step started."""
    end: float
    seconds: float


class CountedSteps(NamedTuple):
    """The steps that count, except the first after each (re)start, whose extra time is start-up."""

    step: Numbers
    start: Seconds
    end: Seconds
    between: Seconds
    """How many steps lie between two entries; 1 where every step is in the log."""
    seconds: Seconds
    """The time per step."""
    least: Seconds
    """What a step must take at least to be a stall, by the steps of its own segment."""


def find_stalls(intervals: Sequence[Interval], segments: Sequence[Segment]) -> tuple[Stall, ...]:
    steps = counted_steps(intervals, segments, {PRODUCTIVE}) if intervals else None
    if steps is None or len(steps.step) < 5:
        return ()
    seconds = steps.seconds
    # those that took longest may be unusual: a twentieth of the steps, or up to three in a short job
    set_aside = max(min(3, len(seconds) // 4), int(np.ceil(0.05 * len(seconds))))
    usual = float(np.partition(seconds, -1 - set_aside)[-1 - set_aside])
    least = np.maximum(steps.least, max(TIMES_MEDIAN * float(np.median(seconds)), TIMES_USUAL * usual))
    long = np.flatnonzero((seconds > least) & (seconds > 0))
    if not len(long):
        return ()
    usual = max([usual, *recurring(steps.step[long], seconds[long], (int(steps.step[0]), int(steps.step[-1])))])
    stalled = long[seconds[long] > TIMES_USUAL * usual]
    beyond = (seconds[stalled] - usual) * steps.between[stalled]
    columns = (steps.step[stalled], steps.start[stalled], steps.end[stalled], beyond)
    return tuple(Stall(*row) for row in zip(*(column.tolist() for column in columns), strict=True))


def counted_steps(intervals: Sequence[Interval], segments: Sequence[Segment], labels: Collection[str]) -> CountedSteps:
    """The steps that count, and how much of their time has one of these labels."""
    edges = np.array([intervals[0].start, *(interval.end for interval in intervals)])
    counts = np.array([interval.label in labels for interval in intervals])
    spent = np.concatenate([[0.0], np.cumsum(np.where(counts, np.diff(edges), 0.0))])
    parts = [_steps_of(segment, edges, spent) for segment in segments]
    empty = CountedSteps(np.empty(0, np.int64), *(np.empty(0) for _ in range(5)))
    return CountedSteps(*map(np.concatenate, zip(empty, *parts, strict=True)))


def _steps_of(segment: Segment, edges: Seconds, spent: Seconds) -> CountedSteps:
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
    # programs may be compiled in several steps: of the first five, none is a stall that took no longer than the first
    least[:5] = np.maximum(least[:5], (end - start)[:1] / count[:1])
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
    """The last productive seconds of a step that are its stall. Each lies within one interval."""
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


@dataclass(frozen=True, slots=True, eq=False)
class StepDeviation:
    """The difference between each step's time and the ideal."""

    ideal: float
    step: Numbers
    signed: Seconds

    @property
    def absolute(self) -> Seconds:
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
        """One number that rises when recent steps are irregular.

        It is the mean of fewer than 100 steps, else the 90th percentile of the last 100, minus the median of the 1,000
        steps before those if the job has that many.
        """
        absolute = self.absolute
        if len(absolute) < 100:
            return float(absolute.mean())
        spike = float(np.percentile(absolute[-100:], 90))
        return spike if len(absolute) < 1100 else spike - float(np.median(absolute[-1100:-100]))


def step_deviation(
    segments: Sequence[Segment], ideal: float | None, window: tuple[float, float] | None
) -> StepDeviation | None:
    """The deviation of every step that ran, in the window if there is one. Of repeated steps, the last one counts."""
    step = np.concatenate([np.empty(0, np.int64), *(segment.step[:-1] for segment in segments)])
    start = np.concatenate([np.empty(0), *(segment.time[:-1] for segment in segments)])
    seconds = np.concatenate([np.empty(0), *(segment.step_seconds for segment in segments)])
    if len(segments) > 1:
        _, last = np.unique(step[::-1], return_index=True)
        chosen = len(step) - 1 - last
        step, start, seconds = step[chosen], start[chosen], seconds[chosen]
    if window:
        inside = (start >= window[0]) & (start + seconds <= window[1])
        step, seconds = step[inside], seconds[inside]
    if not len(step):
        return None
    ideal = ideal_step_time(seconds) if ideal is None else ideal
    return StepDeviation(ideal, step, seconds - ideal)


def ideal_step_time(seconds: Seconds) -> float:
    """The mean of all steps that are not far above the median."""
    if float(np.median(seconds)) >= 1:  # then shorter steps are left out, as in ml-goodput-measurement
        seconds = seconds[seconds >= 1]
    median = np.median(seconds)
    spread = np.median(np.abs(seconds - median))
    return float(seconds[seconds <= median + 3 * spread].mean())


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


def step_rate(intervals: Sequence[Interval], segments: Sequence[Segment], low: float, high: float) -> StepRate | None:
    """The times of the steps that ran within a window; None if they are fewer than ten."""
    steps = counted_steps(intervals, segments, {PRODUCTIVE, Bucket.STALL})
    inside = (steps.start >= low) & (steps.end <= high)
    if inside.sum() < 10:
        return None
    productive = counted_steps(intervals, segments, {PRODUCTIVE})
    spent = float((productive.seconds * productive.between)[inside].sum())
    if spent <= 0:
        return None
    p50, p90, p99 = np.percentile(steps.seconds[inside], [50, 90, 99]).tolist()
    return StepRate(p50, p90, p99, float(steps.between[inside].sum()) / spent)
