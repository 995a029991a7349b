"""The two rules for values that come from elsewhere: a naive time is UTC, and only finite numbers are stored."""

from __future__ import annotations

import math
from datetime import UTC, datetime


def as_utc(moment: datetime) -> datetime:
    """Return the same moment in UTC. A naive time is taken to be UTC, as all times of this package are."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def finite(value: float | None) -> float | None:
    """Return the number, or None for NaN and the infinities, which neither JSON nor every table can hold."""
    return value if value is not None and math.isfinite(value) else None
