"""A job's time as adjacent intervals that never overlap: every second is spent on one thing.

All figures are sums over these intervals, so productive time and badput always add up to the total: for the job, for
any window, and with exclusions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.measure.goodput.buckets import CUSTOM_PREFIX, ELASTIC, PRODUCTIVE, Bucket
from ml_metrics.measure.goodput.log import Entries, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray


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
        spent: dict[str, float] = {}
        for interval in self.intervals:
            duration = min(interval.end, high) - max(interval.start, low)
            if duration > 0:
                spent[interval.label] = spent.get(interval.label, 0.0) + duration
        return spent


def build_timeline(segments: Segments, spans: Sequence[Span], start: float, end: float) -> Timeline:
    base = (interval for interval in _base(segments, start, end) if interval.end > interval.start)
    return Timeline(start, end, tuple(_split_program_startup(_overlay(base, spans), segments)))


def _base(segments: Segments, start: float, end: float) -> Iterator[Interval]:
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
        heappush(self._heap_of(span), (span.label not in ELASTIC, -span.start, span.end, span))

    def winner(self, label: str, at: float) -> Span | None:
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


NEVER = np.iinfo(np.int64).max
"""The value of `repeated_from` for a segment of which no step is repeated."""


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Consecutive steps without a restart. Times never decrease, and step numbers increase."""

    step: NDArray[np.int64]
    time: NDArray[np.float64]
    repeated_from: int
    """The lowest step at which a later segment began. From there on, the steps of this segment were lost."""
    restart: float | None
    """When the job started again after this segment; None if no start is recorded."""
    ended: float | None
    """The end that the job recorded after this segment's last step and before the restart."""

    @property
    def last_step_is_done(self) -> bool:
        """Whether the last step of this segment was completed: a later segment continues after it, or the job ended."""
        return self.repeated_from > self.last_step and (self.repeated_from != NEVER or self.ended is not None)

    @property
    def last_step(self) -> int:
        return int(self.step[-1])

    @property
    def survives_until(self) -> float:
        """The time up to which the steps of this segment count. Later steps were repeated."""
        if self.repeated_from > self.last_step:
            return float(self.time[-1])
        at = int(np.searchsorted(self.step, self.repeated_from))
        if at == 0 or self.step[at] == self.repeated_from:
            return float(self.time[at])
        # not every step has to be in the log: interpolate its start
        share = (self.repeated_from - self.step[at - 1]) / (self.step[at] - self.step[at - 1])
        return float(self.time[at - 1] + share * (self.time[at] - self.time[at - 1]))

    @property
    def step_seconds(self) -> NDArray[np.float64]:
        """The time of each step except the last, whose end is unknown."""
        return np.diff(self.time) / np.diff(self.step)


@dataclass(frozen=True)
class Segments:
    """All segments of a job, in order."""

    segments: tuple[Segment, ...]
    duplicates: int
    """How many entries repeat a step that had just been recorded; a second worker may be writing."""

    @cached_property
    def median_step_seconds(self) -> float:
        """The median time of a step in all segments; 0 if no step has an end."""
        seconds = np.concatenate([segment.step_seconds for segment in self.segments])
        return float(np.median(seconds)) if len(seconds) else 0.0

    @property
    def disruptions(self) -> tuple[float, ...]:
        """The last time before each restart at which training is known to have run."""
        disrupted = list(self.segments[:-1])
        if self.segments and self.segments[-1].restart is not None:
            disrupted.append(self.segments[-1])
        return tuple(float(segment.time[-1]) for segment in disrupted)


