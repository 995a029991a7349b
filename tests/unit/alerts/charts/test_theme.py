"""Colours have enough contrast on light and dark pages."""

from __future__ import annotations

import pytest

from ml_metrics.alerts.charts.frame import BLUE, GREY, ORANGE, RED, SERIES_COLOURS, SERIES_SHAPES
from ml_metrics.alerts.charts.run import COLOURS

PAGES = {"light": "#ffffff", "dark": "#161d2d"}
"""As in dashboard.css."""


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("colour", sorted({BLUE, ORANGE, RED, GREY, *SERIES_COLOURS, *COLOURS.values()}))
def test_every_mark_has_enough_contrast(colour: str, page: str) -> None:
    assert contrast(colour, PAGES[page]) >= 3


def test_there_is_a_shape_for_every_colour() -> None:
    assert len(set(SERIES_COLOURS)) == len(set(SERIES_SHAPES)) == len(SERIES_COLOURS)
