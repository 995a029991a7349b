"""Numbers, bounds and durations as text, written the same way on every page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.units import interval, quantity

if TYPE_CHECKING:
    from ml_metrics.model import StoredMetric


def value_text(metric: StoredMetric) -> str:
    """Return the value of a metric with its unit, or `-` if it has none."""
    return quantity(metric.value, metric.unit)


def bounds_text(metric: StoredMetric) -> str:
    """Return the bounds of a metric with its unit, or `-` if there are none."""
    return interval(metric.lower, metric.upper, metric.unit)


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
