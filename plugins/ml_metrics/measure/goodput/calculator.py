"""`GoodputCalculator`: the older library's methods for a log in the run folder."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.values import as_utc
from ml_metrics.measure.goodput.build import analyse, build_report, build_report_without
from ml_metrics.measure.goodput.log import MOST_STEPS, EntryReader, EntryReaderSource, FollowedLog, Kind, LogSource
from ml_metrics.measure.goodput.report import Bucket, GoodputReport, GoodputType
from ml_metrics.measure.goodput.timeline import named_pairs, paired
from ml_metrics_telemetry.destinations import RUN_DIR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime, timedelta

    from numpy.typing import NDArray

    from ml_metrics.measure.goodput.build import Analysis
    from ml_metrics.measure.goodput.log import Entries


Breakdown = dict[Bucket, float | dict[str, float]]
"""Percent or seconds by bucket; for `CUSTOM_BADPUT_EVENTS`, by type of event."""


class NoGoodputError(MlMetricsError, ValueError):
    """The log has no usable entries, or none in the window. A ValueError, as in ml-goodput-measurement."""


class JobGoodput(tuple[float, Breakdown, int]):
    """The goodput in percent, badput by bucket, and the last productive step; `.2f` formats the percent."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return format(self[0], spec) if spec else str(tuple(self))


