"""Renders a spec without a browser or network access: vl-convert includes Vega-Lite and fonts."""

from __future__ import annotations

from typing import Any

VEGA_LITE = "6.4"
"""The version of Vega-Lite, which must match the script of the dashboard."""


def as_png(spec: dict[str, Any]) -> bytes:
    """Render a PNG with two pixels per unit of the spec."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=2.0, allowed_base_urls=[]))


def as_svg(spec: dict[str, Any]) -> str:
    """Render an SVG."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[]))
