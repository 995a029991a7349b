"""`GoodputCalculator`: the older library's methods for a log in the run folder."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ml_metrics.errors import MlMetricsError
from ml_metrics.goodput.analysis import analyse
from ml_metrics.goodput.legacy import legacy_figures, legacy_window
from ml_metrics.goodput.log_files import EntryReader, EntryReaderSource, FollowedLog, LogSource
from ml_metrics.goodput.report_builder import build_report, build_report_without
from ml_metrics.goodput.time_buckets import Bucket, GoodputType
from ml_metrics.values import as_utc
from ml_metrics_telemetry.destinations import RUN_DIR

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from ml_metrics.goodput.analysis import Analysis
    from ml_metrics.goodput.entries import Entries
    from ml_metrics.goodput.legacy import LegacyFigures
    from ml_metrics.goodput.report import GoodputReport

Breakdown = dict[Bucket, float | dict[str, float]]
"""Percent or seconds by bucket; for `CUSTOM_BADPUT_EVENTS`, by type of event."""


class NoGoodputError(MlMetricsError, ValueError):
    """The log has no usable entries, or none in the window. A ValueError, as in ml-goodput-measurement."""


class GoodputCalculator:
    """Reports how the time of a job is spent, also while it runs. It caches nothing: each call reads the log.

    Args:
        job_name: The job; entries of others are left out.
        logger_name: The name of the log in Google Cloud Logging; not used for files.
        cloud_logger: A source of entries other than files: `ml_metrics.cloud.CloudLogger`, or an object with the older
            library's `read_cloud_logging_entries`.
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

    def __init__(  # noqa: PLR0913, PLR0917  (the older library's signature)
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
            self._log: LogSource = FollowedLog(where, job_name)
        elif isinstance(cloud_logger, LogSource):
            self._log = cloud_logger
        else:
            self._log = EntryReaderSource(cloud_logger, job_name)

    def get_job_goodput(
        self,
        include_badput_breakdown: bool = False,  # noqa: FBT001, FBT002  (the older library's signature)
        configured_ideal_step_time: float | None = None,
    ) -> tuple[float, Breakdown, int]:
        """Return the goodput in percent, the percentage of each bucket if requested, and the last productive step."""
        if self.compatible:
            older = legacy_figures(self.entries(), time.time())
            breakdown = _legacy_percent(older) if include_badput_breakdown else {}
            return older.goodput, breakdown, older.max_productive_step
        del configured_ideal_step_time  # no figure here depends on it
        found = self.report(steps=False)
        return _goodput(found), _percent(found) if include_badput_breakdown else {}, found.max_productive_step

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
        """Return the report of the job until now. `options` are those of `report_builder.build_report`.

        Raises:
            NoGoodputError: The log has no usable entries, or none in the window.
        """
        return self._found(build_report(self.analysis(), **options))

    def analysis(self) -> Analysis:
        """Analyse the log until now. A job that recorded no end is still running."""
        return analyse(self.entries(), until=time.time(), stalls=self.stalls)

    def entries(self) -> Entries:
        """Return all entries that the log holds now."""
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
