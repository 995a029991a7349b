"""The rules for values.

A naive time is UTC, only finite numbers are stored, a hash stands for a text in a key, and text
from elsewhere is shown without control characters.
"""

from __future__ import annotations

import hashlib
import math
import re
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta

LEAP_YEARS = 8
"""The most years between two leap years."""


def as_utc(moment: datetime) -> datetime:
    """Return the same moment in UTC. A naive time is taken to be UTC, as all times of this package are."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def nearest_year(text: str, period: tuple[datetime, datetime]) -> datetime | None:
    """Return a moment that was written without its year, as `02-29T10:00:00+00:00`, in the year nearest to a period.

    None if no year near the period has such a day.
    """
    begin, end = period
    for around in (1, LEAP_YEARS):
        years = range(max(MINYEAR, begin.year - around), min(MAXYEAR, end.year + around) + 1)
        if found := [moment for moment in (_in_year(year, text) for year in years) if moment is not None]:
            return min(found, key=lambda moment: max(begin - moment, moment - end, timedelta()))
    return None


def _in_year(year: int, text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(f"{year:04}-{text}")
    except ValueError:  # no such day, or only in leap years
        return None


def finite(value: float | None) -> float | None:
    """Return the number, or None for NaN and the infinities, which neither JSON nor every table can hold."""
    return value if value is not None and math.isfinite(value) else None


def short_hash(text: str) -> str:
    """Return 16 letters that stand for a text in keys and names of files."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digest_in(image: str) -> str:
    """Return the digest in the id of an image, `docker.io/library/python@sha256:...`; empty if it has none."""
    found = re.search(r"(?:^|[@/])(sha256:[0-9a-f]{64})\Z", image)
    return found[1] if found else ""


def printable(text: str) -> str:
    """Return the text with control characters, line ends, marks of direction and halves of letters escaped.

    A name from elsewhere must neither move the cursor of a terminal nor forge a line.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
