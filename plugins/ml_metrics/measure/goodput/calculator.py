"""`GoodputCalculator`: the older library's methods for a log in the run folder."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.values import as_utc
from ml_metrics.measure.goodput.buckets import Bucket, GoodputType
from ml_metrics.measure.goodput.build import analyse, build_report, build_report_without
from ml_metrics.measure.goodput.log import MOST_STEPS, EntryReader, EntryReaderSource, FollowedLog, Kind, LogSource
from ml_metrics_telemetry.destinations import RUN_DIR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, timedelta

    from numpy.typing import NDArray

    from ml_metrics.measure.goodput.build import Analysis
    from ml_metrics.measure.goodput.log import Entries
    from ml_metrics.measure.goodput.report import GoodputReport


@dataclass(slots=True)
class LegacyFigures:
    """The older library's figures, in seconds."""

    productive: float = 0.0
    total: float = 0.0
    badput: dict[Bucket, float] = field(default_factory=dict)
    custom: dict[str, float] = field(default_factory=dict)
    max_productive_step: int = 0
    last_step: int = 0
    disruptions: int = 0

    @property
    def goodput(self) -> float:
        return self.productive / self.total * 100

    def percent(self, seconds: float) -> float:
        return seconds / self.total * 100 if 0 < seconds < self.total else 0.0

    def add(self, bucket: Bucket, seconds: float) -> None:
        self.badput[bucket] = self.badput.get(bucket, 0.0) + seconds


@dataclass(frozen=True, slots=True, eq=False)
class _Events:
    """The custom events, in the order of their starts."""

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    name: tuple[str, ...]


def legacy_figures(entries: Entries, query_time: float) -> LegacyFigures:
    """Return all figures that `get_job_goodput` computes.

    Raises:
        ValueError: The total time is zero, or less than the productive time. The older library raises it, too.
    """
    total = _total(entries, query_time)
    if total == 0:
        raise ValueError("Total job time is zero: the log holds no start of the job")
    return _figures(entries, total)


def legacy_window(entries: Entries, start: float, end: float) -> LegacyFigures:
    """Return all figures that `get_job_goodput_interval` computes, from the entries within a window alone.

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
    return _figures(part, high - low)


def _figures(entries: Entries, total: float) -> LegacyFigures:
    figures = LegacyFigures(total=total)
    figures.badput[Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME] = _checkpoints(entries, Kind.SAVE)
    figures.badput[Bucket.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME] = _checkpoints(entries, Kind.RESTORE)
    breaks = _add_steps(entries, figures)
    figures.disruptions = len(breaks)
    _add_loads(entries, figures, breaks)
    for start, bucket in (
        (Kind.TPU_INIT_START, Bucket.TPU_INITIALIZATION),
        (Kind.TRAINING_PREP_START, Bucket.TRAINING_PREP),
    ):
        figures.add(bucket, sum(seconds for _, seconds in _pairs(entries, start)))
    if not 0 <= figures.productive <= figures.total:
        raise ValueError(f"Productive time is invalid: {figures.productive:.6g} s of {figures.total:.6g} s")
    for spent in (figures.badput, figures.custom):
        for name, seconds in list(spent.items()):
            if not 0 <= seconds <= figures.total:
                spent[name] = 0.0  # type: ignore[index]  # each has its own key type
    counted = sum(seconds for bucket, seconds in figures.badput.items() if bucket != Bucket.DATA_LOADING_ASYNC)
    other = figures.total - figures.productive - counted - sum(figures.custom.values())
    figures.badput[Bucket.OTHER] = max(0.0, other)
    return figures


def _total(entries: Entries, query_time: float) -> float:
    starts, ends = entries.where(Kind.JOB_START), entries.where(Kind.JOB_END)
    if not len(starts):
        return 0.0
    end = float(entries.time[ends[-1]]) if len(ends) else query_time
    return end - float(entries.time[starts[0]])


def _add_steps(entries: Entries, figures: LegacyFigures) -> list[int]:
    """Add the steps. A step that its segment already has ends the segment; return the positions of such steps."""
    events = _custom_events(entries)
    segment: dict[int, float] = {}
    job_start: float | None = None
    breaks = []
    at = entries.where(Kind.STEP, Kind.JOB_START)
    columns = (at, entries.kind[at], entries.time[at], entries.number[at])
    for position, kind, at_time, number in zip(*(column.tolist() for column in columns), strict=True):
        if kind == Kind.JOB_START:
            job_start = at_time
            continue
        if number in segment:
            breaks.append(position)
            before = next(reversed(segment.values()))
            figures.productive += _close(segment, number, events, figures)[0]
            if job_start is not None and job_start > before:
                figures.add(Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION, job_start - before)
            segment = {}
        segment[number] = at_time
    if segment:
        figures.last_step = max(segment)
        productive, figures.max_productive_step = _close(segment, figures.last_step, events, figures)
        figures.productive += productive
        ends = entries.where(Kind.JOB_END)
        if len(ends):
            figures.productive += float(entries.time[ends[-1]]) - segment[figures.last_step]
            figures.max_productive_step = figures.last_step
        figures.productive -= figures.badput[Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME]
    return breaks


def _add_loads(entries: Entries, figures: LegacyFigures, breaks: list[int]) -> None:
    """Count as synchronous the first load, the first after each break, and the last before a break, even twice."""
    total = synchronous = 0.0
    first, latest = True, 0.0
    remaining = iter(breaks)
    at_break = next(remaining, None)
    for position, seconds in [*_pairs(entries, Kind.DATA_LOADING_START), (len(entries), None)]:
        while at_break is not None and at_break < position:
            synchronous += latest
            first, latest = True, 0.0
            at_break = next(remaining, None)
        if seconds is None:
            break
        total += seconds
        latest = seconds
        if first:
            synchronous += seconds
            first = False
    figures.badput[Bucket.DATA_LOADING_SYNC] = synchronous
    figures.badput[Bucket.DATA_LOADING_ASYNC] = total - synchronous


def _pairs(entries: Entries, start: Kind) -> Iterator[tuple[int, float]]:
    """The position of each span's end, and its seconds. Of consecutive starts the last counts."""
    since: float | None = None
    for at in entries.where(start, Kind(start + 1)).tolist():
        time = float(entries.time[at])
        if entries.kind[at] == start:
            since = time
        elif since is not None:
            yield at, time - since
            since = None


