"""Sending goodput to Google Cloud Monitoring."""

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

SERIES_AT_ONCE = 200
"""The most series that the service takes in one request."""
SECONDS_APART = 5.0
"""The service takes no more than one point of a series in so many seconds."""
TIMEOUT = 10.0
"""Seconds that a request may take."""
UNKNOWN = "UNKNOWN"
"""The label of an accelerator that nobody named."""


@dataclass(frozen=True, slots=True)
class GCPOptions:
    """Where figures go in Google Cloud, and which. The names and their order are those of ml-goodput-measurement.

    The project, location and accelerator are found out from the machine's metadata server where they are not given.
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
                raise ConfigError(f"{name} is a switch: True or False, not {getattr(self, name)!r}")

    @classmethod
    def from_mapping(cls, options: dict[str, Any]) -> GCPOptions:
        """The same from keys and values; a ConfigError for a key that is none."""
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                raise ConfigError(f"{name!r} is no option of Cloud Monitoring; there are {', '.join(known)}")
        return cls(**options)

    @property
    def enabled(self) -> frozenset[Part]:
        """The parts of a report that may be sent."""
        goodput = {Part.GOODPUT, Part.WINDOWS} if self.enable_gcp_goodput_metrics else set()
        return frozenset(goodput | ({Part.DEVIATION} if self.enable_gcp_step_deviation_metrics else set()))

    def factory_spec(self, job_name: str) -> FactorySpec | None:
        """The exporter, for another process to make; None where everything is switched off."""
        if not self.enabled:
            return None
        arguments = {"job_name": job_name, "options": asdict(self)}
        return FactorySpec("ml_metrics.cloud.cloud_monitoring:CloudMonitoring", arguments)


class CloudMonitoring:
    """Sends reports of one job. The connection is made at the first of them.

    Args:
        job_name: The job: the `workload_id` of every series.
        options: Where, and what.
        slice_efficiency: Whether the slices of an elastic job are told, too.
        client: A `MetricServiceClient`; one with the default credentials if None.
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
        """Send some parts of a report, as far as they are enabled.

        Raises:
            StorageError: Something could not be sent. What could be is there.
        """
        wanted = self._options.enabled.intersection(parts)
        if not (found.found and wanted):
            return
        if self._workload is None:
            self._connect()
        assert self._workload is not None  # noqa: S101  (what _connect does)
        self._wait_for_turn(wanted)
        moment = time.time()
        series = [point.series(self._workload, moment) for point in points_of(found, self._workload, wanted)]
        self._last_sent.update(dict.fromkeys(wanted, time.monotonic()))
        troubles = list(self._refused(series))
        if troubles:
            raise StorageError(f"Cloud Monitoring of project {self._project}: {troubles[0]}")

    def _refused(self, series: list[Any]) -> Iterator[str]:
        """Send everything; what the service says where it does not take something."""
        from google.api_core.exceptions import GoogleAPIError

        for at in range(0, len(series), SERIES_AT_ONCE):
            try:
                self._client.create_time_series(
                    name=f"projects/{self._project}", time_series=series[at : at + SERIES_AT_ONCE], timeout=TIMEOUT
                )
            except GoogleAPIError as error:
                yield str(error)

    def _wait_for_turn(self, parts: Collection[Part]) -> None:
        last = max((self._last_sent[part] for part in parts if part in self._last_sent), default=None)
        if last is not None:
            time.sleep(max(0.0, last + SECONDS_APART - time.monotonic()))

    def _connect(self) -> None:
        """Find out what was not given. It may take seconds, which a training program does not have."""
        options = self._options
        project, location = options.project_id or metadata.project_id(), options.location or metadata.zone()
        if not (project and location):
            raise StorageError(
                "Cloud Monitoring: the project or location is not known here: name both, as project_id and location"
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
    """A client of the service, or of the server that stands in for it."""
    from google.auth.exceptions import GoogleAuthError
    from google.cloud import monitoring_v3
    from google.cloud.monitoring_v3.services.metric_service.transports import MetricServiceGrpcTransport

    channel = emulator_channel(MONITORING)
    if channel is not None:
        return monitoring_v3.MetricServiceClient(transport=MetricServiceGrpcTransport(channel=channel))
    try:
        return monitoring_v3.MetricServiceClient()
    except GoogleAuthError as error:
        raise StorageError(f"Cloud Monitoring: there are no credentials: {error}") from error