class GoodputCalculator:
    """Reports how the time of a job is spent, also while it runs. It caches nothing: each call reads the log.

    Args:
        job_name: The job; entries of others are left out.
        logger_name: The name of the log in Google Cloud Logging; not used for files.
        cloud_logger: A source of entries other than files: `ml_metrics.measure.cloud.CloudLogger`, or an object with
            the older library's `read_cloud_logging_entries`.
        using_pathways: Ignored, like the next three: nothing depends on it, and nothing is cached or left out.
        max_logs_retention_period: Ignored.
        gcs_path: Ignored.
        cache_dir: Ignored.
        folder: The run folder, or a log. Default: the environment variable `ML_METRICS_RUN_DIR`.
        compatible: Whether to compute the figures of the whole job and of windows as ml-goodput-measurement 0.2.3 does,
            including its faults. Step deviations and exclusions are not affected.
        stalls: Whether what a step took beyond any usual step is in the bucket `STALL`, which neither the older library
            nor a `compatible` calculator has.
    """

    def __init__(
        self,
        job_name: str,
        logger_name: str = "",
        cloud_logger: LogSource | EntryReader | None = None,
        using_pathways: bool = False,
        max_logs_retention_period: timedelta | None = None,
        gcs_path: str | None = None,
        cache_dir: str | None = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        compatible: bool = False,
        stalls: bool = False,
    ) -> None:
        del using_pathways, max_logs_retention_period, gcs_path, cache_dir
        self.job_name = job_name
        self.logger_name = logger_name
        self.compatible = compatible
        self.stalls = stalls and not compatible
        where = os.fspath(folder) if folder is not None else os.environ.get(RUN_DIR, "")
        if cloud_logger is None and not where:
            raise NoGoodputError(f"there is no log to read: pass a folder, or set {RUN_DIR}")
        if cloud_logger is None:
            self._log: LogSource = FollowedLog(where, job_name, None if compatible else MOST_STEPS)
        elif isinstance(cloud_logger, LogSource):
            self._log = cloud_logger
        else:
            self._log = EntryReaderSource(cloud_logger, job_name)

    def get_job_goodput(
        self,
        include_badput_breakdown: bool = False,
        configured_ideal_step_time: float | None = None,
    ) -> JobGoodput:
        """Return the goodput in percent, the percentage of each bucket if requested, and the last productive step."""
        del configured_ideal_step_time  # no figure here depends on it
        found = legacy_figures(self.entries(), time.time()) if self.compatible else self.report(steps=False)
        breakdown = _percent(found, compatible=self.compatible) if include_badput_breakdown else {}
        return JobGoodput((found.goodput_percent or 0.0, breakdown, found.max_productive_step))

    def sync_to_gcs(self) -> None:
        """Nothing to do: nothing is cached."""

    def get_job_goodput_interval(
        self, interval_start: datetime, interval_end: datetime
    ) -> tuple[float, Breakdown, int, float, int]:
        """Return the same figures for a window, always with the breakdown, then its seconds and disruptions."""
        start, end = _seconds(interval_start), _seconds(interval_end)
        if self.compatible:
            found = legacy_window(self.entries(), start, end)
        else:
            found = self.report(start=start, end=end, steps=False)
        goodput, step = found.goodput_percent or 0.0, found.max_productive_step
        breakdown = _percent(found, compatible=self.compatible)
        return goodput, breakdown, step, found.total_seconds, found.disruptions

    def get_job_goodput_with_exclusions(
        self,
        exclusion_intervals: Sequence[tuple[datetime, datetime]],
        include_badput_breakdown: bool = False,
        configured_ideal_step_time: float | None = None,
    ) -> tuple[float, Breakdown, int, float]:
        """Return the same figures without some intervals, and how many seconds of the job were excluded."""
        excluded = [(_seconds(low), _seconds(high)) for low, high in exclusion_intervals]
        report = build_report_without(self.analysis(), excluded, ideal_step_time=configured_ideal_step_time)
        found = self._found(report)
        breakdown = _percent(found) if include_badput_breakdown else {}
        return found.goodput_percent or 0.0, breakdown, found.max_productive_step, found.excluded_seconds

    def get_step_deviation(self, configured_ideal_step_time: float | None = None) -> dict[int, float]:
        """Return the absolute deviation of each step's time from the ideal, by step."""
        deviation = self.report(ideal_step_time=configured_ideal_step_time).deviation
        if deviation is None:
            raise NoGoodputError("the log has no completed step")
        return dict(zip(deviation.step.tolist(), deviation.absolute.tolist(), strict=True))

    def get_job_goodput_details(self) -> dict[str, Any]:
        """Return all figures, in seconds, under the older library's names."""
        found = self.report()
        figures = legacy_figures(self.entries(), time.time()) if self.compatible else found
        deviation = found.deviation
        steps = deviation and dict(zip(deviation.step.tolist(), deviation.absolute.tolist(), strict=True))
        return {
            "goodput_time": {GoodputType.TOTAL: figures.productive_seconds},
            "badput_time": _by_bucket(figures, lambda seconds: seconds),
            "max_productive_step": figures.max_productive_step,
            "total_elapsed_time": figures.total_seconds,
            "disruption_count": figures.disruptions,
            "step_time_deviation": steps or {},
            "ideal_step_time": deviation.ideal if deviation else 0.0,
            "total_excluded_time": 0.0,
            **_slice_efficiency(found),
        }

    def get_interval_metric_details(self, interval_start: datetime, interval_end: datetime) -> dict[str, Any]:
        """Return a window's percentages under the older library's names; empty if the job did not run in it."""
        details: dict[str, Any] = {
            "interval_goodput": {},
            "interval_badput": {},
            "interval_size": int((interval_end - interval_start).total_seconds()),
        }
        try:
            found = self.report(start=_seconds(interval_start), end=_seconds(interval_end), steps=False)
            goodput, badput, *_ = self.get_job_goodput_interval(interval_start, interval_end)
        except ValueError:
            return details
        details["interval_goodput"] = {GoodputType.TOTAL: goodput}
        details["interval_badput"] = badput
        return details | _slice_efficiency(found)

    def report(self, **options: Any) -> GoodputReport:
        """`options` are those of `build_report`. Raises NoGoodputError without usable entries in the log or window."""
        return self._found(build_report(self.analysis(), **options))

    def analysis(self) -> Analysis:
        """Analyse the log until now. A job that recorded no end is still running."""
        return analyse(self.entries(), until=time.time(), stalls=self.stalls)

    def entries(self) -> Entries:
        return self._log.read()

    @staticmethod
    def _found(found: GoodputReport) -> GoodputReport:
        if not found.found:
            raise NoGoodputError("; ".join(found.warnings))
        return found


def _slice_efficiency(found: GoodputReport) -> dict[str, float]:
    names = ("stepping_slice_efficiency", "available_slice_efficiency")
    return dict(zip(names, found.slice_efficiency, strict=True)) if found.slice_efficiency else {}


