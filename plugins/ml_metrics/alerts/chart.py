"""A metric over its runs as a small picture: values, the bounds they were judged by, and which of them broke."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT, MARGIN = 640, 240, 40
INK, BAND, WELL, BROKEN = "#475569", "#bfdbfe", "#2563eb", "#dc2626"


@dataclass(frozen=True, slots=True)
class Mark:
    """One run in the picture."""

    value: float
    lower: float | None
    upper: float | None
    well: bool


def draw(title: str, marks: Sequence[Mark]) -> str:
    """The picture as SVG, oldest run on the left."""
    scale = _Scale(marks)
    line = " ".join(scale.at(index, mark.value) for index, mark in enumerate(marks))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            f'<title>{escape(title)}</title><rect width="100%" height="100%" fill="white"/>',
            '<g font-family="sans-serif" font-size="12">',
            f'<text x="{MARGIN}" y="20" fill="{INK}" font-size="14">{escape(title)}</text>',
            *(_band(scale, index, mark) for index, mark in enumerate(marks)),
            f'<polyline fill="none" stroke="{WELL}" points="{line}"/>',
            *(_dot(scale, index, mark) for index, mark in enumerate(marks)),
            *(f'<text x="2" y="{scale.y(value) + 4:.1f}" fill="{INK}">{value:.4g}</text>' for value in scale.ends),
            "</g></svg>",
        ]
    )


class _Scale:
    """From runs and values to the picture's own units."""

    def __init__(self, marks: Sequence[Mark]) -> None:
        shown = [mark.value for mark in marks]
        shown += [bound for mark in marks for bound in (mark.lower, mark.upper) if bound is not None]
        finite = [value for value in shown if math.isfinite(value)] or [0.0]
        self.ends = (min(finite), max(finite)) if min(finite) < max(finite) else (min(finite) - 1, max(finite) + 1)
        self.count = len(marks)

    def x(self, index: float) -> float:
        return MARGIN + 20 + (WIDTH - 2 * MARGIN - 20) * (index + 0.5) / max(1, self.count)

    def y(self, value: float) -> float:
        low, high = self.ends
        share = min(1.0, max(0.0, (value - low) / (high - low)))
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * share

    def at(self, index: int, value: float) -> str:
        return f"{self.x(index):.1f},{self.y(value):.1f}"


def _band(scale: _Scale, index: int, mark: Mark) -> str:
    """Where the value was well. An open side reaches the edge of the picture."""
    if mark.lower is None and mark.upper is None:
        return ""
    top = scale.y(mark.upper) if mark.upper is not None else MARGIN - 10
    bottom = scale.y(mark.lower) if mark.lower is not None else HEIGHT - MARGIN + 10
    left, right = scale.x(index - 0.5), scale.x(index + 0.5)
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}"'
        f' fill="{BAND}" fill-opacity="0.6"/>'
    )


def _dot(scale: _Scale, index: int, mark: Mark) -> str:
    x, y = scale.x(index), scale.y(mark.value)
    if mark.well:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{WELL}"/>'
    return f'<path d="M{x - 5:.1f} {y - 5:.1f}l10 10m0-10l-10 10" stroke="{BROKEN}" stroke-width="2.5"/>'
