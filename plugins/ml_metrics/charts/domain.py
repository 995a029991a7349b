"""The range of a chart's value axis. A distant bound must not flatten the values into a line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeGuard

from ml_metrics.charts.axis import Axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.model import StoredMetric

NEAR_BOUND_SPREADS = 3.0
"""A bound is inside the chart if its distance from the values is at most this multiple of their spread."""
MARGIN = 0.06
MAX_DRAWABLE = 1e300
"""Larger numbers are not drawn, because the difference of two could overflow."""


def domain_of(points: Sequence[StoredMetric], axis: Axis) -> tuple[float, float]:
    """Return the limits of the axis, so that it covers all values and the bounds close to them."""
    transform, invert = (math.log10, _power) if axis is Axis.LOG else (float, float)
    values = [transform(point.value) for point in points if drawable(point.value, axis)]
    bounds = [transform(bound) for point in points for bound in (point.lower, point.upper) if drawable(bound, axis)]
    if not values:
        values = bounds or [transform(1.0)]
    least, greatest = min(values), max(values)
    spread = greatest - least or _spread_of_constant(greatest, bounds, axis)
    reach = NEAR_BOUND_SPREADS * spread
    near = [bound for bound in bounds if least - reach <= bound <= greatest + reach]
    low, high = min([least, *near]), max([greatest, *near])
    margin = MARGIN * (high - low) or spread * MARGIN or 1.0
    return invert(low - margin), invert(high + margin)


def drawable(number: float | None, axis: Axis) -> TypeGuard[float]:
    """Return whether a number can be drawn: it must be finite, and positive on a log axis."""
    return number is not None and abs(number) < MAX_DRAWABLE and (axis is not Axis.LOG or number > 0)


def rounded(number: float) -> float:
    """Return a number with as many digits as are visible. This halves the size of a page."""
    return float(f"{number:.7g}")


def _spread_of_constant(value: float, bounds: Sequence[float], axis: Axis) -> float:
    """Return a spread for constant values: the distance to the nearest bound, or a fraction of the value."""
    distances = [abs(bound - value) for bound in bounds if bound != value]
    return min(distances) if distances else 0.3 if axis is Axis.LOG else abs(value) * 0.1 or 1.0


def _power(exponent: float) -> float:
    return math.pow(10.0, max(-307.0, min(307.0, exponent)))
