"""Renders a spec without a browser or network access: vl-convert includes Vega-Lite and fonts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

VEGA_LITE = "6.4"
"""The version of Vega-Lite, which must match the script of the dashboard."""


def as_png(spec: Mapping[str, Any], *, scale: float = 2.0) -> bytes:
    """Render a PNG. `scale` is the number of pixels per unit of the spec."""
    import vl_convert

    png: bytes = vl_convert.vegalite_to_png(dict(spec), vl_version=VEGA_LITE, scale=scale, allowed_base_urls=[])
    return png


def as_svg(spec: Mapping[str, Any]) -> str:
    """Render an SVG."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(dict(spec), vl_version=VEGA_LITE, allowed_base_urls=[])
    return svg
