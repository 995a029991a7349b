"""`CloudMonitoring`: sends goodput to Google Cloud Monitoring."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from ml_metrics.cloud import metadata
from ml_metrics.cloud.emulators import MONITORING, emulator_channel
from ml_metrics.cloud.series import Workload, points_of
from ml_metrics.errors import ConfigError, StorageError
from ml_metrics.goodput.report import Part
from ml_metrics.goodput.uploader import FactorySpec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ml_metrics.goodput.report import GoodputReport

MAX_SERIES_PER_REQUEST = 200
"""A limit of the service."""
MIN_INTERVAL_SECONDS = 5.0
"""The service accepts one point of a series per interval."""
TIMEOUT_SECONDS = 10.0
UNKNOWN = "UNKNOWN"
"""The label of an unknown accelerator."""


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
        """Return the options of a mapping. Raises ConfigError for an unknown key."""
        names = [field.name for field in fields(cls)]
        for name in options:
            if name not in names:
                raise ConfigError(f"{name!r} is not an option of Cloud Monitoring; available: {', '.join(names)}")
        return cls(**options)

    @property
    def enabled(self) -> frozenset[Part]:
        """The parts of a report that are sent."""
        goodput = {Part.GOODPUT, Part.WINDOWS} if self.enable_gcp_goodput_metrics else set()
        return frozenset(goodput | ({Part.DEVIATION} if self.enable_gcp_step_deviation_metrics else set()))

    def factory_spec(self, job_name: str) -> FactorySpec | None:
        """Return the recipe from which another process makes the exporter; None if all parts are disabled."""
        if not self.enabled:
            return None
        arguments = {"job_name": job_name, "options": asdict(self)}
        return FactorySpec("ml_metrics.cloud.cloud_monitoring:CloudMonitoring", arguments)


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
        """Send the enabled ones among some parts of a report.

        Raises:
            StorageError: Some series could not be sent. The others were.
        """
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
        """Send the series and yield the errors of the service."""
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
        project, location = options.project_id or metadata.project_id(), options.location or metadata.zone()
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
            accelerator_type=options.acc_type or metadata.accelerator_type() or UNKNOWN,
            cluster_name=options.cluster_name,
            slice_efficiency=self._slice_efficiency,
        )


def metric_client() -> Any:
    """Return a client of the service or its emulator."""
    from google.auth.exceptions import GoogleAuthError
    from google.cloud import monitoring_v3
    from google.cloud.monitoring_v3.services.metric_service.transports import MetricServiceGrpcTransport

    channel = emulator_channel(MONITORING)
    if channel is not None:
        return monitoring_v3.MetricServiceClient(transport=MetricServiceGrpcTransport(channel=channel))
    try:
        return monitoring_v3.MetricServiceClient()
    except GoogleAuthError as error:
        raise StorageError(f"Cloud Monitoring: no credentials: {error}") from error