def find_segments(entries: Entries) -> Segments:
    """Find the segments in entries that are in order of time."""
    at = entries.where(Kind.STEP)
    starts = entries.where(Kind.JOB_START)
    ends = entries.where(Kind.JOB_END)
    if not len(at):
        return Segments((), 0)
    step, time = _at(entries.number, at), _at(entries.time, at)
    again = _duplicates(step, time, at, starts)
    if again.any():
        at, step, time = at[~again], step[~again], time[~again]
    back = np.flatnonzero(step[1:] <= step[:-1]) + 1
    after_start = np.searchsorted(at, starts)
    cuts = np.unique(np.concatenate([back, after_start[(after_start > 0) & (after_start < len(at))]]))
    bounds = [0, *cuts.tolist(), len(at)]
    first_steps = step[bounds[:-1]]
    later = np.minimum.accumulate(np.append(first_steps[1:], NEVER)[::-1])[::-1]
    segments = []
    for index, (low, high) in enumerate(pairwise(bounds)):
        gap = (at[high - 1], at[high] if high < len(at) else len(entries))
        restart = _last_between(starts, *gap)
        ended = _last_between(ends, gap[0], gap[1] if restart is None else restart)
        segments.append(
            Segment(
                step=step[low:high],
                time=time[low:high],
                repeated_from=int(later[index]),
                restart=None if restart is None else float(entries.time[restart]),
                ended=None if ended is None else float(entries.time[ended]),
            )
        )
    return Segments(tuple(segments), int(again.sum()))


def _last_between(positions: NDArray[np.intp], low: int, high: int) -> int | None:
    index = int(np.searchsorted(positions, high)) - 1
    return int(positions[index]) if index >= 0 and positions[index] > low else None


def _at(column: NDArray[Any], at: NDArray[np.intp]) -> NDArray[Any]:
    """Return the rows at these positions, without a copy if they are contiguous, as they are in most logs."""
    first, last = int(at[0]), int(at[-1])
    return column[first : last + 1] if last - first + 1 == len(at) else column[at]


