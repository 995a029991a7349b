"""The axes: time as Vega represents it, and the range of values. A distant bound must not flatten the values."""

from __future__ import annotations

import json
import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeGuard

from ml_metrics.units import BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ml_metrics.model import StoredMetric

NEAR_BOUND_SPREADS = 3.0
"""A bound is inside the chart if its distance from the values is at most this multiple of their spread."""
MARGIN = 0.06
MAX_UNIT = 4
"""A longer unit would leave no room for the chart."""
ENDS = "max(abs(domain('y')[0]), abs(domain('y')[1])) / abs(domain('y')[1] - domain('y')[0])"
DIGITS = f"min(17, max(4, 3 + (ceil(log({ENDS}) / LN10) || 0)))"
"""How many digits tell the labels of the axis apart: more where its ends differ little."""
SHORT_LABEL = (
    f"abs(datum.value) >= 1e7 ? format(datum.value, '.' + {DIGITS} + '~s') : "
    f"datum.value != 0 && abs(datum.value) < 1e-4 ? format(datum.value, '.' + {DIGITS} + '~g') : datum.label"
)
"""A label with thousands separators, unless that is longer than the space beside a chart."""
MAX_DRAWABLE = 1e300
"""Larger numbers are not drawn, because the difference of two could overflow."""


class Axis(StrEnum):
    """The scale of the value axis."""

    LINEAR = "linear"
    LOG = "log"
    PERCENT = "percent"
    """Every number in percent of the metric's level."""


def milliseconds(moment: datetime) -> int:
    """Return a time as Vega represents it."""
    return round(moment.timestamp() * 1000)


def time_axis(*, utc: bool, shared: bool = False) -> dict[str, Any]:
    """Return the encoding of `at`, in UTC or in the viewer's time zone. A shared axis has its ends as parameters."""
    scale: dict[str, Any] = {"type": "utc" if utc else "time", "padding": 8}
    if shared:
        scale |= {"domainMin": {"expr": "start"}, "domainMax": {"expr": "end"}}
    prefix = "utc" if utc else ""

    def part(name: str) -> str:
        return f"{prefix}{name}(datum.value)"

    formats = (
        (part("milliseconds"), "%H:%M:%S.%L"),
        (part("seconds"), "%H:%M:%S"),
        (f"{part('hours')} || {part('minutes')}", "%b %d %H:%M"),
        (f"{part('date')} != 1", "%b %d"),
        (f"{part('month')} != 0", "%b %Y"),
    )
    chosen = "".join(f"{when} ? '{form}' : " for when, form in formats)
    label = f"{prefix or 'time'}Format(datum.value, {chosen}'%Y')"
    return {"field": "at", "type": "temporal", "title": None, "scale": scale,
            "axis": {"labelExpr": label, "tickCount": {"expr": "max(2, width / 90)"}}}  # fmt: skip


def step_axis(**scale: bool) -> dict[str, Any]:
    """Return the encoding of the steps of a run: no label is between two steps."""
    return {"field": "step", "type": "quantitative", "title": "step", "scale": {"nice": False, **scale},
            "axis": {"labelExpr": "datum.value % 1 ? '' : format(datum.value, ',.0f')"}}  # fmt: skip


def value_labels(unit: str) -> dict[str, Any]:
    """Return the labels of the axis, with a short unit: 3.1GB, 12 s, 97 %, 12,500. A long one would leave no room."""
    if unit == BYTES:
        return {"labelExpr": f"format(datum.value, '.' + {DIGITS} + '~s') + 'B'"}
    suffix = f" + {json.dumps(f' {unit}')}" if 0 < len(unit) <= MAX_UNIT else ""
    return {"labelExpr": f"({SHORT_LABEL}){suffix}"}


def domain_of(points: Sequence[StoredMetric], axis: Axis) -> tuple[float, float]:
    """Return the limits of the axis, so that it covers all values and the bounds close to them."""
    transform, invert = (math.log10, _power) if axis is Axis.LOG else (float, float)
    values = [transform(point.value) for point in points if drawable(point.value, axis)]
    bounds = [transform(bound) for point in points for bound in (point.lower, point.upper) if drawable(bound, axis)]
    values = values or bounds or [transform(1.0)]
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


def drawn(number: float | None, axis: Axis) -> float | None:
    """Return a rounded number, or None if it cannot be drawn."""
    return rounded(number) if drawable(number, axis) else None


def _spread_of_constant(value: float, bounds: Sequence[float], axis: Axis) -> float:
    """Return a spread for constant values: the distance to the nearest bound, or a fraction of the value."""
    distances = [abs(bound - value) for bound in bounds if bound != value]
    return min(distances) if distances else 0.3 if axis is Axis.LOG else abs(value) * 0.1 or 1.0


def _power(exponent: float) -> float:
    return math.pow(10.0, max(-307.0, min(307.0, exponent)))
