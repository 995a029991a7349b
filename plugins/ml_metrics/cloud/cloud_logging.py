"""`CloudLogger`: goodput entries in Google Cloud Logging instead of a file, for the recorder and the calculator."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ml_metrics.cloud.clients import connect
from ml_metrics.cloud.log_entries import EARLIEST, LogBatches, LogName, entries_of, filter_of
from ml_metrics.errors import StorageError
from ml_metrics.extras import require
from ml_metrics.goodput.uploader import FactorySpec
from ml_metrics_telemetry.record_log import RecordLog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.cloud.log_entries import LoggedEntry
    from ml_metrics.goodput.entries import Entries, EntriesBuilder

SCHEME = "cloud-logging://"
MAX_DELAY = timedelta(seconds=60)
"""How much later than its successors an entry may become visible. This period is read again each time."""


class CloudLogger:
    """Writes and reads the entries of one job, compatible with ml-goodput-measurement.

    Args:
        job_name: The job. Entries of other jobs are ignored.
        log_name: The name of the log, `logger_name` in ml-goodput-measurement.
        project_id: The project. Default: that of the default credentials.
        max_logs_retention_period: The maximum age of entries that are read. Default: unlimited.
        client: A `LoggingServiceV2Client`. Default: one with the default credentials.
    """

    def __init__(
        self,
        job_name: str,
        log_name: str,
        project_id: str | None = None,
        max_logs_retention_period: timedelta | None = None,
        *,
        client: Any = None,
    ) -> None:
        self.job_name = job_name
        self.log_name = log_name
        self.project_id = project_id
        self._retention = max_logs_retention_period
        self._client = client
        self._log = RecordLog(LogBatches(self._connected), _render)
        self._builder: EntriesBuilder | None = None
        self._newest: datetime | None = None
        self._seen: dict[tuple[datetime, str], None] = {}

    @classmethod
    def at(cls, address: str, job_name: str) -> CloudLogger:
        """Return the log at `cloud-logging://project/log`. Raises StorageError for another address."""
        project, _, log = address.removeprefix(SCHEME).partition("/")
        if not (address.startswith(SCHEME) and project and log):
            raise StorageError(f"{address}: is not a log; write {SCHEME}PROJECT/LOG")
        return cls(job_name, log, project)

    def write_cloud_logging_entry(self, entry: dict[str, Any] | None) -> None:
        """Queue an entry, which a thread sends. Entries of other jobs are ignored."""
        if entry is not None and entry.get("job_name") == self.job_name:
            self._log.put((time.time(), entry))

    def flush(self) -> None:
        """Wait until all entries are sent, at most ten seconds."""
        self._log.flush()

    def read_cloud_logging_entries(
        self,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        last_entry_info: tuple[datetime, str] | None = None,
    ) -> tuple[list[dict[str, Any]], tuple[datetime | None, str | None]]:
        """Return the entries of the job in a period, ordered by time, and the time and id of the last one.

        Args:
            start_time: Exclude entries up to this time.
            end_time: Exclude entries after this time.
            last_entry_info: Return only entries after this one, as returned by the previous call.
        """
        start, after = last_entry_info or (start_time, None)
        found = [entry for page in self._pages(start, end_time, after) for entry in page]
        last = (found[-1].time, found[-1].id) if found else (None, None)
        return [entry.payload for entry in found], last

    def read(self) -> Entries:
        """Return all entries of the log. After the first call, only new ones are requested."""
        from ml_metrics.goodput.entries import EntriesBuilder

        if self._builder is None:
            self._builder = EntriesBuilder(self.job_name)
        for page in self._pages(None if self._newest is None else self._newest - MAX_DELAY):
            self._builder.add(entry.payload for entry in page if (entry.time, entry.id) not in self._seen)
            self._remember(page)
        return self._builder.build()

    def factory_spec(self, job_name: str) -> FactorySpec:
        """Return the recipe from which another process makes this reader."""
        arguments = {"job_name": job_name, "log_name": self.log_name, "project_id": self.project_id}
        return FactorySpec("ml_metrics.cloud.cloud_logging:CloudLogger", arguments)

    def _remember(self, page: list[LoggedEntry]) -> None:
        """Remember the entries that may be read again."""
        if not page:
            return
        self._newest = max(page[-1].time, self._newest or EARLIEST)
        seen = [*self._seen, *((entry.time, entry.id) for entry in page)]
        self._seen = dict.fromkeys(one for one in seen if one[0] >= self._newest - MAX_DELAY)

    def _pages(
        self, start: datetime | None, end: datetime | None = None, after: str | None = None
    ) -> Iterator[list[LoggedEntry]]:
        client, name = self._connected()
        if start is None:
            start = EARLIEST if self._retention is None else (end or datetime.now(UTC)) - self._retention
        return entries_of(client, name, filter_of(name, self.job_name, start, end, after))

    def _connected(self) -> tuple[Any, LogName]:
        """Return the client and the log, connecting on first use: loading credentials may take seconds."""
        if self._client is None:
            self._client = _client()
        if self.project_id is None:
            self.project_id = _default_project()
        return self._client, LogName(self.project_id, self.log_name)


def _render(record: tuple[float, dict[str, Any]]) -> bytes:
    return json.dumps(record, default=str).encode() + b"\n"


def _client() -> Any:
    require("google", "Cloud Logging", "google.cloud.logging_v2")
    from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client
    from google.cloud.logging_v2.services.logging_service_v2.transports import LoggingServiceV2GrpcTransport

    return connect("Cloud Logging", LoggingServiceV2Client, LoggingServiceV2GrpcTransport, "LOGGING_EMULATOR_HOST")


def _default_project() -> str:
    import google.auth

    try:
        project = google.auth.default()[1]
    except google.auth.exceptions.GoogleAuthError as error:
        raise StorageError(f"Cloud Logging: no project: {error}") from error
    if not project:
        raise StorageError("Cloud Logging: no project is given, and the default credentials have none")
    return str(project)
