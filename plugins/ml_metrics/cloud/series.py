"""Goodput as time series of Google Cloud Monitoring, with the names and labels of ml-goodput-measurement.

Each series is the gauge `compute.googleapis.com/workload/<name>` of a resource `compute.googleapis.com/Workload`.
Asynchronous data loading is not badput and is not sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.goodput.report import Part
from ml_metrics.goodput.time_buckets import Bucket

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ml_metrics.goodput.report import GoodputReport

METRIC = "compute.googleapis.com/workload/"
RESOURCE = "compute.googleapis.com/Workload"
CUMULATIVE = {"window_type": "cumulative"}


@dataclass(frozen=True, slots=True)
class Workload:
    """The labels of all series of a job."""

    workload_id: str
    location: str
    replica_id: str
    accelerator_type: str
    cluster_name: str | None = None
    slice_efficiency: bool = False
    """Whether the slice efficiency of an elastic job is sent."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value of a series."""

    name: str
    value: float
    labels: dict[str, str]

    def series(self, workload: Workload, moment: float) -> Any:
        """Return the point as a message of the service."""
        from google.cloud import monitoring_v3

        seconds = int(moment)
        value = {"int64_value": self.value} if type(self.value) is int else {"double_value": self.value}
        return monitoring_v3.TimeSeries(
            metric={"type": METRIC + self.name, "labels": self.labels},
            resource={
                "type": RESOURCE,
                "labels": {
                    "location": workload.location,
                    "workload_id": workload.workload_id,
                    "replica_id": workload.replica_id,
                },
            },
            points=[
                {
                    "interval": {"end_time": {"seconds": seconds, "nanos": int((moment - seconds) * 1e9)}},
                    "value": value,
                }
            ],
        )


def points_of(found: GoodputReport, workload: Workload, parts: Collection[Part]) -> Iterator[Point]:
    """Yield the points for some parts of a report."""
    common = {"accelerator_type": workload.accelerator_type}
    if workload.cluster_name:
        common["cluster_name"] = workload.cluster_name
    if Part.GOODPUT in parts:
        yield from _cumulative(found, workload, common)
    if Part.DEVIATION in parts and found.deviation is not None:
        yield Point("step_time_deviation", found.deviation.summary(), common)
    if found.deviation is not None:  # has no labels besides those of the resource
        if Part.GOODPUT in parts:
            yield Point("performance", found.deviation.ideal, {})
        elif Part.DEVIATION in parts:
            yield Point("performance", float(found.deviation.absolute.mean()), {})
    if Part.WINDOWS in parts:
        for seconds, window in found.windows:
            yield from _interval(window, seconds, workload, common)


def _cumulative(found: GoodputReport, workload: Workload, common: dict[str, str]) -> Iterator[Point]:
    yield Point("goodput_time", float(found.productive_seconds), {"goodput_source": "TOTAL", **common})
    for source, seconds in _badput(found):
        yield Point("badput_time", seconds, {"badput_source": source, **common})
    yield Point("disruptions", found.disruptions, {**common, **CUMULATIVE})
    yield Point("max_productive_steps", found.max_productive_step, common)
    yield Point("total_elapsed_time", found.total_seconds, {**common, **CUMULATIVE})
    yield from _slices(found, workload, {**common, "window_type": "CUMULATIVE", "rolling_window_size": "0"})


def _interval(window: GoodputReport, seconds: float, workload: Workload, common: dict[str, str]) -> Iterator[Point]:
    """Yield the percentages of a rolling window, whose size is a label."""
    size = {"rolling_window_size": f"{seconds:.0f}"}
    scale = 100 / window.total_seconds
    yield Point("interval_goodput", window.productive_seconds * scale, {"goodput_source": "TOTAL", **common, **size})
    for source, spent in _badput(window):
        yield Point("interval_badput", spent * scale, {"badput_source": source, **common, **size})
    yield from _slices(window, workload, {**common, **size, "window_type": "INTERVAL"})


def _badput(found: GoodputReport) -> Iterator[tuple[str, float]]:
    for name, seconds in found.badput_seconds.items():
        if name != Bucket.DATA_LOADING_ASYNC:
            yield name.upper(), float(seconds)
    for name, seconds in found.custom_badput_seconds.items():
        yield f"CUSTOM_BADPUT_EVENTS.{name.upper()}", float(seconds)


def _slices(found: GoodputReport, workload: Workload, labels: dict[str, str]) -> Iterator[Point]:
    if workload.slice_efficiency and found.slice_efficiency is not None:
        stepping, available = found.slice_efficiency
        yield Point("stepping_slice_efficiency", stepping, labels)
        yield Point("available_slice_efficiency", available, labels)
