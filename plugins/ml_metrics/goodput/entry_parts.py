"""The values in entries of a goodput log: times, counts, and what an entry states beside its time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

LATEST = 253_402_300_800.0
"""The year 10000 in seconds. A time beyond it, or as far before 1970, is invalid; it may be in milliseconds."""
MAX_COUNT = 2**62
MAX_WRITERS = 2_000
MAX_NAMES = 1_000
"""The custom events, by name. Further ones count as one, `other`."""
MAX_OBJECTS = 200_000
MAX_OTHER_JOBS = 1_000
LONGEST_NAME = 1_000
"""The characters of a name that are kept."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One save or restore, as Orbax reports it when it has ended."""

    step: str
    remote: bool
    seconds: float
    start: float | None
    first_time: float | None = None
    """The first of its times, which the older library uses as the time of the entry."""


@dataclass(frozen=True, slots=True)
class Slices:
    """How many slices of an elastic job were stepping, were available, and exist in all."""

    time: float
    active: int
    available: int
    total: int


def parse_seconds(value: Any) -> float:
    """Return a time or duration. Raises ValueError if the value is neither."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not abs(number) <= LATEST:
        raise ValueError("a value is not a time in seconds")
    return number


def parse_count(value: Any) -> int:
    """Return a step or a count. Raises ValueError if the value is not a whole number."""
    try:
        number = int(value)
        is_count = not isinstance(value, bool) and number == float(value) and abs(number) < MAX_COUNT
    except (TypeError, ValueError, OverflowError):
        is_count = False
    if not is_count:
        raise ValueError("a value is not a whole number")
    return number