def _percent(found: GoodputReport, *, compatible: bool = False) -> Breakdown:
    def percent(seconds: float) -> float:
        if compatible and not 0 < seconds < found.total_seconds:
            return 0.0
        return seconds * (100 / found.total_seconds) if found.total_seconds else 0.0

    return _by_bucket(found, percent)


def _by_bucket(found: GoodputReport, value: Callable[[float], float]) -> Breakdown:
    breakdown: Breakdown = {Bucket(name): value(seconds) for name, seconds in found.badput_seconds.items()}
    custom = {name: value(seconds) for name, seconds in found.custom_badput_seconds.items()}
    return breakdown | {Bucket.CUSTOM_BADPUT_EVENTS: custom}


def _seconds(moment: datetime) -> float:
    return as_utc(moment).timestamp()


def legacy_figures(entries: Entries, query_time: float) -> GoodputReport:
    """Return the figures that the older library's `get_job_goodput` computes, with its faults, by a clock from 0.

    Raises:
        ValueError: The total time is zero, or less than the productive time. The older library raises it, too.
    """
    starts, ends = entries.where(Kind.JOB_START), entries.where(Kind.JOB_END)
    end = float(entries.time[ends[-1]]) if len(ends) else query_time
    total = end - float(entries.time[starts[0]]) if len(starts) else 0.0
    if total == 0:
        raise ValueError("Total job time is zero: the log holds no start of the job")
    return _Legacy(entries, total).report()


def legacy_window(entries: Entries, start: float, end: float) -> GoodputReport:
    """Return the figures that `get_job_goodput_interval` computes, from the entries within a window alone.

    Raises:
        ValueError: As above, or the window has fewer than two entries.
    """
    time = entries.time.copy()
    for at in entries.where(Kind.SAVE, Kind.RESTORE).tolist():
        first = entries.checkpoints[entries.number[at]].first_time
        time[at] = np.nan if first is None else first
    inside = np.flatnonzero((time > start) & (time <= end))
    if not len(inside):
        raise ValueError("No log entries are in the window")
    low, high = max(start, float(time[inside[0]])), min(end, float(time[inside[-1]]))
    if low >= high:
        raise ValueError("Total job time is zero: the window's first entry is no earlier than its last")
    part = replace(entries, kind=entries.kind[inside], time=entries.time[inside], number=entries.number[inside])
    return _Legacy(part, high - low).report()


