"""Turns a series into multiples of its own noise, with outliers clipped, whatever its magnitude.

The noise is that of neighbouring values, because a change of level affects few of them. Where the level wanders all the
time, its usual wandering counts as noise, too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

NORMAL_MAD = 0.6745
"""The median absolute deviation of a normal distribution with standard deviation 1."""
MIN_LENGTH = 10
"""Fewer values have no noise to speak of."""
CLIP = 3.0
"""How many noises a value may differ from the median of its neighbourhood."""
REACH = 5
"""How many values on each side are its neighbourhood: two outliers are no majority, even next to each other."""
BLOCK, LEAST_BLOCKS = 12, 8
"""The length of the blocks whose medians show how far the level wanders, and how many of them are required: in fewer, a
single change of level would seem to be wandering."""
STEADY = 0.55
"""The level wanders if the medians of neighbouring blocks usually differ by more than this multiple of the noise."""
WIDE = 100.0
"""A gap between values that is wider than this multiple of the noise counts as this wide, so that sums stay exact."""
LARGE, SMALL = 2.0**1000, 2.0**-900
"""Beyond these magnitudes, sums of values overflow or lose digits."""


def in_noise_units(series: Values) -> Values | None:
    """Return the series in units of its noise, without outliers; or None if it has no noise or is too short."""
    if len(series) < MIN_LENGTH:
        return None
    usual = _moderate(series)
    unit = noise_of(usual)
    if unit == 0:
        return None
    if (wandering := _wandering(clipped(usual, unit))) > STEADY * unit:
        unit = max(unit, wandering / STEADY, _wandering(usual) / STEADY)
    return _in_units(clipped(usual, unit), unit)


def noise_of(series: Values) -> float:
    """Return the standard deviation of the noise; 0 if every value differs equally from the one before.

    If most do, the noise is made of the smaller of the other differences: the larger ones may be changes of level.
    """
    differences = np.diff(series)
    unusual = np.abs(differences - median(differences))
    if middle := median(unusual):
        return middle / (NORMAL_MAD * math.sqrt(2))
    others = np.sort(unusual[unusual > 0])
    return float(others[(len(others) - 1) // 8]) * math.sqrt(len(others) / len(unusual) / 2) if len(others) else 0.0


def median(values: Values) -> float:
    """Return the median. That of numpy overflows for huge values, and is slow in short series, which it only checks."""
    ordered = np.sort(values)
    low, high = float(ordered[(len(ordered) - 1) // 2]), float(ordered[len(ordered) // 2])
    return low if low == high else low / 2 + high / 2


def clipped(series: Values, unit: float) -> Values:
    """Return the series with each value at most `CLIP` noises from the median of its neighbourhood."""
    windows = sliding_window_view(np.pad(series, REACH, mode="reflect"), 2 * REACH + 1)
    middle = np.median(windows, axis=1)
    return np.clip(series, middle - CLIP * unit, middle + CLIP * unit)


def _wandering(series: Values) -> float:
    """Return the usual difference between the medians of neighbouring blocks, read from both ends of the series."""
    if len(series) < LEAST_BLOCKS * BLOCK:
        return 0.0
    steps = []
    for values in (series, series[::-1]):
        for offset in (0, BLOCK // 2):
            count = (len(values) - offset) // BLOCK
            blocks = values[offset : offset + count * BLOCK].reshape(count, BLOCK)
            steps.append(np.abs(np.diff(np.median(blocks, axis=1))))
    return median(np.concatenate(steps))


def _moderate(series: Values) -> Values:
    """Return the series times a power of two by which sums of its values are finite and keep their digits."""
    largest = float(np.max(np.abs(series)))
    if not math.isfinite(largest):
        raise ValueError("every value should be finite")
    return series * (2.0**-40 if largest > LARGE else 2.0**100 if largest < SMALL else 1.0)


def _in_units(series: Values, unit: float) -> Values:
    """Return the series divided by its noise, around its median, with every wide gap between values narrowed."""
    levels, places = np.unique(series, return_inverse=True)
    gaps = np.minimum(np.diff(levels), WIDE * unit) / unit
    scaled = np.concatenate(([0.0], np.cumsum(gaps)))[places]
    centred: Values = scaled - median(scaled)
    return centred