def _duplicates(
    step: NDArray[np.int64], time: NDArray[np.float64], at: NDArray[np.intp], starts: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Return which entries repeat a step within a step's time and without a start of the job in between.

    A restart takes longer than that. Such an entry comes from a second worker, or was delivered twice.
    """
    again = np.zeros(len(step), np.bool_)
    if (step[1:] > step[:-1]).all():
        return again
    order = np.argsort(step, kind="stable")
    ordered, moment, segment = step[order], time[order], np.searchsorted(starts, at[order])
    same = ordered[1:] == ordered[:-1]
    apart = np.diff(moment)
    between = np.diff(moment[np.concatenate([[True], ~same])])
    usual = float(np.median(between[between > 0])) if (between > 0).any() else 0.0
    again[order[1:]] = same & (segment[1:] == segment[:-1]) & ((apart < usual) | (apart == 0))
    return again


_CHECKPOINT_BUCKETS = {
    int(Kind.SAVE): Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME,
    int(Kind.RESTORE): Bucket.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME,
}


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A period that was spent on one thing."""

    start: float
    end: float
    label: str


_Ranked = tuple[bool, float, float, Span]


@dataclass(frozen=True, slots=True)
class Spans:
    """All spans of a log."""

    spans: tuple[Span, ...]
    loads: tuple[NDArray[np.float64], NDArray[np.float64]]
    """The starts and ends of all data loading, whether it held training up or not."""
    unpaired: int
    """Starts without an end, and ends without a start."""


def find_spans(entries: Entries, segments: Segments) -> Spans:
    """Find the spans in entries that are in order of time."""
    found: list[Span] = []
    unpaired = 0
    for label, start in (
        (Bucket.TPU_INITIALIZATION, Kind.TPU_INIT_START),
        (Bucket.TRAINING_PREP, Kind.TRAINING_PREP_START),
        (Bucket.ELASTIC_REINITIALIZATION, Kind.ELASTIC_REINIT_START),
    ):
        starts, ends, left = _pairs(entries, start)
        unpaired += left
        found += [Span(low, high, label) for low, high in zip(starts.tolist(), ends.tolist(), strict=True)]
    loads = _pairs(entries, Kind.DATA_LOADING_START)
    found += _blocking_loads(loads[0], loads[1], segments)
    found += _checkpoints(entries)
    custom, custom_left = _named_pairs(entries, Kind.CUSTOM_START)
    found += [Span(low, high, f"{CUSTOM_PREFIX}{name}") for low, high, name in custom]
    waits, waits_left = _named_pairs(entries, Kind.ELASTIC_WAIT_START)
    for low, high, name in waits:
        found.append(Span(low, high, Bucket.ELASTIC_SCALE_UP if "SCALE_UP" in name else Bucket.ELASTIC_SLICE_DOWN))
    return Spans(tuple(found), (loads[0], loads[1]), unpaired + loads[2] + custom_left + waits_left)


def _pairs(entries: Entries, start: Kind) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Return the starts and ends of one kind. Of consecutive starts the last counts, of consecutive ends the first."""
    at = entries.where(start, Kind(start + 1))
    starts = entries.kind[at] == start
    closed = np.flatnonzero(starts[:-1] & ~starts[1:])
    return entries.time[at[closed]], entries.time[at[closed + 1]], len(at) - 2 * len(closed)


def _named_pairs(entries: Entries, start: Kind) -> tuple[list[tuple[float, float, str]], int]:
    """Pair the events of each name separately. Names are not case-sensitive."""
    open_since: dict[str, float] = {}
    pairs = []
    left = 0
    upper = [name.upper() for name in entries.names]
    at = entries.where(start, Kind(start + 1))
    rows = zip(entries.kind[at].tolist(), entries.time[at].tolist(), entries.number[at].tolist(), strict=True)
    for kind, time, number in rows:
        name = upper[number]
        if kind == start:
            left += name in open_since
            open_since[name] = time
        elif name in open_since:
            pairs.append((open_since.pop(name), time, name))
        else:
            left += 1
    return pairs, left + len(open_since)


def _blocking_loads(starts: NDArray[np.float64], ends: NDArray[np.float64], segments: Segments) -> Iterator[Span]:
    """Yield the first load before each segment's first step. All other loading happens while steps run."""
    since = -np.inf
    for segment in segments.segments:
        first = int(np.searchsorted(starts, since, "left"))
        if first < len(starts) and starts[first] < segment.time[0]:
            yield Span(float(starts[first]), float(ends[first]), Bucket.DATA_LOADING_SYNC)
        since = float(segment.time[-1]) if segment.restart is None else segment.restart
    if not segments.segments and len(starts):
        yield Span(float(starts[0]), float(ends[0]), Bucket.DATA_LOADING_SYNC)


def _checkpoints(entries: Entries) -> Iterator[Span]:
    """Yield saves and restores. Reports of several workers about the same one count once, with their mean duration.

    Those of one worker do not overlap, as when Lightning saves a step under its own name and as the last one.
    """
    if not entries.checkpoints:
        return
    same: dict[tuple[int, str, bool, int], list[tuple[float, float]]] = {}
    job_starts = np.cumsum(entries.kind == Kind.JOB_START)
    for at in entries.where(Kind.SAVE, Kind.RESTORE).tolist():
        checkpoint = entries.checkpoints[entries.number[at]]
        start = entries.time[at] if checkpoint.start is None else checkpoint.start - entries.origin
        key = (int(entries.kind[at]), checkpoint.step, checkpoint.remote, int(job_starts[at]))
        same.setdefault(key, []).append((float(start), checkpoint.seconds))
    for (kind, *_), reports in same.items():
        for about_one in _overlapping(reports):
            start = about_one[0][0]
            seconds = sum(seconds for _, seconds in about_one) / len(about_one)
            if seconds > 0:
                yield Span(start, start + seconds, _CHECKPOINT_BUCKETS[kind])


def _overlapping(reports: list[tuple[float, float]]) -> Iterator[list[tuple[float, float]]]:
    """Yield reports, each a start and its seconds, in groups that overlap in time."""
    group: list[tuple[float, float]] = []
    end = -np.inf
    for start, seconds in sorted(reports):
        if group and start >= end:
            yield group
            group = []
        group.append((start, seconds))
        end = max(end, start + seconds)
    yield group
