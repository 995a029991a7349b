"""The addresses of pages and assets, on a server and in a report's folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.values import end_of_day, start_of_day

ASSETS = {path.name: path for path in (Path(__file__).parent / "assets").iterdir() if path.suffix in {".css", ".js"}}


class ServerLinks:
    """The addresses on a server. All are relative, so that pages work behind any prefix."""

    live = True
    """Whether a server renders the pages; forms, JSON and CSV need one."""

    def tests(self, **more: str) -> str:
        return with_query("./", **more)

    def inbox(self, **more: str) -> str:
        return with_query("inbox", **more)

    def test(self, test: str, **more: str) -> str:
        return with_query("test", test=test, **more)

    def run(self, run_key: str, test: str) -> str:
        return with_query("run", run=run_key)

    def experiment(self, key: str) -> str:
        return with_query("experiment", key=key)

    def asset(self, name: str) -> str:
        """It changes with the content, so that browsers may keep it."""
        return with_query(f"assets/{name}", v=asset_hash(name))


class FileLinks:
    """The addresses of a report's files."""

    live = False

    def inbox(self, **_: str) -> str:
        return "inbox.html"

    def tests(self, **_: str) -> str:
        return "index.html"

    def test(self, test: str, **_: str) -> str:
        return quote(file_of(test))

    def run(self, run_key: str, test: str) -> str:
        return f"{self.test(test)}#run-{quote(run_key, safe='')}"

    def asset(self, name: str) -> str:
        return f"assets/{name}"


Links = ServerLinks | FileLinks


@cache
def asset_hash(name: str) -> str:
    return hashlib.sha256(ASSETS[name].read_bytes()).hexdigest()[:16]


def with_query(page: str, **query: str) -> str:
    """Empty parameters are left out."""
    given = {name: value for name, value in query.items() if value}
    return f"{page}?{urlencode(given)}" if given else page


def airflow_dag(dag_id: str) -> str:
    """Relative to a page of the dashboard."""
    return f"../dags/{quote(dag_id, safe='')}"


def airflow_run(dag_id: str | None, run_id: str | None) -> str:
    """Empty for a run that Airflow did not start."""
    return f"{airflow_dag(dag_id)}/runs/{quote(run_id, safe='')}" if dag_id and run_id else ""


def http_link(link: str | None) -> str:
    """Empty unless it is HTTP or HTTPS: rows may hold `javascript:` links."""
    return link if link and re.match(r"https?://", link, re.IGNORECASE) else ""


def file_of(test: str) -> str:
    """Unique for each test; a name unfit for a file is hashed."""
    if re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,80}", test):
        return f"test-{test}.html"
    plain = re.sub(r"[^a-z0-9]+", "-", test.lower())[:40].strip("-")
    return f"test-{plain}-{hashlib.sha256(test.encode()).hexdigest()[:12]}.html"


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
        return start_of_day(self.first, self.zone)

    @property
    def until(self) -> datetime:
        return end_of_day(self.last, self.zone)

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def is_utc(self) -> bool:
        return self.zone.key == "UTC"

    def local(self, moment: datetime) -> datetime:
        return moment.astimezone(self.zone)

    def newest(self, days: int) -> Span:
        return self if self.days <= days else Span(self.last - timedelta(days=days - 1), self.last, self.zone)


def span_of(query: Mapping[str, str], now: datetime, days: int = DEFAULT_DAYS) -> Span:
    """Between `since` and `until` in the time zone `tz`; by default the newest `days`."""
    name = query.get("tz", "") or "UTC"
    try:
        zone = ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # unknown names, and names that are not file names
        raise BadQueryError(f"tz={name!r} is not a time zone like Europe/Berlin; leave it out for UTC.") from error
    last = _day(query, "until") or now.astimezone(zone).date()
    first = _day(query, "since") or max(EARLIEST, last - timedelta(days=days - 1))
    if first > last:
        raise BadQueryError(f"since={first} is after until={last}.")
    return Span(first, last, zone)


def text(query: Mapping[str, str], name: str, max_length: int = MAX_LENGTH) -> str:
    value = query.get(name, "")
    if len(value) > max_length:
        raise BadQueryError(f"{name} is longer than {max_length:,} characters.")
    return value


def required(query: Mapping[str, str], name: str) -> str:
    if value := text(query, name):
        return value
    raise BadQueryError(f"The parameter {name} is missing.")


def choice(query: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """By default the first."""
    value = text(query, name) or choices[0]
    if value not in choices:
        raise BadQueryError(f"{name}={value!r} is not one of {', '.join(filter(None, choices))}.")
    return value


def whole_number(query: Mapping[str, str], name: str, default: int, maximum: int) -> int:
    value = text(query, name) or str(default)
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= maximum:
        raise BadQueryError(f"{name}={value!r} is not a number between 1 and {maximum}.")
    return int(value)


def page_in(query: Mapping[str, str], count: int, size: int) -> tuple[int, int, slice]:
    """The page that is wanted of so many things, the number of pages, and which of the things it has."""
    pages = max(1, -(-count // size))
    page = min(whole_number(query, "page", 1, 1_000_000), pages)
    return page, pages, slice((page - 1) * size, page * size)


def _day(query: Mapping[str, str], name: str) -> date | None:
    value = text(query, name)
    if not value:
        return None
    try:
        day = date.fromisoformat(value)
    except ValueError as error:
        raise BadQueryError(f"{name}={value!r} is not a date like 2026-03-31.") from error
    return min(max(day, EARLIEST), LATEST)
