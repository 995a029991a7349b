"""A spec as a picture, drawn without a browser and without asking anybody: vl-convert holds Vega-Lite and its fonts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

VEGA_LITE = "6.4"
"""The grammar's version: the same as of the script that the dashboard gives to browsers."""


def as_png(spec: Mapping[str, Any], *, scale: float = 2.0) -> bytes:
    """The picture for a mail. `scale` is pixels for each unit of the spec."""
    import vl_convert

    png: bytes = vl_convert.vegalite_to_png(dict(spec), vl_version=VEGA_LITE, scale=scale, allowed_base_urls=[])
    return png


def as_svg(spec: Mapping[str, Any]) -> str:
    """The picture as text that any browser shows."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(dict(spec), vl_version=VEGA_LITE, allowed_base_urls=[])
    return svg
