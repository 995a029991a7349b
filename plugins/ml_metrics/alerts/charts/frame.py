"""The axes: time as Vega represents it, and the range of values. A distant bound must not flatten the values.

Also the theme, and a chart as a picture.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeGuard

from ml_metrics.core.extras import require
from ml_metrics.core.model import StoredMetric
from ml_metrics.core.units import BYTES, SECONDS

NEAR_BOUND_SPREADS = 3.0
"""A bound is inside the chart if its distance from the values is at most this multiple of their spread."""
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
    return round(moment.timestamp() * 1000)


def time_axis(*, utc: bool, shared: bool = False) -> dict[str, Any]:
    """The encoding of `at`, in UTC or in the viewer's time zone. A shared axis has its ends as parameters."""
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
    """The encoding of the steps of a run: no label is between two steps."""
    return {"field": "step", "type": "quantitative", "title": "step", "scale": {"nice": False, **scale},
            "axis": {"labelExpr": "datum.value % 1 ? '' : format(datum.value, ',.0f')"}}  # fmt: skip


def value_labels(unit: str) -> dict[str, Any]:
    """The labels of the axis, with a short unit: 3.1 GB, 845 ms, 97 %. A long one would leave no room."""
    if unit == BYTES:
        return {"labelExpr": f"replace(format(datum.value, '.' + {DIGITS} + '~s') + 'B', /([a-zA-Z]+)$/, ' $1')"}
    if unit == SECONDS:
        small = f"format(datum.value * 1000, '.' + {DIGITS} + '~r') + ' ms'"
        return {"labelExpr": f"max(abs(domain('y')[0]), abs(domain('y')[1])) < 1 ? {small} : ({SHORT_LABEL}) + ' s'"}
    suffix = f" + {json.dumps(f' {unit}')}" if 0 < len(unit) <= MAX_UNIT else ""
    return {"labelExpr": f"({SHORT_LABEL}){suffix}"}


def domain_of(points: Sequence[StoredMetric], axis: Axis, *, margin: float = 0.06) -> tuple[float, float]:
    """The limits of the axis, so that it covers all values and the bounds close to them."""
    transform = math.log10 if axis is Axis.LOG else float
    values = [transform(point.value) for point in points if drawable(point.value, axis)]
    bounds = [transform(bound) for point in points for bound in (point.lower, point.upper) if drawable(bound, axis)]
    values = values or bounds or [transform(1.0)]
    least, greatest = min(values), max(values)
    constant = 0.3 if axis is Axis.LOG else abs(greatest) * 0.1 or 1.0
    spread = greatest - least or min((abs(bound - greatest) for bound in bounds if bound != greatest), default=constant)
    reach = NEAR_BOUND_SPREADS * spread
    near = [bound for bound in bounds if least - reach <= bound <= greatest + reach]
    low, high = min([least, *near]), max([greatest, *near])
    room = margin * (high - low) or margin * spread or 1.0
    low, high = low - room, high + room
    if axis is Axis.LOG:
        low, high = (math.pow(10.0, max(-307.0, min(307.0, exponent))) for exponent in (low, high))
    return low, high


def drawable(number: float | None, axis: Axis) -> TypeGuard[float]:
    return number is not None and abs(number) < MAX_DRAWABLE and (axis is not Axis.LOG or number > 0)


def rounded(number: float) -> float:
    """A number with as many digits as are visible. This halves the size of a page."""
    return float(f"{number:.7g}")


def drawn(number: float | None, axis: Axis) -> float | None:
    return rounded(number) if drawable(number, axis) else None


def quantity(name: str, title: str = "", **more: str) -> dict[str, Any]:
    return {"field": name, "type": "quantitative", "title": title or name, **more}


VEGA_LITE = "6.4"
"""The version of Vega-Lite, which must match the script of the dashboard."""


def as_png(spec: dict[str, Any]) -> bytes:
    """Render a PNG with two pixels per unit of the spec."""
    require("charts", "a chart")
    import vl_convert

    return smaller(bytes(vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=2.0, allowed_base_urls=[])))


def smaller(png: bytes) -> bytes:
    """A PNG with its pixels packed as tightly as zlib can: a third of the size, for a mail."""
    header, chunks, pixels = 8, [], b""
    at = header
    while at < len(png):  # length, type, content and checksum of a chunk
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        if kind == b"IDAT":
            pixels += png[at + 8 : at + 8 + length]
        else:
            chunks.append(png[at : at + 12 + length])
        at += 12 + length
    packed = b"IDAT" + zlib.compress(zlib.decompress(pixels), 9)
    image = struct.pack(">I", len(packed) - 4) + packed + struct.pack(">I", zlib.crc32(packed))
    return b"".join([png[:header], *chunks[:-1], image, chunks[-1]])


def as_svg(spec: dict[str, Any]) -> str:
    require("charts", "a chart")
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[]))


SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""The version of the grammar. Nothing is fetched from this address."""

BLUE, ORANGE, RED, GREY = "#2f6fde", "#b45309", "#d11a2a", "#6b7280"
"""Each has a contrast of at least 3:1 on the light and the dark page."""
SERIES_COLOURS = ("#2f6fde", "#d95f02", "#1b9e77", "#c2479b", "#8a6d00", "#7570b3", "#5f6b7a", "#c0392b")
"""Colours of the lines of several tests, chosen for colour-blind readers."""
SERIES_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke", "triangle-right")


def clock(moment: str, *, utc: bool) -> str:
    return f"utcFormat({moment}, '%Y-%m-%d %H:%M') + ' UTC'" if utc else f"timeFormat({moment}, '%Y-%m-%d %H:%M')"


def frame(width: int | str, height: int) -> dict[str, Any]:
    """The part that every spec has. `width` is in pixels, or `container`; `height` in pixels."""
    return {"$schema": SCHEMA, "width": width, "height": height, "config": theme()}


def theme(*, dark: bool = False) -> dict[str, Any]:
    """The `config` of a spec. The browser chooses by `prefers-color-scheme`; mail is always light."""
    ink, grid = ("#dee3ea", "#293c51") if dark else ("#3e5873", "#dee3ea")
    return {
        "background": "transparent" if dark else "white",
        "font": "Inter, -apple-system, BlinkMacSystemFont, 'Segoe UI', Helvetica, Arial, sans-serif",
        "view": {"stroke": grid},
        "axis": {
            "labelColor": ink, "titleColor": ink, "gridColor": grid, "tickColor": grid, "domainColor": grid,
            "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal",
        },
        "legend": {"labelColor": ink, "titleColor": ink, "labelFontSize": 11, "titleFontSize": 11},
        "title": {"color": ink, "anchor": "start", "fontSize": 13, "fontWeight": 600, "limit": 620},
        "text": {"color": ink},
    }  # fmt: skip
