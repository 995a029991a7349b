"""A job's time as adjacent intervals that never overlap: every second is spent on one thing.

All figures are sums over these intervals, so productive time and badput always add up to the total: for the job, for
any window, and with exclusions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.measure.goodput.log import Entries, Kind
from ml_metrics.measure.goodput.report import CUSTOM_PREFIX, ELASTIC, PRODUCTIVE, Bucket, Interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Times = NDArray[np.float64]


NEVER = np.iinfo(np.int64).max
"""The value of `repeated_from` for a segment of which no step is repeated."""


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Consecutive steps without a restart. Times never decrease, and step numbers increase."""

    step: NDArray[np.int64]
    time: Times
    repeated_from: int
    """The lowest step at which a later segment began. From there on, the steps of this segment were lost."""
    restart: float | None
    """When the job started again after this segment; None if no start is recorded."""
    ended: float | None
    """The end that the job recorded after this segment's last step and before the restart."""

    @property
    def last_step_is_done(self) -> bool:
        """Whether a later segment continues after the last step, or the job ended."""
        return self.repeated_from > self.last_step and (self.repeated_from != NEVER or self.ended is not None)

    @property
    def last_step(self) -> int:
        return int(self.step[-1])

    @property
    def survives_until(self) -> float:
        """The time up to which the steps of this segment count. Later steps were repeated."""
        if self.repeated_from > self.last_step:
            return float(self.time[-1])
        # not every step has to be in the log
        return float(np.interp(self.repeated_from, self.step, self.time))

    @property
    def step_seconds(self) -> Times:
        """The time of each step except the last, whose end is unknown."""
        return np.diff(self.time) / np.diff(self.step)


def find_segments(entries: Entries) -> tuple[tuple[Segment, ...], int]:
    """Find the segments in entries that are in order of time, and how many entries repeat a step just recorded."""
    at, starts, ends = (entries.where(kind) for kind in (Kind.STEP, Kind.JOB_START, Kind.JOB_END))
    if not len(at):
        return (), 0
    step, time = _rows(entries.number, at), _rows(entries.time, at)
    again = _duplicates(step, time, at, starts)
    if again.any():
        at, step, time = at[~again], step[~again], time[~again]
    back = np.flatnonzero(step[1:] <= step[:-1]) + 1
    after_start = np.searchsorted(at, starts)
    cuts = np.unique(np.concatenate([back, after_start[(after_start > 0) & (after_start < len(at))]]))
    bounds = [0, *cuts.tolist(), len(at)]
    later = np.minimum.accumulate(np.append(step[bounds[1:-1]], NEVER)[::-1])[::-1].tolist()
    segments = []
    for (low, high), repeated_from in zip(pairwise(bounds), later, strict=True):
        last, following = at[high - 1], at[high] if high < len(at) else len(entries)
        restart = _last_between(starts, last, following)
        ended = _last_between(ends, last, following if restart is None else restart)
        moments = (None if one is None else float(entries.time[one]) for one in (restart, ended))
        segments.append(Segment(step[low:high], time[low:high], repeated_from, *moments))
    return tuple(segments), int(again.sum())


def _last_between(positions: NDArray[np.intp], low: int, high: int) -> int | None:
    index = int(np.searchsorted(positions, high)) - 1
    return int(positions[index]) if index >= 0 and positions[index] > low else None


def _rows(column: NDArray[Any], at: NDArray[np.intp]) -> NDArray[Any]:
    """The rows at these positions, without a copy if they are contiguous, as they are in most logs."""
    first, last = int(at[0]), int(at[-1])
    return column[first : last + 1] if last - first + 1 == len(at) else column[at]