def _close(segment: dict[int, float], current: int, events: _Events, figures: LegacyFigures) -> tuple[float, int]:
    """Return the productive time of a segment that ends before a step, and its last productive step."""
    if current == 0:
        return 0.0, 0
    step = np.fromiter(segment.keys(), np.int64, len(segment))
    time = np.fromiter(segment.values(), np.float64, len(segment))
    delta = np.diff(time)
    kept = step[1:] <= current
    figures.add(Bucket.WASTED_PROGRESS_FROM_DISRUPTION, float(delta[~kept].sum()))
    counted = kept & (np.diff(step) == 1)
    if not counted.any():
        return 0.0, 0
    held_up = np.zeros(len(delta))
    for index, seconds, name in _events_inside(events, time, counted):
        held_up[index] += seconds
        figures.custom[name] = figures.custom.get(name, 0.0) + seconds
    adjusted = np.maximum(0.0, delta - held_up)[counted]
    first = step[:-1][counted] == step.min()
    others = adjusted[~first]
    startup = 0.0
    if len(others):
        startup = max(0.0, float(adjusted[first].sum()) - float(others.mean()))
    figures.add(Bucket.PROGRAM_STARTUP, startup)
    return float(adjusted.sum()) - startup, int(step[:-1][counted][-1])


def _events_inside(
    events: _Events, time: NDArray[np.float64], counted: NDArray[np.bool_]
) -> Iterator[tuple[int, float, str]]:
    """Yield the events that are entirely within one counted step: the step's index, the duration and the name."""
    if (np.diff(time) < 0).any():  # the clock was set back: an event may be within several steps, or none
        for low, high, name in zip(events.start.tolist(), events.end.tolist(), events.name, strict=True):
            for index in np.flatnonzero(counted & (time[:-1] <= low) & (high <= time[1:])).tolist():
                yield index, high - low, name
        return
    first, last = np.searchsorted(events.start, [time[0], time[-1]], "left")
    at = np.searchsorted(time, events.start[first:last], "right") - 1
    for index, event in zip(at.tolist(), range(first, last), strict=True):
        low, high = float(events.start[event]), float(events.end[event])
        if index < len(counted) and counted[index] and high <= time[index + 1]:
            yield index, high - low, events.name[event]


def _custom_events(entries: Entries) -> _Events:
    open_since: dict[str, float] = {}
    found: list[tuple[float, float, str]] = []
    for at in entries.where(Kind.CUSTOM_START, Kind.CUSTOM_END).tolist():
        name, time = entries.names[entries.number[at]].upper(), float(entries.time[at])
        if entries.kind[at] == Kind.CUSTOM_START:
            open_since[name] = time
        elif name in open_since and (low := open_since.pop(name)) < time:
            found.append((low, time, name))
    found.sort(key=lambda event: event[0])
    return _Events(
        np.array([low for low, _, _ in found]),
        np.array([high for _, high, _ in found]),
        tuple(name for _, _, name in found),
    )


