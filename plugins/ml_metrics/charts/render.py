"""Renders a spec without a browser or network access: vl-convert includes Vega-Lite and fonts."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from ml_metrics.extras import require

PNG_HEADER = 8
CHUNK_FRAME = 12
"""The length, the type and the checksum of a chunk of a PNG, in bytes."""

VEGA_LITE = "6.4"
"""The version of Vega-Lite, which must match the script of the dashboard."""


def as_png(spec: dict[str, Any]) -> bytes:
    """Render a PNG with two pixels per unit of the spec."""
    require("charts", "a chart")
    import vl_convert

    return smaller(bytes(vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=2.0, allowed_base_urls=[])))


def smaller(png: bytes) -> bytes:
    """Return a PNG with its pixels packed as tightly as zlib can: a third of the size, for a mail."""
    chunks, pixels, at = [], b"", PNG_HEADER
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, end = png[at + 4 : at + 8], at + CHUNK_FRAME + length
        if kind == b"IDAT":
            pixels += png[at + 8 : end - 4]
        else:
            chunks.append(png[at:end])
        at = end
    packed = b"IDAT" + zlib.compress(zlib.decompress(pixels), 9)
    image = struct.pack(">I", len(packed) - 4) + packed + struct.pack(">I", zlib.crc32(packed))
    return b"".join([png[:PNG_HEADER], *chunks[:-1], image, chunks[-1]])


def as_svg(spec: dict[str, Any]) -> str:
    """Render an SVG."""
    require("charts", "a chart")
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[]))
