"""Goodput as time series of Google Cloud Monitoring, with the names and labels of ml-goodput-measurement.

Each series is the gauge `compute.googleapis.com/workload/<name>` of a resource `compute.googleapis.com/Workload`.
Asynchronous data loading is not badput and is not sent.
"""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import ConfigError, StorageError
from ml_metrics.core.extras import require
from ml_metrics.measure.cloud.logging import connect
from ml_metrics.measure.goodput.monitor import FactorySpec
from ml_metrics.measure.goodput.report import Bucket, Part

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ml_metrics.measure.goodput.report import GoodputReport


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


MAX_SERIES_PER_REQUEST = 200
"""A limit of the service."""
MIN_INTERVAL_SECONDS = 5.0
"""The service accepts one point of a series per interval."""
TIMEOUT_SECONDS = 10.0
METADATA_HOST = "GCE_METADATA_HOST"
"""The environment variable with which Google's libraries configure another metadata server."""
METADATA_TIMEOUT_SECONDS = 3.0
UNKNOWN = "UNKNOWN"
"""The label of an unknown accelerator."""
_ACCELERATORS = {
    "tpu7x": "TPU-7x",
    "ct6e": "TPU-v6e",
    "ct5p": "TPU-v5p",
    "ct5lp": "TPU-v5e",
    "ct5l": "TPU-v5e",
    "ct4p": "TPU-v4p",
    "ct3p": "TPU-v3",
    "ct3": "TPU-v3",
    "a3-edgegpu": "NVIDIA-H100",
    "a3-highgpu": "NVIDIA-H100",
    "a3-megagpu": "NVIDIA-H100",
    "a3-ultragpu": "NVIDIA-H200",
    "a2": "NVIDIA-A100",
}
"""The names of accelerators in ml-goodput-measurement, by a part of the machine type."""


@dataclass(frozen=True, slots=True)
class GCPOptions:
    """Which series are sent to Google Cloud, and their labels. Names and order are those of ml-goodput-measurement.

    Missing values of project, location and accelerator are requested from the metadata server of the machine.
    """

    project_id: str | None = None
    location: str | None = None
    replica_id: str = "0"
    acc_type: str | None = None
    cluster_name: str | None = None
    enable_gcp_goodput_metrics: bool = True
    enable_gcp_step_deviation_metrics: bool = True

    def __post_init__(self) -> None:
        for name in ("enable_gcp_goodput_metrics", "enable_gcp_step_deviation_metrics"):
            if not isinstance(getattr(self, name), bool):  # a text "False" would be true
                raise ConfigError(f"{name} must be True or False, not {getattr(self, name)!r}")

    @classmethod
    def from_mapping(cls, options: dict[str, Any]) -> GCPOptions:
        """Raises ConfigError for an unknown key."""
        names = [field.name for field in fields(cls)]
        for name in options:
            if name not in names:
                raise ConfigError(f"{name!r} is not an option of Cloud Monitoring; available: {', '.join(names)}")
        return cls(**options)

    @property
    def enabled(self) -> frozenset[Part]:
        goodput = {Part.GOODPUT, Part.WINDOWS} if self.enable_gcp_goodput_metrics else set()
        return frozenset(goodput | ({Part.DEVIATION} if self.enable_gcp_step_deviation_metrics else set()))

    def factory_spec(self, job_name: str) -> FactorySpec | None:
        """None if all parts are disabled."""
        if not self.enabled:
            return None
        arguments = {"job_name": job_name, "options": asdict(self)}
        return FactorySpec("ml_metrics.measure.cloud.monitoring:CloudMonitoring", arguments)