def _checkpoints(entries: Entries, kind: Kind) -> float:
    reports: dict[tuple[str, bool], list[float]] = {}
    for at in entries.where(kind).tolist():
        checkpoint = entries.checkpoints[entries.number[at]]
        reports.setdefault((checkpoint.step, checkpoint.remote), []).append(checkpoint.seconds)
    return sum(sum(durations) / len(durations) for durations in reports.values())


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

    def __init__(  # noqa: PLR0917  (the older library's signature)
        self,
        job_name: str,
        logger_name: str = "",
        cloud_logger: LogSource | EntryReader | None = None,
        using_pathways: bool = False,  # noqa: FBT001, FBT002
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
        include_badput_breakdown: bool = False,  # noqa: FBT001, FBT002  (the older library's signature)
        configured_ideal_step_time: float | None = None,
    ) -> JobGoodput:
        """Return the goodput in percent, the percentage of each bucket if requested, and the last productive step."""
        if self.compatible:
            older = legacy_figures(self.entries(), time.time())
            breakdown = _legacy_percent(older) if include_badput_breakdown else {}
            return JobGoodput((older.goodput, breakdown, older.max_productive_step))
        del configured_ideal_step_time  # no figure here depends on it
        found = self.report(steps=False)
        breakdown = _percent(found) if include_badput_breakdown else {}
        return JobGoodput((_goodput(found), breakdown, found.max_productive_step))

    def sync_to_gcs(self) -> None:
        """Nothing to do: nothing is cached."""

    def get_job_goodput_interval(
        self, interval_start: datetime, interval_end: datetime
    ) -> tuple[float, Breakdown, int, float, int]:
        """Return the same figures for a window, always with the breakdown, then its seconds and disruptions."""
        if self.compatible:
            older = legacy_window(self.entries(), _seconds(interval_start), _seconds(interval_end))
            step = older.max_productive_step
            return older.goodput, _legacy_percent(older), step, older.total, older.disruptions
        found = self.report(start=_seconds(interval_start), end=_seconds(interval_end), steps=False)
        return _goodput(found), _percent(found), found.max_productive_step, found.total_seconds, found.disruptions

    def get_job_goodput_with_exclusions(
        self,
        exclusion_intervals: Sequence[tuple[datetime, datetime]],
        include_badput_breakdown: bool = False,  # noqa: FBT001, FBT002
        configured_ideal_step_time: float | None = None,
    ) -> tuple[float, Breakdown, int, float]:
        """Return the same figures without some intervals, and how many seconds of the job were excluded."""
        analysis = self.analysis()
        excluded = [(_seconds(low), _seconds(high)) for low, high in exclusion_intervals]
        found = self._found(build_report_without(analysis, excluded, ideal_step_time=configured_ideal_step_time))
        return (
            _goodput(found),
            _percent(found) if include_badput_breakdown else {},
            found.max_productive_step,
            found.excluded_seconds,
        )

    def get_step_deviation(self, configured_ideal_step_time: float | None = None) -> dict[int, float]:
        """Return the absolute deviation of each step's time from the ideal, by step."""
        deviation = self.report(ideal_step_time=configured_ideal_step_time).deviation
        if deviation is None:
            raise NoGoodputError("the log has no completed step")
        return dict(zip(deviation.step.tolist(), deviation.absolute.tolist(), strict=True))

    def get_job_goodput_details(self) -> dict[str, Any]:
        """Return all figures, in seconds, under the older library's names."""
        found = self.report()
        if self.compatible:
            older = legacy_figures(self.entries(), time.time())
            found = replace(
                found,
                end=(found.start or 0.0) + older.total,
                productive_seconds=older.productive,
                badput_seconds={bucket: older.badput.get(bucket, 0.0) for bucket in _flat(older.badput)},
                custom_badput_seconds=older.custom,
                max_productive_step=older.max_productive_step,
                disruptions=older.disruptions,
            )
        details: dict[str, Any] = {
            "goodput_time": {GoodputType.TOTAL: found.productive_seconds},
            "badput_time": _by_bucket(found, found.badput_seconds, found.custom_badput_seconds),
            "max_productive_step": found.max_productive_step,
            "total_elapsed_time": found.total_seconds,
            "disruption_count": found.disruptions,
            "step_time_deviation": {},
            "ideal_step_time": 0.0,
            "total_excluded_time": 0.0,
        }
        if found.deviation:
            steps, deviations = found.deviation.step.tolist(), found.deviation.absolute.tolist()
            details["step_time_deviation"] = dict(zip(steps, deviations, strict=True))
            details["ideal_step_time"] = found.deviation.ideal
        return details | _slice_efficiency(found)

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


def _goodput(found: GoodputReport) -> float:
    return found.goodput_percent or 0.0


def _percent(found: GoodputReport) -> Breakdown:
    scale = 100 / found.total_seconds if found.total_seconds else 0.0
    flat = {name: seconds * scale for name, seconds in found.badput_seconds.items()}
    return _by_bucket(found, flat, {name: spent * scale for name, spent in found.custom_badput_seconds.items()})


def _legacy_percent(older: LegacyFigures) -> Breakdown:
    breakdown: Breakdown = {bucket: older.percent(older.badput.get(bucket, 0.0)) for bucket in _flat(older.badput)}
    breakdown[Bucket.CUSTOM_BADPUT_EVENTS] = {name: older.percent(spent) for name, spent in older.custom.items()}
    return breakdown


def _by_bucket(found: GoodputReport, flat: dict[str, float], custom: dict[str, float]) -> Breakdown:
    breakdown: Breakdown = {Bucket(name): flat[name] for name in found.badput_seconds}
    breakdown[Bucket.CUSTOM_BADPUT_EVENTS] = custom
    return breakdown


def _flat(badput: dict[Bucket, float]) -> list[Bucket]:
    return [bucket for bucket in Bucket if bucket in badput or not bucket.startswith(("elastic", "custom", "stall"))]


def _seconds(moment: datetime) -> float:
    return as_utc(moment).timestamp()