class _Legacy:
    """The sums of the older library, each on its own."""

    def __init__(self, entries: Entries, total: float) -> None:
        self.entries, self.total, self.productive, self.max_productive_step = entries, total, 0.0, 0
        self.badput = {one: 0.0 for one in Bucket if not one.startswith(("elastic", "custom", "stall"))}
        self.custom: defaultdict[str, float] = defaultdict(float)
        self.events = sorted(event for event in named_pairs(entries, Kind.CUSTOM_START)[0] if event[0] < event[1])
        self.event_starts = np.array([start for start, _, _ in self.events])

    def report(self) -> GoodputReport:
        self.badput[Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME] = self._checkpoints(Kind.SAVE)
        self.badput[Bucket.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME] = self._checkpoints(Kind.RESTORE)
        breaks = self._add_steps()
        loads, ends = self._seconds(Kind.DATA_LOADING_START)
        synchronous = 0.0
        for number, each in enumerate(np.split(loads, np.searchsorted(ends, breaks))):
            # the first load after each break, and the last before a break, even twice
            synchronous += each[:1].sum() + (each[-1:].sum() if number < len(breaks) else 0.0)
        self.badput[Bucket.DATA_LOADING_SYNC] = float(synchronous)
        self.badput[Bucket.DATA_LOADING_ASYNC] = float(loads.sum() - synchronous)
        self.badput[Bucket.TPU_INITIALIZATION] = float(self._seconds(Kind.TPU_INIT_START)[0].sum())
        self.badput[Bucket.TRAINING_PREP] = float(self._seconds(Kind.TRAINING_PREP_START)[0].sum())
        if not 0 <= self.productive <= self.total:
            raise ValueError(f"Productive time is invalid: {self.productive:.6g} s of {self.total:.6g} s")
        badput, custom = (
            {str(name): seconds if 0 <= seconds <= self.total else 0.0 for name, seconds in spent.items()}
            for spent in (self.badput, self.custom)
        )
        counted = sum(badput.values()) - badput[Bucket.DATA_LOADING_ASYNC] + sum(custom.values())
        badput[Bucket.OTHER] = max(0.0, self.total - self.productive - counted)
        return GoodputReport(
            found=True,
            start=0.0,
            end=self.total,
            productive_seconds=self.productive,
            badput_seconds=badput,
            custom_badput_seconds=custom,
            disruptions=len(breaks),
            max_productive_step=self.max_productive_step,
        )

    def _checkpoints(self, kind: Kind) -> float:
        reports: defaultdict[tuple[str, bool], list[float]] = defaultdict(list)
        for at in self.entries.where(kind).tolist():
            checkpoint = self.entries.checkpoints[self.entries.number[at]]
            reports[checkpoint.step, checkpoint.remote].append(checkpoint.seconds)
        return sum(sum(durations) / len(durations) for durations in reports.values())

    def _seconds(self, start: Kind) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """How long each span of a kind took, and the position of its end."""
        starts, ends = paired(self.entries, start)[0].T
        return self.entries.time[ends] - self.entries.time[starts], ends

    def _add_steps(self) -> list[int]:
        """A step that its segment already has ends the segment. Return the positions of such steps."""
        entries = self.entries
        segment: dict[int, float] = {}
        job_start: float | None = None
        breaks = []
        at = entries.where(Kind.STEP, Kind.JOB_START)
        columns = (at, entries.kind[at], entries.time[at], entries.number[at])
        for position, kind, moment, number in zip(*(column.tolist() for column in columns), strict=True):
            if kind == Kind.JOB_START:
                job_start = moment
                continue
            if number in segment:
                breaks.append(position)
                before = next(reversed(segment.values()))
                self._close(segment, number)
                if job_start is not None and job_start > before:
                    self.badput[Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION] += job_start - before
                segment = {}
            segment[number] = moment
        if segment:
            last = max(segment)
            self.max_productive_step = self._close(segment, last)
            ends = entries.where(Kind.JOB_END)
            if len(ends):
                self.productive += float(entries.time[ends[-1]]) - segment[last]
                self.max_productive_step = last
            self.productive -= self.badput[Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME]
        return breaks

    def _close(self, segment: dict[int, float], current: int) -> int:
        """Add a segment that ends before a step, and return its last productive step."""
        step = np.fromiter(segment.keys(), np.int64, len(segment))
        time = np.fromiter(segment.values(), np.float64, len(segment))
        delta = np.diff(time)
        kept = step[1:] <= current
        if current:
            self.badput[Bucket.WASTED_PROGRESS_FROM_DISRUPTION] += float(delta[~kept].sum())
        counted = kept & (np.diff(step) == 1)
        if not current or not counted.any():
            return 0
        held_up = np.zeros(len(delta))
        for index, seconds, name in self._events_inside(time, counted):
            held_up[index] += seconds
            self.custom[name] += seconds
        adjusted = np.maximum(0.0, delta - held_up)[counted]
        first = step[:-1][counted] == step.min()
        others = adjusted[~first]
        startup = max(0.0, float(adjusted[first].sum()) - float(others.mean())) if len(others) else 0.0
        self.badput[Bucket.PROGRAM_STARTUP] += startup
        self.productive += float(adjusted.sum()) - startup
        return int(step[:-1][counted][-1])

    def _events_inside(self, time: NDArray[np.float64], counted: NDArray[np.bool_]) -> Iterator[tuple[int, float, str]]:
        """Yield the events that are entirely within one counted step: the step's index, the duration and the name."""
        if (np.diff(time) < 0).any():  # the clock was set back: an event may be within several steps, or none
            for low, high, name in self.events:
                for index in np.flatnonzero(counted & (time[:-1] <= low) & (high <= time[1:])).tolist():
                    yield index, high - low, name
            return
        first, last = np.searchsorted(self.event_starts, [time[0], time[-1]], "left").tolist()
        at = np.searchsorted(time, self.event_starts[first:last], "right") - 1
        for index, (low, high, name) in zip(at.tolist(), self.events[first:last], strict=True):
            if index < len(counted) and counted[index] and high <= time[index + 1]:
                yield index, high - low, name
