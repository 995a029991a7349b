"""Durations in test files: `1h`, `90m`, `1h30m`, or a number of seconds."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from ml_metrics.core.values import as_utc

UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_LONG_NAMES = {
    "d": ("d", "day", "days"),
    "h": ("h", "hr", "hrs", "hour", "hours", "hor"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "ms": ("ms", "msec", "msecs", "millisecond", "milliseconds"),
}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_LOOSE_PART = re.compile(rf"({_NUMBER})\s*([a-z]*)\s*(?:and|,)?\s*")
_MIN, _MAX = timedelta(milliseconds=1), timedelta(days=3_660)


def parse_duration(value: Any) -> timedelta:
    """Raises ValueError with a suggestion."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value) if abs(value) < 10**300 else math.inf
    elif isinstance(value, str) and re.fullmatch(rf"(?:{_NUMBER}(?:ms|[dhms])\s*)+", value.strip()):
        seconds = sum(float(number) * UNITS[unit] for number, unit in re.findall(rf"({_NUMBER})(ms|[dhms])", value))
    else:
        raise ValueError(f"{value!r} is not a duration like 1h, 90m, 1h30m or a number of seconds{_suggestion(value)}")
    if not _MIN.total_seconds() <= seconds <= _MAX.total_seconds():
        raise ValueError(f"{value!r} is out of range: a duration is at least 1ms and at most ten years")
    return timedelta(seconds=seconds)


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(timedelta.total_seconds, return_type=float, when_used="json"),
]


def _suggestion(value: Any) -> str:
    """For a near miss like `1 hor` or `90 minutes`."""
    if not isinstance(value, str):
        return ""
    text = value.strip().lower()
    parts = _LOOSE_PART.findall(text)
    if not parts or _LOOSE_PART.sub("", text):
        return ""
    units = [next((unit for unit, names in _LONG_NAMES.items() if word in names), None) for _, word in parts]
    if None in units:
        return ""
    meant = "".join(f"{number}{unit}" for (number, _), unit in zip(parts, units, strict=True))
    return f"; did you mean {meant!r}?"


def _no_number(example: str, form: str) -> BeforeValidator:
    """Rejects numbers, which pydantic would read as seconds or milliseconds since 1970."""

    def check(value: Any) -> Any:
        if _is_number(value):
            raise ValueError(f"should be a {example}, not {value!r}{_moment_suggestion(value, form)}")
        return value

    return BeforeValidator(check)


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        with suppress(ValueError):
            float(value)
            return True
    return isinstance(value, int | float)


def _moment_suggestion(value: Any, form: str) -> str:
    for unit in (1, 1000):
        with suppress(ValueError, OverflowError, OSError):
            meant = datetime.fromtimestamp(float(value) / unit, UTC)
            if meant.year in range(2000, 2100):
                return f"; did you mean {meant:{form}}?"
    return ""


Moment = Annotated[datetime, _no_number("time like 2026-05-31T12:00:00Z", "%Y-%m-%dT%H:%M:%SZ"), AfterValidator(as_utc)]
"""A time; without a zone it is UTC."""
Day = Annotated[date, _no_number("day like 2026-05-31", "%Y-%m-%d")]
