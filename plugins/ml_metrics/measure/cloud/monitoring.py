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

    def series(self, name: str, value: float, labels: dict[str, str], moment: float) -> Any:
        from google.cloud import monitoring_v3

        seconds = int(moment)
        at = {"end_time": {"seconds": seconds, "nanos": int((moment - seconds) * 1e9)}}
        resource = {name: getattr(self, name) for name in ("location", "workload_id", "replica_id")}
        kind = "int64_value" if type(value) is int else "double_value"
        return monitoring_v3.TimeSeries(
            metric={"type": METRIC + name, "labels": labels},
            resource={"type": RESOURCE, "labels": resource},
            points=[{"interval": at, "value": {kind: value}}],
        )

    def points(self, found: GoodputReport, parts: Collection[Part]) -> Iterator[tuple[str, float, dict[str, str]]]:
        """Yield the name, a value and the labels of each series."""
        common = {"accelerator_type": self.accelerator_type}
        if self.cluster_name:
            common["cluster_name"] = self.cluster_name
        if Part.GOODPUT in parts:
            cumulative = {**common, "window_type": "cumulative"}
            yield "goodput_time", float(found.productive_seconds), {"goodput_source": "TOTAL", **common}
            for source, seconds in _badput(found):
                yield "badput_time", seconds, {"badput_source": source, **common}
            yield "disruptions", found.disruptions, cumulative
            yield "max_productive_steps", found.max_productive_step, common
            yield "total_elapsed_time", found.total_seconds, cumulative
            yield from self._slices(found, {**common, "window_type": "CUMULATIVE", "rolling_window_size": "0"})
        if found.deviation is not None:
            if Part.DEVIATION in parts:
                yield "step_time_deviation", found.deviation.summary(), common
            # has no labels besides those of the resource
            if Part.GOODPUT in parts:
                yield "performance", found.deviation.ideal, {}
            elif Part.DEVIATION in parts:
                yield "performance", float(found.deviation.absolute.mean()), {}
        for size, window in found.windows if Part.WINDOWS in parts else ():
            scale, labels = 100 / window.total_seconds, {**common, "rolling_window_size": f"{size:.0f}"}
            yield "interval_goodput", window.productive_seconds * scale, {"goodput_source": "TOTAL", **labels}
            for source, spent in _badput(window):
                yield "interval_badput", spent * scale, {"badput_source": source, **labels}
            yield from self._slices(window, {**labels, "window_type": "INTERVAL"})

    def _slices(self, found: GoodputReport, labels: dict[str, str]) -> Iterator[tuple[str, float, dict[str, str]]]:
        if self.slice_efficiency and found.slice_efficiency is not None:
            for name, share in zip(("stepping", "available"), found.slice_efficiency, strict=True):
                yield f"{name}_slice_efficiency", share, labels


def _badput(found: GoodputReport) -> Iterator[tuple[str, float]]:
    for name, seconds in found.badput_seconds.items():
        if name != Bucket.DATA_LOADING_ASYNC:
            yield name.upper(), float(seconds)
    for name, seconds in found.custom_badput_seconds.items():
        yield f"CUSTOM_BADPUT_EVENTS.{name.upper()}", float(seconds)


MAX_SERIES_PER_REQUEST = 200
"""A limit of the service."""
MIN_INTERVAL_SECONDS = 5.0
"""The service accepts one point of a series per interval."""
TIMEOUT_SECONDS = 10.0
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
        workload = self._workload or self._connect()
        last = max((self._last_sent[part] for part in wanted if part in self._last_sent), default=None)
        if last is not None:
            time.sleep(max(0.0, last + MIN_INTERVAL_SECONDS - time.monotonic()))
        moment = time.time()
        series = [workload.series(*point, moment) for point in workload.points(found, wanted)]
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

    def _connect(self) -> Workload:
        """Look up missing options. This can take seconds: too long for a constructor in a training program."""
        options = self._options
        project = options.project_id or _metadata("project/project-id")
        location = options.location or _metadata("instance/zone")
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
            accelerator_type=options.acc_type or _accelerator_type() or "UNKNOWN",
            cluster_name=options.cluster_name,
            slice_efficiency=self._slice_efficiency,
        )
        return self._workload


def metric_client() -> Any:
    require("google", "Cloud Monitoring", "google.cloud.monitoring_v3")
    from google.cloud.monitoring_v3 import MetricServiceClient
    from google.cloud.monitoring_v3.services.metric_service.transports import MetricServiceGrpcTransport

    return connect("Cloud Monitoring", MetricServiceClient, MetricServiceGrpcTransport, "MONITORING_EMULATOR_HOST")


def _accelerator_type() -> str | None:
    """Return the accelerator of this machine, if its machine type determines it."""
    machine = (_metadata("instance/machine-type") or "").lower()
    return next((kind for part, kind in _ACCELERATORS.items() if part in machine), None)


def _metadata(path: str) -> str | None:
    """Return the last part of a name: `a3-highgpu-8g` for `projects/123/machineTypes/a3-highgpu-8g`."""
    host = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"  # as Google's libraries are configured
    address = f"http://{host}/computeMetadata/v1/{path}"
    request = urllib.request.Request(address, headers={"Metadata-Flavor": "Google"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the server is never behind a proxy
    try:
        with opener.open(request, timeout=3.0) as answer:
            return str(answer.read(1024).decode().strip().rpartition("/")[2]) or None
    except (OSError, ValueError):  # no metadata server: this machine is not in Google Cloud
        return None
