"""Which stretch of numbers a chart shows. A bound far away from every value must not press the values into a line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeGuard

from ml_metrics.charts.points import Axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.charts.points import Plotted

FAR = 3.0
"""A bound farther off than so many times the spread of the values is shown only where the band ends: at the edge."""
MARGIN = 0.06
GREATEST = 1e300
"""Beyond it the difference of two numbers may not be a number any more; NaN and infinities are beyond it, too."""


def domain_of(points: Sequence[Plotted], axis: Axis) -> tuple[float, float]:
    """The least and the greatest number of the axis: every value, and the bounds that lie near them."""
    place, back = (math.log10, _power) if axis is Axis.LOG else (float, float)
    values = [place(point.value) for point in points if shown(point.value, axis)]
    bounds = [place(bound) for point in points for bound in (point.lower, point.upper) if shown(bound, axis)]
    if not values:
        values = bounds or [place(1.0)]
    least, greatest = min(values), max(values)
    spread = greatest - least or _some(greatest, bounds, axis)
    near = [bound for bound in bounds if least - FAR * spread <= bound <= greatest + FAR * spread]
    low, high = min([least, *near]), max([greatest, *near])
    margin = MARGIN * (high - low) or spread * MARGIN or 1.0
    return back(low - margin), back(high + margin)


def shown(number: float | None, axis: Axis) -> TypeGuard[float]:
    """Whether an axis has a place for a number: none for what is not finite, and on a log axis none for 0 or less."""
    return number is not None and abs(number) < GREATEST and (axis is not Axis.LOG or number > 0)


def short(number: float) -> float:
    """As many digits as anybody sees: a page of curves is half as long."""
    return float(f"{number:.7g}")


def _some(value: float, bounds: Sequence[float], axis: Axis) -> float:
    """The spread of a constant: the distance of its nearest bound, else a part of its size."""
    distances = [abs(bound - value) for bound in bounds if bound != value]
    return min(distances) if distances else 0.3 if axis is Axis.LOG else abs(value) * 0.1 or 1.0


def _power(exponent: float) -> float:
    return math.pow(10.0, max(-307.0, min(307.0, exponent)))
