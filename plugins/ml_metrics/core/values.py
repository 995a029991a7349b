"""The rules for values.

A naive time is UTC, the calendar has two ends, only finite numbers are stored, a hash stands for a text in a key, text
from elsewhere is shown without control characters, and a name is made storable before it is compared.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TypeVar

from ml_metrics.core.text import printable

Named = TypeVar("Named")

MAX_NAME_BYTES = 1_950
MAX_TAG_BYTES = 1_900
"""The limits of names: an entry of a PostgreSQL index has at most 2,704 bytes in all. `<tag>_final` is a name, too."""
LEAP_YEARS = 8
"""The most years between two leap years."""


BEGINNING_OF_TIME, END_OF_TIME = datetime(1900, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
"""The ends of the calendar, which stand for all times beyond them.

Whoever writes 0001-01-01 or 9999-12-31 means "always". Python has times beyond these ends, so that a time of the
calendar can be written in any zone, and days can be added to it.
"""


def as_utc(moment: datetime) -> datetime:
    """A naive time is UTC, as all times of this package are."""
    if moment.tzinfo is not UTC:
        try:
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except OverflowError:  # at the ends of Python's calendar
            return BEGINNING_OF_TIME if moment.year < BEGINNING_OF_TIME.year else END_OF_TIME
    return min(max(moment, BEGINNING_OF_TIME), END_OF_TIME)


def start_of_day(day: date, zone: tzinfo = UTC) -> datetime:
    return as_utc(datetime.combine(day, time.min, zone))


def end_of_day(day: date, zone: tzinfo = UTC) -> datetime:
    """The first moment after the day, in UTC."""
    return END_OF_TIME if day >= END_OF_TIME.date() else start_of_day(day + timedelta(days=1), zone)


def nearest_year(text: str, period: tuple[datetime, datetime]) -> datetime | None:
    """The text has no year, as `02-29T10:00:00+00:00`. None if no year near the period has such a day."""
    begin, end = period
    for around in (1, LEAP_YEARS):
        found = []
        for year in range(
            max(BEGINNING_OF_TIME.year, begin.year - around), min(END_OF_TIME.year, end.year + around) + 1
        ):
            with suppress(ValueError):  # no such day, or only in leap years
                found.append(datetime.fromisoformat(f"{year:04}-{text}"))
        if found:
            return min(found, key=lambda moment: max(begin - moment, moment - end, timedelta()))
    return None


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def short_hash(text: str) -> str:
    """16 letters that stand for a text in keys and names of files."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def digest_in(image: str) -> str:
    """Of `docker.io/library/python@sha256:...`; empty if the id has none."""
    found = re.search(r"(?:^|[@/])(sha256:[0-9a-f]{64})\Z", image)
    return found[1] if found else ""


def short_digests(text: str) -> str:
    """The text with the beginnings of its digests: they tell versions apart as well."""
    return re.sub(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}", r"\1…", text)


def storable_text(text: str) -> str:
    """A text that every engine holds: none holds half a surrogate pair, and PostgreSQL holds no NUL."""
    return text.replace("\x00", "\ufffd").encode(errors="replace").decode()


def storable_name(name: str, most: int = MAX_NAME_BYTES) -> str:
    """Return a name as it is stored, which is a storable name itself: printable, not empty, and of limited length.

    Engines compare such names byte by byte, as Python does. A name of more bytes than `most` keeps its start and its
    end, with a digest in between.
    """
    name = printable(name) or "(no name)"
    if 4 * len(name) <= most or len(data := name.encode()) <= most:
        return name
    digest = f"~{hashlib.sha256(data).hexdigest()[:16]}~"
    half = (most - len(digest)) // 2
    return data[:half].decode(errors="ignore") + digest + data[-half:].decode(errors="ignore")


def by_storable_name(
    named: Iterable[tuple[str, Named]], most: int = MAX_NAME_BYTES
) -> tuple[dict[str, Named], list[str]]:
    """What has a name by its storable name, and the names of which there were several. The first one counts."""
    found: dict[str, Named] = {}
    merged: dict[str, None] = {}
    for name, one in named:
        stored = storable_name(name, most)
        if stored in found:
            merged[stored] = None
        found.setdefault(stored, one)
    return found, list(merged)
