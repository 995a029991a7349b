"""Numbers, bounds and durations as text, written the same way on every page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.units import interval, readable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.model import StoredMetric


DIGITS, CHANGE_DIGITS = 6, 3
"""How many digits a number without a unit has: a page is where values are compared."""


def number_text(value: float | None, unit: str = "") -> str:
    """Return a number with its unit: `3.09 GB`, `12 min`, `1,234,567`; `-` for None."""
    return _numbers([value], unit)[0]


def change_text(percent: float | None) -> str:
    """Return a change in percent: `+3.1 %`, `-12,300 %`; `-` for None."""
    return "-" if percent is None else f"{'+' if percent >= 0 else ''}{readable([percent], '', CHANGE_DIGITS)[0]} %"


def interval_text(ends: tuple[float, float] | None) -> str:
    """Return where a change in percent is: `+2.9 to +3.4 %`; `-` for None."""
    return "-" if ends is None else f"{change_text(ends[0]).removesuffix(' %')} to {change_text(ends[1])}"


def value_text(metric: StoredMetric) -> str:
    """Return the value of a metric with its unit, or `-` if it has none."""
    return number_text(metric.value, metric.unit)


def bounds_text(metric: StoredMetric) -> str:
    """Return the bounds of a metric with its unit, or `-` if there are none."""
    return interval(metric.lower, metric.upper, metric.unit, _numbers)


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


def _numbers(values: Iterable[float | None], unit: str) -> list[str]:
    return readable(values, unit, DIGITS)
