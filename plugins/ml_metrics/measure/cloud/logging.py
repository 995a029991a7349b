"""Cloud Logging: the entries of a goodput log, read and written; and the clients of all Google services."""

from __future__ import annotations

import json
import logging
import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from ml_metrics.core.errors import StorageError
from ml_metrics.core.extras import require
from ml_metrics.core.values import as_utc
from ml_metrics.measure.goodput.monitor import FactorySpec
from ml_metrics_telemetry.destinations import writer_name
from ml_metrics_telemetry.record_log import RecordLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ml_metrics.measure.goodput.log import Entries, EntriesBuilder


def connect(service: str, client: Any, transport: Any, emulator: str) -> Any:
    """Return a client of a service, or of the emulator at the `host:port` in an environment variable."""
    from google.auth.exceptions import GoogleAuthError

    if host := os.environ.get(emulator):
        import grpc  # type: ignore[import-untyped]  # it ships no types

        return client(transport=transport(channel=grpc.insecure_channel(host)))
    try:
        return client()
    except GoogleAuthError as error:
        raise StorageError(f"{service}: no credentials: {error}") from error


logger = logging.getLogger(__name__)

BATCH_SIZE = 500
"""Entries per request, whose maximum size is 10 MB."""
RETRY_TIMEOUT_SECONDS = 600.0
"""How long the request for a page is retried while the service is busy."""
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


class LogName(NamedTuple):
    """A log of a project."""

    project: str
    log: str

    def __str__(self) -> str:
        return f"projects/{self.project}/logs/{quote(self.log, safe='')}"


class LoggedEntry(NamedTuple):
    """An entry of a log."""

    id: str
    """The `insertId`. The service keeps one of several entries with the same id and time."""
    time: datetime
    payload: dict[str, Any]


def filter_of(
    name: LogName, job_name: str, start: datetime, end: datetime | None = None, after: str | None = None
) -> str:
    """Return the filter for the entries of a job after a time, or at that time and after an id."""
    since = f'timestamp>"{_timestamp(start)}"'
    if after is not None:
        since = f'({since} OR (timestamp="{_timestamp(start)}" AND insertId>{_quoted(after)}))'
    until = [] if end is None else [f'timestamp<="{_timestamp(end)}"']
    terms = [f"logName={_quoted(str(name))}", "severity=INFO", f"jsonPayload.job_name={_quoted(job_name)}"]
    return " AND ".join([*terms, *until, since])


def entries_of(client: Any, name: LogName, query: str) -> Iterator[list[LoggedEntry]]:
    """Ordered by time, page by page. Raises StorageError if rejected, or unavailable for too long."""
    from google.api_core import exceptions, retry

    retry_if_busy = retry.Retry(
        predicate=retry.if_exception_type(
            exceptions.ResourceExhausted, exceptions.ServiceUnavailable, exceptions.InternalServerError
        ),
        initial=1.0,
        maximum=30.0,
        timeout=RETRY_TIMEOUT_SECONDS,
    )
    request = {
        "resource_names": [f"projects/{name.project}"],
        "filter": query,
        "order_by": "timestamp asc",
        "page_size": 1000,  # the most that the service returns
    }
    try:
        for page in client.list_log_entries(request=request, retry=retry_if_busy, timeout=60.0).pages:
            raw = [(entry, type(entry).pb(entry).json_payload) for entry in page.entries]
            yield [LoggedEntry(entry.insert_id, entry.timestamp, _fields(payload)) for entry, payload in raw]
    except (exceptions.GoogleAPIError, OSError) as error:
        raise StorageError(f"{name}: cannot be read from Cloud Logging: {error}") from error


def _timestamp(moment: datetime) -> str:
    """Return a time for a filter, with nanoseconds if it comes from an entry. A naive time is UTC."""
    exact = getattr(moment, "rfc3339", None)
    return as_utc(moment).isoformat() if exact is None else str(exact())


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _fields(struct: Any) -> dict[str, Any]:
    return {key: _plain(value) for key, value in struct.fields.items()}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _fields(value.struct_value)
    if kind == "list_value":
        return [_plain(one) for one in value.list_value.values]
    return None if kind in {"null_value", None} else getattr(value, kind)


