"""What a page's address asks for. Nothing in it is trusted; what makes no sense is said so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from ml_metrics.errors import MlMetricsError

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_DAYS = 30
MAX_DAYS = 366
"""As many columns as a heatmap has; a chart may show more."""
EARLIEST, LATEST = date(1970, 1, 2), date(2200, 1, 1)
MAX_LENGTH = 300
"""Characters of any one value; a name of a test or a metric is shorter."""


class BadQueryError(MlMetricsError):
    """The address asks for something that makes no sense."""


@dataclass(frozen=True, slots=True)
class Span:
    """Some days in a time zone, both ends among them."""

    first: date
    last: date
    zone: ZoneInfo

    @property
    def since(self) -> datetime:
        """The first moment."""
        return self.start_of(self.first)

    @property
    def until(self) -> datetime:
        """The first moment after the last day."""
        return self.start_of(self.last + timedelta(days=1))

    @property
    def days(self) -> int:
        """How many days."""
        return (self.last - self.first).days + 1

    @property
    def is_utc(self) -> bool:
        """Whether the days are UTC's."""
        return self.zone.key == "UTC"

    def start_of(self, day: date) -> datetime:
        """A day's first moment, in UTC."""
        return datetime.combine(day, time(), self.zone).astimezone(UTC)

    def local(self, moment: datetime) -> datetime:
        """A moment in the span's time zone."""
        return moment.astimezone(self.zone)

    def newest(self, days: int) -> Span:
        """At most so many days, the newest of them."""
        return self if self.days <= days else Span(self.last - timedelta(days=days - 1), self.last, self.zone)


def span_of(query: Mapping[str, str], now: datetime, days: int = DEFAULT_DAYS) -> Span:
    """The days that an address asks for with `since`, `until` and `tz`; else the newest `days`."""
    zone = _zone(query.get("tz", "") or "UTC")
    last = _day(query, "until") or now.astimezone(zone).date()
    first = _day(query, "since") or max(EARLIEST, last - timedelta(days=days - 1))
    if first > last:
        raise BadQueryError(f"since={first} is after until={last}: no day lies between them.")
    return Span(first, last, zone)


def text(query: Mapping[str, str], name: str, longest: int = MAX_LENGTH) -> str:
    """A value of the address."""
    value = query.get(name, "")
    if len(value) > longest:
        raise BadQueryError(f"{name} is longer than {longest:,} characters.")
    return value


def required(query: Mapping[str, str], name: str) -> str:
    """A value without which there is no page."""
    if value := text(query, name):
        return value
    raise BadQueryError(f"The address does not say which {name} is meant.")


def choice(query: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """One of some values, the first if none is given."""
    value = text(query, name) or choices[0]
    if value not in choices:
        raise BadQueryError(f"{name}={value!r} is none of {', '.join(each or 'nothing' for each in choices)}.")
    return value


def number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    """A whole number from 1 on."""
    value = text(query, name) or str(default)
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= most:
        raise BadQueryError(f"{name}={value!r} is no number between 1 and {most}.")
    return int(value)


def _day(query: Mapping[str, str], name: str) -> date | None:
    value = text(query, name)
    if not value:
        return None
    try:
        day = date.fromisoformat(value)
    except ValueError as error:
        raise BadQueryError(f"{name}={value!r} is no day; write it as 2026-03-31.") from error
    return min(max(day, EARLIEST), LATEST)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # unknown names, and names that are no file's
        raise BadQueryError(
            f"tz={name!r} is no time zone; write it as Europe/Berlin, or leave it out for UTC."
        ) from error
