"""Days and times in config files, which are never numbers."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from ml_metrics.values import as_utc

_PLAUSIBLE = range(2000, 2100)


def _no_number(example: str, form: str) -> BeforeValidator:
    """Return the validator that rejects numbers, which pydantic would read as seconds or milliseconds since 1970."""

    def check(value: Any) -> Any:
        if _is_number(value):
            raise ValueError(f"should be a {example}, not {value!r}{_suggestion(value, form)}")
        return value

    return BeforeValidator(check)


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        with suppress(ValueError):
            float(value)
            return True
    return isinstance(value, int | float)


def _suggestion(value: Any, form: str) -> str:
    for unit in (1, 1000):
        with suppress(ValueError, OverflowError, OSError):
            meant = datetime.fromtimestamp(float(value) / unit, UTC)
            if meant.year in _PLAUSIBLE:
                return f"; did you mean {meant:{form}}?"
    return ""


Moment = Annotated[datetime, _no_number("time like 2026-05-31T12:00:00Z", "%Y-%m-%dT%H:%M:%SZ"), AfterValidator(as_utc)]
"""A time; without a zone it is UTC."""
Day = Annotated[date, _no_number("day like 2026-05-31", "%Y-%m-%d")]