class LogBatches:
    """A destination of records: lines of `[time, entry]` are sent as entries of a log.

    Each entry has a unique id, so that a batch whose response was lost can be sent again without duplicates.
    """

    interval = 0.5
    remote = True

    def __init__(self, connect: Callable[[], tuple[Any, LogName]]) -> None:
        self._connect = connect
        self._connected: tuple[Any, LogName] | None = None
        self._writer = writer_name()
        self._written = 0
        """The number of records in all completed writes."""
        self._sent = 0
        """The number of records of the current write that were sent: a retry continues there."""

    def write(self, data: bytes) -> None:
        """Send all lines. After an error, writing the same data again continues where it stopped."""
        if self._connected is None:
            self._connected = self._connect()
        client, name = self._connected
        lines = data.splitlines()
        while batch := lines[self._sent : self._sent + BATCH_SIZE]:
            self._send(client, name, batch)
            self._sent += len(batch)
        self._written += len(lines)
        self._sent = 0

    def after_fork(self) -> None:
        """Connect again, and write under another name: the connection and the name belong to the parent process."""
        self._connected, self._writer = None, writer_name()
        self._written = self._sent = 0

    def close(self) -> None:
        """Do nothing: no resource stays open between writes."""

    def __str__(self) -> str:
        return "Cloud Logging" if self._connected is None else str(self._connected[1])

    def _send(self, client: Any, name: LogName, batch: list[bytes]) -> None:
        from google.api_core import exceptions
        from google.cloud.logging_v2.types import LogEntry

        request = {
            "log_name": str(name),
            "resource": {"type": "global", "labels": {"project_id": name.project}},
            "entries": [
                LogEntry(
                    insert_id=f"{self._writer}-{number:012d}",
                    timestamp=datetime.fromtimestamp(moment, UTC),
                    severity="INFO",
                    json_payload=payload,
                )
                for number, (moment, payload) in enumerate(map(json.loads, batch), self._written + self._sent)
            ],
            "partial_success": True,
        }
        try:
            client.write_log_entries(request=request, timeout=10.0)
        except exceptions.InvalidArgument as error:  # retrying would not help; the valid entries are stored
            logger.warning("%s rejected entries, which are lost: %s", name, error)


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
        self._log = RecordLog(LogBatches(self._connected), lambda one: json.dumps(one, default=str).encode() + b"\n")
        self._builder: EntriesBuilder | None = None
        self._newest: datetime | None = None
        self._seen: dict[tuple[datetime, str], None] = {}

    @classmethod
    def at(cls, address: str, job_name: str) -> CloudLogger:
        """Raises StorageError unless the address is `cloud-logging://project/log`."""
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
        """After the first call, only new entries are requested."""
        from ml_metrics.measure.goodput.log import EntriesBuilder

        if self._builder is None:
            self._builder = EntriesBuilder(self.job_name)
        for page in self._pages(None if self._newest is None else self._newest - MAX_DELAY):
            self._builder.add(entry.payload for entry in page if (entry.time, entry.id) not in self._seen)
            self._remember(page)
        return self._builder.build()

    def factory_spec(self, job_name: str) -> FactorySpec:
        arguments = {"job_name": job_name, "log_name": self.log_name, "project_id": self.project_id}
        return FactorySpec("ml_metrics.measure.cloud.logging:CloudLogger", arguments)

    def _remember(self, page: list[LoggedEntry]) -> None:
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
        """Connects on first use: loading credentials may take seconds."""
        if self._client is None:
            require("google", "Cloud Logging", "google.cloud.logging_v2")
            from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client as Client
            from google.cloud.logging_v2.services.logging_service_v2.transports import LoggingServiceV2GrpcTransport

            self._client = connect("Cloud Logging", Client, LoggingServiceV2GrpcTransport, "LOGGING_EMULATOR_HOST")
        if self.project_id is None:
            self.project_id = _default_project()
        return self._client, LogName(self.project_id, self.log_name)


def _default_project() -> str:
    import google.auth

    try:
        project = google.auth.default()[1]
    except google.auth.exceptions.GoogleAuthError as error:
        raise StorageError(f"Cloud Logging: no project: {error}") from error
    if not project:
        raise StorageError("Cloud Logging: no project is given, and the default credentials have none")
    return str(project)
