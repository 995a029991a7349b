"""Reading the goodput entries of a job from Google Cloud Logging.

Three traps lie in its way. The ordinary client looks back one day where a filter names no time, and
ml-goodput-measurement seven: here there is no such limit unless one is asked for. A page holds a thousand entries, and
a project may read sixty pages a minute: what is refused for that is asked for again. And numbers come as floats.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ml_metrics.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = 1000
"""The most entries that the service puts on a page."""
PATIENCE = 600.0
"""For so many seconds a page is asked for again while the service is busy."""
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LogName:
    """Which log of which project."""

    project: str
    log: str

    def __str__(self) -> str:
        return f"projects/{self.project}/logs/{quote(self.log, safe='')}"


@dataclass(frozen=True, slots=True)
class LoggedEntry:
    """One entry of a log."""

    id: str
    """Its `insertId`: of two entries with the same one and the same time, the service keeps one."""
    time: datetime
    payload: dict[str, Any]


def filter_of(
    name: LogName, job_name: str, start: datetime, end: datetime | None = None, after: str | None = None
) -> str:
    """The entries of a job that the older library's recorder writes, later than a time, or at it and behind an id."""
    since = f'timestamp>"{written(start)}"'
    if after is not None:
        since = f'({since} OR (timestamp="{written(start)}" AND insertId>{_quoted(after)}))'
    return " AND ".join(
        [
            f"logName={_quoted(str(name))}",
            "severity=INFO",
            f"jsonPayload.job_name={_quoted(job_name)}",
            *([f'timestamp<="{written(end)}"'] if end is not None else []),
            since,
        ]
    )


def entries_of(client: Any, name: LogName, asked: str) -> Iterator[list[LoggedEntry]]:
    """All entries that match a filter, by their times, page by page.

    Raises:
        StorageError: The service refuses, or does not answer for long.
    """
    from google.api_core import exceptions, retry

    busy = retry.Retry(
        predicate=retry.if_exception_type(
            exceptions.ResourceExhausted, exceptions.ServiceUnavailable, exceptions.InternalServerError
        ),
        initial=1.0,
        maximum=30.0,
        timeout=PATIENCE,
    )
    request = {
        "resource_names": [f"projects/{name.project}"],
        "filter": asked,
        "order_by": "timestamp asc",
        "page_size": PAGE,
    }
    try:
        for page in client.list_log_entries(request=request, retry=busy, timeout=60.0).pages:
            yield [_logged(entry) for entry in page.entries]
    except (exceptions.GoogleAPIError, OSError) as error:
        raise StorageError(f"{name}: cannot be read from Cloud Logging: {error}") from error


def written(moment: datetime) -> str:
    """A time as filters want it, to the nanosecond where it is known so well. One without a zone is UTC."""
    exact = getattr(moment, "rfc3339", None)
    if exact is not None:
        return str(exact())
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _quoted(text: str) -> str:
    """A text of the query language, in which a name can do no harm."""
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
