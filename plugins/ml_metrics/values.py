"""The rules for values.

A naive time is UTC, the calendar has two ends, only finite numbers are stored, a hash stands for a text in a key, and
text from elsewhere is shown without control characters.
"""

from __future__ import annotations

import hashlib
import math
import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo

BEGINNING_OF_TIME, END_OF_TIME = datetime(1900, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
"""The ends of the calendar, which stand for all times beyond them.

Whoever writes 0001-01-01 or 9999-12-31 means "always". Python has times beyond these ends, so that a time of the
calendar can be written in any zone, and days can be added to it.
"""


def as_utc(moment: datetime) -> datetime:
    """Return the same moment of the calendar in UTC. A naive time is UTC, as all times of this package are."""
    if moment.tzinfo is not UTC:
        try:
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except OverflowError:  # at the ends of Python's calendar
            return BEGINNING_OF_TIME if moment.year < BEGINNING_OF_TIME.year else END_OF_TIME
    return min(max(moment, BEGINNING_OF_TIME), END_OF_TIME)


def start_of_day(day: date, zone: tzinfo = UTC) -> datetime:
    """Return the first moment of a day in a time zone, in UTC."""
    return as_utc(datetime.combine(day, time.min, zone))


def end_of_day(day: date, zone: tzinfo = UTC) -> datetime:
    """Return the first moment after a day in a time zone, in UTC."""
    return END_OF_TIME if day >= END_OF_TIME.date() else start_of_day(day + timedelta(days=1), zone)


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