class CloudMonitoring:
    """Sends the reports of one job. It connects with the first report.

    Args:
        job_name: The job: the `workload_id` of every series.
        options: What is sent, and its labels.
        slice_efficiency: Whether the slice efficiency of an elastic job is sent.
        client: A `MetricServiceClient`. Default: one with the default credentials.
    """

    def __init__(
        self,
        job_name: str,
        options: GCPOptions | dict[str, Any],
        *,
        slice_efficiency: bool = False,
        client: Any = None,
    ) -> None:
        self._job_name = job_name
        self._options = GCPOptions.from_mapping(options) if isinstance(options, dict) else options
        self._slice_efficiency = slice_efficiency
        self._client = client
        self._workload: Workload | None = None
        self._project = ""
        self._last_sent: dict[Part, float] = {}

    def write(self, found: GoodputReport, parts: Collection[Part]) -> None:
        """Send those that are enabled. Raises StorageError if some series could not be sent; the others were."""
        wanted = self._options.enabled.intersection(parts)
        if not (found.found and wanted):
            return
        if self._workload is None:
            self._connect()
        assert self._workload is not None  # noqa: S101  (set by _connect)
        self._wait_for_turn(wanted)
        moment = time.time()
        series = [point.series(self._workload, moment) for point in points_of(found, self._workload, wanted)]
        self._last_sent.update(dict.fromkeys(wanted, time.monotonic()))
        errors = list(self._send(series))
        if errors:
            raise StorageError(f"Cloud Monitoring of project {self._project}: {errors[0]}")

    def _send(self, series: list[Any]) -> Iterator[str]:
        """Yields the errors of the service."""
        from google.api_core.exceptions import GoogleAPIError

        for at in range(0, len(series), MAX_SERIES_PER_REQUEST):
            try:
                self._client.create_time_series(
                    name=f"projects/{self._project}",
                    time_series=series[at : at + MAX_SERIES_PER_REQUEST],
                    timeout=TIMEOUT_SECONDS,
                )
            except GoogleAPIError as error:
                yield str(error)

    def _wait_for_turn(self, parts: Collection[Part]) -> None:
        last = max((self._last_sent[part] for part in parts if part in self._last_sent), default=None)
        if last is not None:
            time.sleep(max(0.0, last + MIN_INTERVAL_SECONDS - time.monotonic()))

    def _connect(self) -> None:
        """Look up missing options. This can take seconds: too long for a constructor in a training program."""
        options = self._options
        project, location = (
            options.project_id or _metadata("project/project-id"),
            options.location or _last(_metadata("instance/zone")),
        )
        if not (project and location):
            raise StorageError(
                "Cloud Monitoring: the project or location is unknown: give both, as project_id and location"
            )
        if self._client is None:
            self._client = metric_client()
        self._project = project
        self._workload = Workload(
            workload_id=self._job_name,
            location=location,
            replica_id=options.replica_id,
            accelerator_type=options.acc_type or _accelerator_type() or UNKNOWN,
            cluster_name=options.cluster_name,
            slice_efficiency=self._slice_efficiency,
        )


def metric_client() -> Any:
    require("google", "Cloud Monitoring", "google.cloud.monitoring_v3")
    from google.cloud.monitoring_v3 import MetricServiceClient
    from google.cloud.monitoring_v3.services.metric_service.transports import MetricServiceGrpcTransport

    return connect("Cloud Monitoring", MetricServiceClient, MetricServiceGrpcTransport, "MONITORING_EMULATOR_HOST")


def _accelerator_type() -> str | None:
    """Return the accelerator of this machine, if its machine type determines it."""
    machine = (_last(_metadata("instance/machine-type")) or "").lower()
    return next((kind for part, kind in _ACCELERATORS.items() if part in machine), None)


def _metadata(path: str) -> str | None:
    address = f"http://{os.environ.get(METADATA_HOST) or 'metadata.google.internal'}/computeMetadata/v1/{path}"
    request = urllib.request.Request(address, headers={"Metadata-Flavor": "Google"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the server is never behind a proxy
    try:
        with opener.open(request, timeout=METADATA_TIMEOUT_SECONDS) as answer:
            return str(answer.read(1024).decode().strip()) or None
    except (OSError, ValueError):  # no metadata server: this machine is not in Google Cloud
        return None


def _last(text: str | None) -> str | None:
    """Return `a3-highgpu-8g` for `projects/123/machineTypes/a3-highgpu-8g`."""
    return text.rpartition("/")[2] if text else None
