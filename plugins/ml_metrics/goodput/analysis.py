"""The analysis of a log, from which every report is built: segments, timeline and step times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.goodput.clock import by_one_clock
from ml_metrics.goodput.entries import Entries, Kind
from ml_metrics.goodput.hosts import HostTimes, host_times
from ml_metrics.goodput.segments import Segments, find_segments
from ml_metrics.goodput.spans import find_spans
from ml_metrics.goodput.stalls import Stall, with_stalls
from ml_metrics.goodput.step_deviation import StepTimes, step_times
from ml_metrics.goodput.timeline import Timeline, build_timeline
from ml_metrics.limits import few

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Analysis:
    """An analysed log. Times count from `entries.origin`."""

    entries: Entries
    segments: Segments
    timeline: Timeline
    loads: tuple[NDArray[np.float64], NDArray[np.float64]]
    """The starts and ends of all data loading."""
    ended: bool
    """Whether the job recorded its end, and no start or step after it."""
    warnings: tuple[str, ...]
    stalls: tuple[Stall, ...] | None = None
    """None if stalls were not looked for."""
    clock: str = ""
    """Whose clock counts, if several workers recorded the job."""
    hosts: HostTimes | None = None
    """The step times of the workers, if several recorded the same steps."""

    @cached_property
    def times(self) -> StepTimes:
        """How long each step took."""
        return step_times(self.segments)


def analyse(entries: Entries, *, until: float | None = None, stalls: bool = False) -> Analysis:
    """Analyse a log. A job that recorded no end lasted until `until`, or until its last entry.

    With `stalls`, what a step took beyond any usual step is not productive. The older library does not have it.
    """
    chosen = by_one_clock(entries)
    ordered, warnings = order_entries(chosen.entries)
    segments = find_segments(ordered)
    spans = find_spans(ordered, segments)
    every_warning = [*entries.warnings, *chosen.warnings, *warnings, *_warnings(ordered, segments, spans.unpaired)]
    said = tuple(few(every_warning))
    start, end, ended = _bounds(ordered, segments, None if until is None else until - ordered.origin)
    timeline = build_timeline(segments, spans.spans, start, end)
    found = None
    if stalls:
        timeline, found = with_stalls(timeline, segments)
    hosts = host_times(entries, chosen.workers)
    return Analysis(ordered, segments, timeline, spans.loads, ended, said, found, chosen.clock, hosts)


def order_entries(entries: Entries) -> tuple[Entries, tuple[str, ...]]:
    """Return the entries with times that never decrease, and a warning if times or order had to be changed."""
    time = _every_time(entries)
    origin = float(time.min()) if len(time) else 0.0
    time = time - origin
    entries = replace(entries, time=time, origin=origin)
    backwards = np.diff(time) < 0
    if not backwards.any():
        return entries, ()
    by_time = np.argsort(time, kind="stable")
    if _restarts(entries.kind[by_time], entries.number[by_time]) <= _restarts(entries.kind, entries.number):
        ordered = replace(entries, kind=entries.kind[by_time], time=time[by_time], number=entries.number[by_time])
        return ordered, (f"{int(backwards.sum())} entries were out of order; they were sorted by time",)
    lost = np.concatenate([[0.0], np.cumsum(np.maximum(0.0, -np.diff(time)))])
    warning = (
        f"the clock went back {int(backwards.sum())} times, by {lost[-1]:.6g} s in all; "
        "later times were shifted by as much, and how much time passed in between is unknown"
    )
    return replace(entries, time=time + lost), (warning,)


def _every_time(entries: Entries) -> NDArray[np.float64]:
    """Return the times of all entries. A save or restore, which has no time, has that of the entry before it."""
    if not entries.checkpoints:
        return entries.time
    has_time = ~np.isnan(entries.time)
    if not has_time.any():
        return np.zeros(len(entries))
    before = np.maximum.accumulate(np.where(has_time, np.arange(len(entries)), -1))
    first = int(np.flatnonzero(has_time)[0])
    return entries.time[np.where(before < 0, first, before)]


def _restarts(kind: NDArray[np.uint8], number: NDArray[np.int64]) -> int:
    """Return the number of restarts if the entries are read in this order. A repeated entry is not a restart."""
    step = kind == Kind.STEP
    steps = number[step]
    starts = np.cumsum(kind == Kind.JOB_START)[step]
    return int(((np.diff(steps) < 0) | (np.diff(starts) > 0)).sum())


def _bounds(entries: Entries, segments: Segments, until: float | None) -> tuple[float, float, bool]:
    """Return when the job started and ended, and whether it recorded its end."""
    if not len(entries):
        return 0.0, 0.0, False
    starts, ends = entries.where(Kind.JOB_START), entries.where(Kind.JOB_END)
    start = float(entries.time[starts[0]]) if len(starts) else float(entries.time[0])
    if segments.segments:
        start = min(start, float(segments.segments[0].time[0]))
    resumed = max([-1, *starts[-1:].tolist(), *entries.where(Kind.STEP)[-1:].tolist()])
    if len(ends) and ends[-1] > resumed:
        return start, float(entries.time[ends[-1]]), True
    last = float(entries.time[-1])
    return start, last if until is None else max(last, until), False


def _warnings(entries: Entries, segments: Segments, unpaired: int) -> list[str]:
    """Return everything in a log that makes its figures less certain."""
    warnings = []
    starts, ends = entries.where(Kind.JOB_START), entries.where(Kind.JOB_END)
    if len(entries) and not len(starts):
        warnings.append("the log has no start of the job; its first entry counts as the start")
    elif segments.segments and entries.time[starts[0]] > segments.segments[0].time[0]:
        warnings.append("steps precede the first start of the job: the beginning of the log is missing")
    if segments.duplicates:
        warnings.append(
            f"{segments.duplicates} steps are recorded twice and were counted once: several workers may be writing"
        )
    without_steps = int((np.diff(np.searchsorted(entries.where(Kind.STEP), starts)) == 0).sum())
    if without_steps:
        warnings.append(f"the job was started again {without_steps} times without a step in between")
    if len(ends) and len(starts) and ends[0] < starts[-1]:
        warnings.append("the job was started again after it had ended; the time in between counts")
    if unpaired:
        warnings.append(f"{unpaired} starts or ends of events are unpaired, and were left out")
    negative = sum(checkpoint.seconds < 0 for checkpoint in entries.checkpoints)
    if negative:
        warnings.append(f"{negative} checkpoints report a negative duration, and were left out")
    return warnings
