"""The rules for values: a naive time is UTC, only finite numbers are stored, and a hash stands for a text in a key."""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime


def as_utc(moment: datetime) -> datetime:
    """Return the same moment in UTC. A naive time is taken to be UTC, as all times of this package are."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def finite(value: float | None) -> float | None:
    """Return the number, or None for NaN and the infinities, which neither JSON nor every table can hold."""
    return value if value is not None and math.isfinite(value) else None


def short_hash(text: str) -> str:
    """Return 16 letters that stand for a text in keys and names of files."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
