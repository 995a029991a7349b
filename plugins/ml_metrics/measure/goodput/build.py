"""The analysis of a log, from which every report is built: segments, intervals of time, and step times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.core.limits import few
from ml_metrics.measure.goodput.host_step_times import HostTimes, host_times
from ml_metrics.measure.goodput.log import Entries, Kind, LogSource, log_files, read_log
from ml_metrics.measure.goodput.report import (
    CUSTOM_PREFIX,
    ELASTIC,
    NO_LOG,
    PRODUCTIVE,
    Bucket,
    GoodputReport,
    Interval,
    is_log,
)
from ml_metrics.measure.goodput.steps import Stall, find_stalls, split_stalls, step_deviation, step_rate
from ml_metrics.measure.goodput.timeline import (
    NEVER,
    Segment,
    build_timeline,
    find_segments,
    find_spans,
    seconds_spent,
)
from ml_metrics.measure.goodput.workers import by_one_clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ml_metrics.core.limits import Limits
    from ml_metrics.store import storage


@dataclass(frozen=True)
class Analysis:
    """An analysed log. Times count from `entries.origin`."""

    entries: Entries
    segments: tuple[Segment, ...]
    intervals: tuple[Interval, ...]
    """What each moment was spent on, from the job's start to its end; empty without usable entries."""
    loads: NDArray[np.float64]
    """The starts and ends of all data loading."""
    ended: bool
    """Whether the job recorded its end, and no start or step after it."""
    warnings: tuple[str, ...]
    stalls: tuple[Stall, ...] | None
    """None if stalls were not looked for."""
    clock: str
    """Whose clock counts, if several workers recorded the job."""
    hosts: HostTimes | None
    """The step times of the workers, if several recorded the same steps."""


def analyse(entries: Entries, *, until: float | None = None, stalls: bool = False) -> Analysis:
    """Analyse a log. A job that recorded no end lasted until `until`, or until its last entry.

    With `stalls`, what a step took beyond any usual step is not productive. The older library does not have it.
    """
    chosen, workers, clock, about_clock = by_one_clock(entries)
    ordered, warnings = order_entries(chosen)
    segments, duplicates = find_segments(ordered)
    spans, loads, unpaired = find_spans(ordered, segments)
    every_warning = [
        *entries.warnings,
        *about_clock,
        *warnings,
        *_warnings(ordered, segments, duplicates, unpaired),
    ]
    start, end, ended = _bounds(ordered, segments, None if until is None else until - ordered.origin)
    intervals = build_timeline(segments, spans, start, end)
    found = find_stalls(intervals, segments) if stalls else None
    intervals = tuple(split_stalls(intervals, found)) if found else intervals
    hosts = host_times(entries, workers)
    return Analysis(ordered, segments, intervals, loads, ended, tuple(few(every_warning)), found, clock, hosts)


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
    sorted_loses, lost = (
        _restarts(entries.kind[by_time], entries.number[by_time]),
        _restarts(entries.kind, entries.number),
    )
    # a job that goes on where the clock is behind loses few steps, and nearly all of them if it is sorted
    if sorted_loses[0] < lost[0] or (sorted_loses[0] == lost[0] and sorted_loses[1] <= 2 * lost[1]):
        ordered = replace(entries, kind=entries.kind[by_time], time=time[by_time], number=entries.number[by_time])
        return ordered, (f"{int(backwards.sum())} entries were out of order; they were sorted by time",)
    jumps = np.concatenate([[0.0], np.cumsum(np.maximum(0.0, -np.diff(time)))])
    warning = (
        f"the clock went back {int(backwards.sum())} times, by {jumps[-1]:.6g} s in all; "
        "later times were shifted by as much, and how much time passed in between is unknown"
    )
    return replace(entries, time=time + jumps), (warning,)


def _every_time(entries: Entries) -> NDArray[np.float64]:
    """The times of all entries. A save or restore, which has no time, has that of the entry before it."""
    if not entries.checkpoints:
        return entries.time
    has_time = ~np.isnan(entries.time)
    if not has_time.any():
        return np.zeros(len(entries))
    before = np.maximum.accumulate(np.where(has_time, np.arange(len(entries)), int(has_time.argmax())))
    return entries.time[before]


def _restarts(kind: NDArray[np.uint8], number: NDArray[np.int64]) -> tuple[int, float]:
    """The restarts if the entries are read in this order, and the steps that they lose. A repeated entry is none."""
    step = kind == Kind.STEP
    back = np.diff(number[step])
    starts = np.cumsum(kind == Kind.JOB_START)[step]
    return int(((back < 0) | (np.diff(starts) > 0)).sum()), -float(np.minimum(back, 0).sum(dtype=np.float64))


