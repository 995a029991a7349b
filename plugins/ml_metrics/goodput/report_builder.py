"""Building a report from a log or its analysis, for the whole job or any window of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.goodput.analysis import Analysis, analyse
from ml_metrics.goodput.entries import Kind
from ml_metrics.goodput.log_files import Log, LogSource, log_files, read_log
from ml_metrics.goodput.report import NO_LOG, GoodputReport
from ml_metrics.goodput.segments import NEVER
from ml_metrics.goodput.step_deviation import step_deviation
from ml_metrics.goodput.step_rate import step_rate
from ml_metrics.goodput.time_buckets import CUSTOM_PREFIX, ELASTIC, PRODUCTIVE, Bucket
from ml_metrics.goodput.timeline import Interval
from ml_metrics.goodput.writer import is_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics import storage
    from ml_metrics.goodput.segments import Segments
    from ml_metrics.goodput.stalls import Stall
    from ml_metrics.goodput.step_deviation import StepDeviation
    from ml_metrics.limits import Limits


def measure(  # noqa: PLR0913  (independent options)
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
            or another source of entries, such as `ml_metrics.cloud.CloudLogger`.
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
    log = _log(files, job_name, limits)
    analysis = analyse(log.entries, until=until, stalls=stalls)
    if len(log.entries) and not analysis.ended:
        end_used = "its last entry" if until is None else "its workload ended"
        no_end = f"the job recorded no end: it is taken to have run until {end_used}, and its last step does not count"
        analysis = replace(analysis, warnings=(*analysis.warnings, no_end))
    return build_report(
        analysis, files=log.files, ideal_step_time=ideal_step_time, windows=windows, start=start, end=end
    )


def build_report(  # noqa: PLR0913  (independent options)
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
    origin = analysis.entries.origin
    nothing = GoodputReport(found=False, job_name=analysis.entries.job_name, files=files)
    if not analysis.timeline.intervals:
        reason = "the goodput log has no usable entries" if files else NO_LOG
        return replace(nothing, warnings=(*analysis.warnings, reason))
    low = analysis.timeline.start if start is None else max(start - origin, analysis.timeline.start)
    high = analysis.timeline.end if end is None else min(end - origin, analysis.timeline.end)
    if high <= low:
        return replace(nothing, warnings=(*analysis.warnings, "the job did not run in the requested window"))
    return replace(
        _of_window(analysis, low, high),
        deviation=_deviation(analysis, low, high, ideal_step_time) if steps else None,
        rate=step_rate(analysis.timeline, analysis.segments, low, high) if steps else None,
        windows=tuple((size, _of_window(analysis, max(low, high - size), high)) for size in windows),
        clock=analysis.clock,
        intervals=_intervals(analysis) if start is None and end is None else (),
        hosts=analysis.hosts,
        files=files,
        warnings=analysis.warnings,
    )


def build_report_without(
    analysis: Analysis, excluded: Sequence[tuple[float, float]], *, ideal_step_time: float | None = None
) -> GoodputReport:
    """Build the report of the whole job without some intervals. An interval that ends before it starts is ignored."""
    whole = build_report(analysis, ideal_step_time=ideal_step_time)
    if not whole.found:
        return whole
    origin = analysis.entries.origin
    parts, at, end = [], analysis.timeline.start, analysis.timeline.end
    intervals = sorted((low - origin, high - origin) for low, high in excluded if low < high)
    for low, high in [*intervals, (end, end)]:
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


def _log(files: Sequence[storage.File] | str | LogSource, job_name: str | None, limits: Limits | None) -> Log:
    if isinstance(files, LogSource):
        entries = files.read()
        return Log(entries, 1 if len(entries) else 0)
    chosen = log_files(files) if isinstance(files, str) else [file for file in files if is_log(file)]
    return read_log(chosen, job_name, limits)


def _sums(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0.0) for part in parts) for name in names}


def _of_window(analysis: Analysis, low: float, high: float) -> GoodputReport:
    spent = analysis.timeline.seconds(low, high)
    origin = analysis.entries.origin
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
        disruptions=sum(low <= moment < high for moment in analysis.segments.disruptions),
        max_productive_step=_max_productive_step(analysis.segments, high),
        last_step=_last_step(analysis.segments, high),
        stalls=_stalls(analysis, low, high),
        slice_efficiency=_slice_efficiency(analysis, low, high),
    )


def _intervals(analysis: Analysis) -> tuple[Interval, ...]:
    origin = analysis.entries.origin
    return tuple(Interval(one.start + origin, one.end + origin, one.label) for one in analysis.timeline.intervals)


def _deviation(analysis: Analysis, low: float, high: float, ideal: float | None) -> StepDeviation | None:
    whole = low <= analysis.timeline.start and high >= analysis.timeline.end
    return step_deviation(analysis.times if whole else analysis.times.within(low, high), ideal)


def _badput(analysis: Analysis, spent: dict[str, float], low: float, high: float) -> dict[str, float]:
    """Return the time of every bucket; those of elastic jobs only if the job is elastic."""
    elastic = len(analysis.entries.where(Kind.ELASTIC_WAIT_START, Kind.ELASTIC_REINIT_START)) > 0
    absent = {
        Bucket.CUSTOM_BADPUT_EVENTS,
        *(() if elastic else ELASTIC),
        *(() if analysis.stalls is not None else (Bucket.STALL,)),
    }
    wanted = [bucket for bucket in Bucket if bucket not in absent]
    seconds = {bucket.value: spent.get(bucket, 0.0) for bucket in wanted}
    loading = np.clip(analysis.loads[1], low, high) - np.clip(analysis.loads[0], low, high)
    seconds[Bucket.DATA_LOADING_ASYNC] = max(0.0, float(loading.sum()) - spent.get(Bucket.DATA_LOADING_SYNC, 0.0))
    return seconds


def _stalls(analysis: Analysis, low: float, high: float) -> tuple[Stall, ...]:
    """Return the stalls of the steps that ended in a window, with times since 1970."""
    origin = analysis.entries.origin
    return tuple(
        replace(stall, start=stall.start + origin, end=stall.end + origin)
        for stall in analysis.stalls or ()
        if low < stall.end <= high
    )


def _last_step(segments: Segments, high: float) -> int | None:
    """Return the last step that had started."""
    for segment in reversed(segments.segments):
        started = int(np.searchsorted(segment.time, high, "right"))
        if started:
            return int(segment.step[started - 1])
    return None


def _max_productive_step(segments: Segments, high: float) -> int:
    """Return the last step that was completed and not lost by then."""
    repeated_from = NEVER
    for segment in reversed(segments.segments):
        started = int(np.searchsorted(segment.time, high, "right"))
        if not started:
            continue
        if segment.ended is not None and segment.ended <= high and segment.last_step < repeated_from:
            return segment.last_step
        last, first = int(segment.step[started - 1]), int(segment.step[0])
        if min(last, repeated_from) > first:
            return min(last, repeated_from) - 1
        repeated_from = min(repeated_from, first)
    return 0


def _slice_efficiency(analysis: Analysis, low: float, high: float) -> tuple[float, float] | None:
    """Return the mean shares of slices that were stepping and that were available, weighted by time."""
    counts = sorted(analysis.entries.slices, key=lambda count: count.time)
    if not counts:
        return None
    times = np.array([count.time for count in counts]) - analysis.entries.origin
    weights = np.diff(np.clip(np.append(times, np.inf), low, high)) / (high - low)
    stepping = sum(weight * count.active / count.total for weight, count in zip(weights, counts, strict=True))
    available = sum(weight * count.available / count.total for weight, count in zip(weights, counts, strict=True))
    return float(stepping), float(available)
