"""Parse the query parameters of a page's address. They are untrusted input; a bad one is reported by name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from ml_metrics.errors import MlMetricsError
from ml_metrics.values import end_of_day, start_of_day

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_DAYS = 30
MAX_DAYS = 366
"""The most day columns of the heatmap. Charts may span more days."""
EARLIEST, LATEST = date(1970, 1, 2), date(2200, 1, 1)
MAX_LENGTH = 300
"""The most characters of one value; the name of a test or a metric is shorter."""


class BadQueryError(MlMetricsError):
    """A query parameter is missing or cannot be used."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of days in a time zone, both ends included."""

    first: date
    last: date
    zone: ZoneInfo

    @property
    def since(self) -> datetime:
        """The start of the first day."""
        return start_of_day(self.first, self.zone)

    @property
    def until(self) -> datetime:
        """The end of the last day."""
        return end_of_day(self.last, self.zone)

    @property
    def days(self) -> int:
        """The number of days."""
        return (self.last - self.first).days + 1

    @property
    def is_utc(self) -> bool:
        """Whether the days are days in UTC."""
        return self.zone.key == "UTC"

    def local(self, moment: datetime) -> datetime:
        """Convert a time to the time zone of the span."""
        return moment.astimezone(self.zone)

    def newest(self, days: int) -> Span:
        """Return the newest days of the span, at most this many."""
        return self if self.days <= days else Span(self.last - timedelta(days=days - 1), self.last, self.zone)


def span_of(query: Mapping[str, str], now: datetime, days: int = DEFAULT_DAYS) -> Span:
    """Return the days between `since` and `until` in the time zone `tz`; by default the newest `days`."""
    zone = _zone(query.get("tz", "") or "UTC")
    last = _day(query, "until") or now.astimezone(zone).date()
    first = _day(query, "since") or max(EARLIEST, last - timedelta(days=days - 1))
    if first > last:
        raise BadQueryError(f"since={first} is after until={last}.")
    return Span(first, last, zone)


def text(query: Mapping[str, str], name: str, max_length: int = MAX_LENGTH) -> str:
    """Return a parameter, or an empty string."""
    value = query.get(name, "")
    if len(value) > max_length:
        raise BadQueryError(f"{name} is longer than {max_length:,} characters.")
    return value


def required(query: Mapping[str, str], name: str) -> str:
    """Return a parameter that the page needs."""
    if value := text(query, name):
        return value
    raise BadQueryError(f"The parameter {name} is missing.")


def choice(query: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """Return a parameter that must be one of some values; by default the first."""
    value = text(query, name) or choices[0]
    if value not in choices:
        raise BadQueryError(f"{name}={value!r} is not one of {', '.join(filter(None, choices))}.")
    return value


def whole_number(query: Mapping[str, str], name: str, default: int, maximum: int) -> int:
    """Return a parameter that must be a whole number of at least 1."""
    value = text(query, name) or str(default)
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= maximum:
        raise BadQueryError(f"{name}={value!r} is not a number between 1 and {maximum}.")
    return int(value)


def _day(query: Mapping[str, str], name: str) -> date | None:
    value = text(query, name)
    if not value:
        return None
    try:
        day = date.fromisoformat(value)
    except ValueError as error:
        raise BadQueryError(f"{name}={value!r} is not a date like 2026-03-31.") from error
    return min(max(day, EARLIEST), LATEST)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # unknown names, and names that are not file names
        raise BadQueryError(f"tz={name!r} is not a time zone like Europe/Berlin; leave it out for UTC.") from error