def _bounds(entries: Entries, segments: Sequence[Segment], until: float | None) -> tuple[float, float, bool]:
    """Return when the job started and ended, and whether it recorded its end."""
    if not len(entries):
        return 0.0, 0.0, False
    starts, ends = entries.where(Kind.JOB_START), entries.where(Kind.JOB_END)
    start = float(entries.time[starts[0]]) if len(starts) else float(entries.time[0])
    if segments:
        start = min(start, float(segments[0].time[0]))
    resumed = max([-1, *starts[-1:].tolist(), *entries.where(Kind.STEP)[-1:].tolist()])
    if len(ends) and ends[-1] > resumed:
        return start, float(entries.time[ends[-1]]), True
    last = float(entries.time[-1])
    return start, last if until is None else max(last, until), False


def _warnings(entries: Entries, segments: Sequence[Segment], duplicates: int, unpaired: int) -> list[str]:
    warnings = []
    starts, ends = entries.where(Kind.JOB_START), entries.where(Kind.JOB_END)
    if len(entries) and not len(starts):
        warnings.append("the log has no start of the job; its first entry counts as the start")
    elif segments and entries.time[starts[0]] > segments[0].time[0]:
        warnings.append("steps precede the first start of the job: the beginning of the log is missing")
    if duplicates:
        warnings.append(f"{duplicates} steps are recorded twice and were counted once: several workers may be writing")
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


def measure(
    files: Sequence[storage.File] | str | LogSource,
    *,
    ideal_step_time: float | None = None,
    windows: Sequence[float] = (),
    start: float | None = None,
    end: float | None = None,
    until: float | None = None,
    job_name: str | None = None,
    stalls: bool = True,
    limits: Limits | None = None,
) -> GoodputReport:
    """Report how the time of a job was spent.

    Args:
        files: The files of a run folder, of which those of the goodput log are read; or the place of a log or folder;
            or another source of entries, such as `ml_metrics.measure.cloud.CloudLogger`.
        ideal_step_time: As in `build_report`, like `windows`, `start` and `end`.
        windows: The sizes in seconds of rolling windows.
        start: Only count the time from here on, in seconds since 1970.
        end: Only count the time up to here.
        until: When the job ended, if it recorded no end; by default at its last entry.
        job_name: Entries of other jobs are left out. Default: the job of the first entry.
        stalls: Whether what a step took beyond any usual step is lost time. The older library counts it as productive.
        limits: How much of the files is read. By default the limits that a setting has by default.

    Returns:
        A report. Its `found` is False if there is no log, or no usable entry in it.
    """
    if isinstance(files, LogSource):
        entries = files.read()
        count = 1 if len(entries) else 0
    else:
        chosen = log_files(files) if isinstance(files, str) else [file for file in files if is_log(file)]
        entries, count = read_log(chosen, job_name, limits), len(chosen)
    analysis = analyse(entries, until=until, stalls=stalls)
    if len(entries) and not analysis.ended:
        end_used = "its last entry" if until is None else "its workload ended"
        no_end = f"the job recorded no end: it is taken to have run until {end_used}, and its last step does not count"
        analysis = replace(analysis, warnings=(*analysis.warnings, no_end))
    return build_report(analysis, files=count, ideal_step_time=ideal_step_time, windows=windows, start=start, end=end)


def build_report(
    analysis: Analysis,
    *,
    files: int = 0,
    ideal_step_time: float | None = None,
    windows: Sequence[float] = (),
    start: float | None = None,
    end: float | None = None,
    steps: bool = True,
) -> GoodputReport:
    """Build the report of the whole job, or of the time from start to end.

    Args:
        analysis: The analysed log.
        files: The number of its files.
        ideal_step_time: How long a step should take, in seconds; computed if None.
        windows: The sizes in seconds of rolling windows, which end when the job does.
        start: Only count the time from here on, in seconds since 1970.
        end: Only count the time up to here.
        steps: Whether to compute the step deviation, which takes longer than everything else.
    """
    origin, intervals, segments = analysis.entries.origin, analysis.intervals, analysis.segments
    nothing = GoodputReport(found=False, job_name=analysis.entries.job_name, files=files)
    if not intervals:
        reason = "the goodput log has no usable entries" if files else NO_LOG
        return replace(nothing, warnings=(*analysis.warnings, reason))
    first, last = intervals[0].start, intervals[-1].end
    low = first if start is None else max(start - origin, first)
    high = last if end is None else min(end - origin, last)
    if high <= low:
        return replace(nothing, warnings=(*analysis.warnings, "the job did not run in the requested window"))
    window = None if (low, high) == (first, last) else (low, high)
    whole = start is None and end is None
    return replace(
        _of_window(analysis, low, high),
        deviation=step_deviation(segments, ideal_step_time, window) if steps else None,
        rate=step_rate(intervals, segments, low, high) if steps else None,
        windows=tuple((size, _of_window(analysis, max(low, high - size), high)) for size in windows),
        clock=analysis.clock,
        left_out=analysis.entries.left_out,
        intervals=tuple(Interval(a + origin, b + origin, label) for a, b, label in intervals) if whole else (),
        hosts=analysis.hosts,
        files=files,
        warnings=analysis.warnings,
    )


