"""Numbers, bounds and durations as text, written the same way on every page."""

from __future__ import annotations

import math

from ml_metrics.model import Bounds


def number_text(value: float | None) -> str:
    """Return a number with six digits, or `-` for None."""
    return "-" if value is None else f"{value:.6g}"


def bounds_text(lower: float | None, upper: float | None) -> str:
    """Return bounds as the alerts write them, with `-inf` or `inf` for an open side, or `-` if there are none."""
    if lower is None and upper is None:
        return "-"
    return str(Bounds(-math.inf if lower is None else lower, math.inf if upper is None else upper))


def duration_text(seconds: float | None) -> str:
    """Return a duration in its two largest units, or `-` for None."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.3g} s"