def _duplicates(
    step: NDArray[np.int64], time: Times, at: NDArray[np.intp], starts: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Which entries repeat a step within a step's time and without a start of the job in between.

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


def find_spans(entries: Entries, segments: Sequence[Segment]) -> tuple[list[Interval], Times, int]:
    """Find the recorded spans in entries that are in order of time.

    Also return when data were loaded, whether that held training up or not, as rows of a start and an end; and how many
    starts have no end, or ends no start.
    """
    found: list[Interval] = []
    unpaired = 0
    for start, label in (
        (Kind.TPU_INIT_START, Bucket.TPU_INITIALIZATION),
        (Kind.TRAINING_PREP_START, Bucket.TRAINING_PREP),
        (Kind.ELASTIC_REINIT_START, Bucket.ELASTIC_REINITIALIZATION),
    ):
        pairs, left = paired(entries, start)
        unpaired += left
        found += [Interval(low, high, label) for low, high in entries.time[pairs].tolist()]
    pairs, left = paired(entries, Kind.DATA_LOADING_START)
    loads = entries.time[pairs]
    unpaired += left
    found += _blocking_loads(loads, segments)
    found += _checkpoints(entries)
    for start in (Kind.CUSTOM_START, Kind.ELASTIC_WAIT_START):
        named, left = named_pairs(entries, start)
        unpaired += left
        for low, high, name in named:
            kind = f"{CUSTOM_PREFIX}{name}"
            if start == Kind.ELASTIC_WAIT_START:
                kind = Bucket.ELASTIC_SCALE_UP if "SCALE_UP" in name else Bucket.ELASTIC_SLICE_DOWN
            found.append(Interval(low, high, kind))
    return found, loads, unpaired


def paired(entries: Entries, start: Kind) -> tuple[NDArray[np.intp], int]:
    """Return the positions of starts and ends of one kind, and how many have no other side.

    Of consecutive starts the last counts, of consecutive ends the first.
    """
    at = entries.where(start, Kind(start + 1))
    starts = entries.kind[at] == start
    closed = np.flatnonzero(starts[:-1] & ~starts[1:])
    return np.column_stack([at[closed], at[closed + 1]]), len(at) - 2 * len(closed)


def named_pairs(entries: Entries, start: Kind) -> tuple[list[tuple[float, float, str]], int]:
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


def _blocking_loads(loads: Times, segments: Sequence[Segment]) -> Iterator[Interval]:
    """Yield the first load before each segment's first step. All other loading happens while steps run."""
    since = -np.inf
    for segment in segments:
        first = int(np.searchsorted(loads[:, 0], since, "left"))
        if first < len(loads) and loads[first, 0] < segment.time[0]:
            yield Interval(float(loads[first, 0]), float(loads[first, 1]), Bucket.DATA_LOADING_SYNC)
        since = float(segment.time[-1]) if segment.restart is None else segment.restart
    if not segments and len(loads):
        yield Interval(float(loads[0, 0]), float(loads[0, 1]), Bucket.DATA_LOADING_SYNC)


def _checkpoints(entries: Entries) -> Iterator[Interval]:
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
        is_save = kind == Kind.SAVE
        bucket = Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME if is_save else Bucket.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME
        end, groups = -np.inf, list[list[tuple[float, float]]]()
        for start, seconds in sorted(reports):
            if start >= end or not groups:
                groups.append([])
            groups[-1].append((start, seconds))
            end = max(end, start + seconds)
        for about_one in groups:
            seconds = sum(seconds for _, seconds in about_one) / len(about_one)
            if seconds > 0:
                yield Interval(about_one[0][0], about_one[0][0] + seconds, bucket)


def seconds_spent(intervals: Iterable[Interval], low: float, high: float) -> dict[str, float]:
    """The seconds within a window, by label."""
    spent: dict[str, float] = {}
    for start, end, label in intervals:
        duration = min(end, high) - max(start, low)
        if duration > 0:
            spent[label] = spent.get(label, 0.0) + duration
    return spent


def build_timeline(
    segments: Sequence[Segment], spans: Iterable[Interval], start: float, end: float
) -> tuple[Interval, ...]:
    """From the start of the job to its end, or to the last time at which it is known to have run."""
    base = (interval for interval in _base(segments, start, end) if interval.end > interval.start)
    return tuple(_split_program_startup(_overlay(base, spans), segments))


def _base(segments: Sequence[Segment], start: float, end: float) -> Iterator[Interval]:
    every = np.concatenate([np.empty(0), *(segment.step_seconds for segment in segments)])
    usual = float(np.median(every)) if len(every) else 0.0
    at = start
    for index, segment in enumerate(segments):
        first, last = float(segment.time[0]), float(segment.time[-1])
        yield Interval(at, first, Bucket.OTHER)
        yield Interval(first, segment.survives_until, PRODUCTIVE)
        yield Interval(segment.survives_until, last, Bucket.WASTED_PROGRESS_FROM_DISRUPTION)
        following = float(segments[index + 1].time[0]) if index + 1 < len(segments) else end
        done = _last_step_end(segment, following, usual)
        yield Interval(last, done, PRODUCTIVE)
        at = done if segment.restart is None else max(done, segment.restart)
        yield Interval(done, at, Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION)
    yield Interval(at, end, Bucket.OTHER)


def _last_step_end(segment: Segment, following: float, usual: float) -> float:
    """When the last step of a segment was completed, or its start if it was not.

    If a later segment continues after the step, the step was completed, but its end was not recorded. Its duration is
    then taken to be the median.
    """
    last = float(segment.time[-1])
    if not segment.last_step_is_done:
        return last
    if segment.ended is not None:
        return segment.ended
    median = float(np.median(segment.step_seconds)) if len(segment.step) > 1 else usual
    unrecorded = (segment.repeated_from - segment.last_step) * median
    return min(last + unrecorded, following if segment.restart is None else segment.restart)


def _overlay(intervals: Iterable[Interval], spans: Iterable[Interval]) -> list[Interval]:
    """The same period, with the spans in place of the intervals that they may replace.

    Where spans overlap, the one that started last counts, as it is the most specific. Elastic events take precedence
    over all others, because they contain others. Custom events may replace only productive time, and blocking loads
    only time between segments.
    """
    waiting = deque(sorted((span for span in spans if span.end > span.start), key=lambda span: span.start))
    everywhere: list[tuple[bool, float, float, Interval]] = []
    training, between, result = everywhere[:], everywhere[:], list[Interval]()
    for interval in intervals:
        heaps = [everywhere]
        if interval.label == PRODUCTIVE:
            heaps.append(training)
        elif interval.label != Bucket.WASTED_PROGRESS_FROM_DISRUPTION:
            heaps.append(between)
        at = interval.start
        while at < interval.end:
            while waiting and waiting[0].start <= at:
                span = waiting.popleft()
                of_label = between if span.label == Bucket.DATA_LOADING_SYNC else everywhere
                heap = training if span.label.startswith(CUSTOM_PREFIX) else of_label
                heappush(heap, (span.label not in ELASTIC, -span.start, span.end, span))
            for heap in heaps:
                while heap and heap[0][2] <= at:
                    heappop(heap)
            winner = min((heap[0] for heap in heaps if heap), default=(None,))[-1] or interval
            until = min(interval.end, winner.end, waiting[0].start if waiting else interval.end)
            if result and result[-1].label == winner.label and result[-1].end == at:
                result[-1] = Interval(result[-1].start, until, winner.label)
            else:
                result.append(Interval(at, until, winner.label))
            at = until
    return result


def _split_program_startup(intervals: Sequence[Interval], segments: Sequence[Segment]) -> Iterator[Interval]:
    """Yield the same intervals, with each segment's start-up taken from the productive time of its first step.

    Start-up is the extra time of a segment's first step, in which programs are compiled.
    """
    at = 0
    for segment in segments:
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
    """How much longer the first step took than the mean of the later steps that count."""
    second_step = int(segment.step[1]) if len(segment.step) > 1 else segment.last_step
    counted = min(segment.repeated_from, segment.last_step) - second_step
    if counted <= 0:
        return 0.0
    second, survives = float(segment.time[1]), segment.survives_until
    spent = [0.0, 0.0]
    while at < len(intervals) and intervals[at].start < survives:
        start, end, label = intervals[at]
        # saves are in the time of a step, as in ml-goodput-measurement
        if label in {PRODUCTIVE, Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME}:
            for part, (low, high) in enumerate(((float(segment.time[0]), second), (second, survives))):
                spent[part] += max(0.0, min(end, high) - max(start, low))
        at += 1
    return max(0.0, spent[0] - spent[1] / counted * int(segment.step[1] - segment.step[0]))
