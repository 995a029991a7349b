"""Colours and fonts for light and dark pages. Marks never differ by colour alone, but also by shape."""

from __future__ import annotations

from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""The version of the grammar. Nothing is fetched from this address."""

BLUE, ORANGE, RED, GREY = "#2f6fde", "#b45309", "#d11a2a", "#6b7280"
"""Each has a contrast of at least 3:1 on the light and the dark page."""
SERIES_COLOURS = ("#2f6fde", "#d95f02", "#1b9e77", "#c2479b", "#8a6d00", "#7570b3", "#5f6b7a", "#c0392b")
"""Colours of the lines of several tests, chosen for colour-blind readers."""
SERIES_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke", "triangle-right")

FONT = "Inter, -apple-system, BlinkMacSystemFont, 'Segoe UI', Helvetica, Arial, sans-serif"


def clock(moment: str, *, utc: bool) -> str:
    """Return Vega's expression for a time as text."""
    return f"utcFormat({moment}, '%Y-%m-%d %H:%M') + ' UTC'" if utc else f"timeFormat({moment}, '%Y-%m-%d %H:%M')"


def frame(width: int | str, height: int) -> dict[str, Any]:
    """Return the part that every spec has. `width` is in pixels, or `container`; `height` in pixels."""
    return {"$schema": SCHEMA, "width": width, "height": height, "config": theme()}


def theme(*, dark: bool = False) -> dict[str, Any]:
    """Return the `config` of a spec. The browser chooses by `prefers-color-scheme`; mail is always light."""
    ink, grid = ("#dee3ea", "#293c51") if dark else ("#3e5873", "#dee3ea")
    return {
        "background": "transparent" if dark else "white",
        "font": FONT,
        "view": {"stroke": grid},
        "axis": {
            "labelColor": ink, "titleColor": ink, "gridColor": grid, "tickColor": grid, "domainColor": grid,
            "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal",
        },
        "legend": {"labelColor": ink, "titleColor": ink, "labelFontSize": 11, "titleFontSize": 11},
        "title": {"color": ink, "anchor": "start", "fontSize": 13, "fontWeight": 600, "limit": 620},
        "text": {"color": ink},
    }  # fmt: skip