def build_report_without(
    analysis: Analysis, excluded: Sequence[tuple[float, float]], *, ideal_step_time: float | None = None
) -> GoodputReport:
    """An interval that ends before it starts is ignored."""
    whole = build_report(analysis, ideal_step_time=ideal_step_time)
    if not whole.found:
        return whole
    origin = analysis.entries.origin
    parts, at, end = [], analysis.intervals[0].start, analysis.intervals[-1].end
    for low, high in [*sorted((low - origin, high - origin) for low, high in excluded if low < high), (end, end)]:
        if min(low, end) > at:
            parts.append(_of_window(analysis, at, min(low, end)))
        at = max(at, min(high, end))
    return replace(
        whole,
        excluded_seconds=whole.total_seconds - sum(part.total_seconds for part in parts),
        productive_seconds=sum(part.productive_seconds for part in parts),
        badput_seconds=_sums([part.badput_seconds for part in parts]),
        custom_badput_seconds=_sums([part.custom_badput_seconds for part in parts]),
    )


def _sums(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0.0) for part in parts) for name in names}


def _of_window(analysis: Analysis, low: float, high: float) -> GoodputReport:
    spent = seconds_spent(analysis.intervals, low, high)
    origin = analysis.entries.origin
    last_step, max_productive_step = _steps_at(analysis.segments, high)
    return GoodputReport(
        found=True,
        job_name=analysis.entries.job_name,
        start=low + origin,
        end=high + origin,
        ended=analysis.ended,
        productive_seconds=spent.get(PRODUCTIVE, 0.0),
        badput_seconds=_badput(analysis, spent, low, high),
        custom_badput_seconds={
            label.removeprefix(CUSTOM_PREFIX): seconds
            for label, seconds in sorted(spent.items())
            if label.startswith(CUSTOM_PREFIX)
        },
        disruptions=sum(
            low <= float(segment.time[-1]) < high
            for number, segment in enumerate(analysis.segments, 1)
            if number < len(analysis.segments) or segment.restart is not None
        ),
        max_productive_step=max_productive_step,
        last_step=last_step,
        stalls=tuple(
            stall._replace(start=stall.start + origin, end=stall.end + origin)
            for stall in analysis.stalls or ()
            if low < stall.end <= high
        ),
        slice_efficiency=_slice_efficiency(analysis, low, high),
    )


def _badput(analysis: Analysis, spent: dict[str, float], low: float, high: float) -> dict[str, float]:
    """The time of every bucket; those of elastic jobs only if the job is elastic."""
    absent = {Bucket.CUSTOM_BADPUT_EVENTS}
    if not len(analysis.entries.where(Kind.ELASTIC_WAIT_START, Kind.ELASTIC_REINIT_START)):
        absent |= {*ELASTIC}
    if analysis.stalls is None:
        absent.add(Bucket.STALL)
    seconds = {bucket.value: spent.get(bucket, 0.0) for bucket in Bucket if bucket not in absent}
    loading = float(np.diff(np.clip(analysis.loads, low, high)).sum())
    seconds[Bucket.DATA_LOADING_ASYNC] = max(0.0, loading - spent.get(Bucket.DATA_LOADING_SYNC, 0.0))
    return seconds


def _steps_at(segments: Sequence[Segment], high: float) -> tuple[int | None, int]:
    """Return the last step that had started by then, and the last that was completed and not lost."""
    repeated_from, last_step = NEVER, None
    for segment in reversed(segments):
        started = int(np.searchsorted(segment.time, high, "right"))
        if not started:
            continue
        last, first = int(segment.step[started - 1]), int(segment.step[0])
        last_step = last if last_step is None else last_step
        if segment.ended is not None and segment.ended <= high and segment.last_step < repeated_from:
            return last_step, segment.last_step
        if min(last, repeated_from) > first:
            return last_step, min(last, repeated_from) - 1
        repeated_from = min(repeated_from, first)
    return last_step, 0


def _slice_efficiency(analysis: Analysis, low: float, high: float) -> tuple[float, float] | None:
    """The mean shares of slices that were stepping and that were available, weighted by time."""
    if not analysis.entries.slices:
        return None
    time, *counts = np.array(sorted(analysis.entries.slices, key=lambda count: count.time), np.float64).T
    stepping, available, total = counts
    weights = np.diff(np.clip(np.append(time - analysis.entries.origin, np.inf), low, high)) / (high - low)
    return float((weights * stepping / total).sum()), float((weights * available / total).sum())
