"""Reading the goodput entries of a job from Google Cloud Logging.

Filters always contain a time: without one, the high-level client of Google reads one day, and ml-goodput-measurement
seven. A page has up to a thousand entries and a project can read sixty pages a minute, so requests beyond the quota are
retried. Numbers are returned as floats.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ml_metrics.errors import StorageError
from ml_metrics.values import as_utc

if TYPE_CHECKING:
    from collections.abc import Iterator

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
