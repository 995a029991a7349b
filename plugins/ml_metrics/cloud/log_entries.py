"""Writing and reading the goodput entries of a job in Google Cloud Logging.

Filters always contain a time: without one, the high-level client of Google reads one day, and ml-goodput-measurement
seven. A page has up to a thousand entries and a project can read sixty pages a minute, so requests beyond the quota are
retried. Numbers are returned as floats.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ml_metrics.errors import StorageError
from ml_metrics.values import as_utc
from ml_metrics_telemetry.destinations import writer_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

logger = logging.getLogger(__name__)

BATCH_SIZE = 500
"""Entries per request, whose maximum size is 10 MB."""
WRITE_TIMEOUT_SECONDS = 10.0
MAX_PAGE_SIZE = 1000
"""A limit of the service."""
RETRY_TIMEOUT_SECONDS = 600.0
"""How long the request for a page is retried while the service is busy."""
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LogName:
    """A log of a project."""

    project: str
    log: str

    def __str__(self) -> str:
        return f"projects/{self.project}/logs/{quote(self.log, safe='')}"


@dataclass(frozen=True, slots=True)
class LoggedEntry:
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
    return " AND ".join(
        [
            f"logName={_quoted(str(name))}",
            "severity=INFO",
            f"jsonPayload.job_name={_quoted(job_name)}",
            *([f'timestamp<="{_timestamp(end)}"'] if end is not None else []),
            since,
        ]
    )


def entries_of(client: Any, name: LogName, query: str) -> Iterator[list[LoggedEntry]]:
    """Yield the entries that match a filter, ordered by time, page by page.

    Raises:
        StorageError: The service rejected the request, or was unavailable for too long.
    """
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
        "page_size": MAX_PAGE_SIZE,
    }
    try:
        for page in client.list_log_entries(request=request, retry=retry_if_busy, timeout=60.0).pages:
            yield [_logged(entry) for entry in page.entries]
    except (exceptions.GoogleAPIError, OSError) as error:
        raise StorageError(f"{name}: cannot be read from Cloud Logging: {error}") from error


def _timestamp(moment: datetime) -> str:
    """Return a time for a filter, with nanoseconds if it comes from an entry. A naive time is UTC."""
    exact = getattr(moment, "rfc3339", None)
    if exact is not None:
        return str(exact())
    return as_utc(moment).isoformat()


def _quoted(text: str) -> str:
    """Quote a text for the query language."""
    return json.dumps(text, ensure_ascii=False)


def _logged(entry: Any) -> LoggedEntry:
    raw = type(entry).pb(entry)
    return LoggedEntry(entry.insert_id, entry.timestamp, _plain_fields(raw.json_payload))


def _plain_fields(struct: Any) -> dict[str, Any]:
    return {key: _plain(value) for key, value in struct.fields.items()}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _plain_fields(value.struct_value)
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
        while self._sent < len(lines):
            batch = lines[self._sent : self._sent + BATCH_SIZE]
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

        first = self._written + self._sent
        entries = []
        for number, line in enumerate(batch, first):
            moment, payload = json.loads(line)
            entries.append(
                LogEntry(
                    insert_id=f"{self._writer}-{number:012d}",
                    timestamp=datetime.fromtimestamp(moment, UTC),
                    severity="INFO",
                    json_payload=payload,
                )
            )
        request = {
            "log_name": str(name),
            "resource": {"type": "global", "labels": {"project_id": name.project}},
            "entries": entries,
            "partial_success": True,
        }
        try:
            client.write_log_entries(request=request, timeout=WRITE_TIMEOUT_SECONDS)
        except exceptions.InvalidArgument as error:  # retrying would not help; the valid entries are stored
            logger.warning("%s rejected entries, which are lost: %s", name, error)
