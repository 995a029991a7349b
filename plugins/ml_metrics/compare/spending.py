"""The looks at a comparison that is under way, and the level of each, so that all looks together keep one level.

The level is spent nearly in proportion to the runs that are there (Lan and DeMets). The distribution of a look is that
of a Brownian motion which no earlier look has stopped (Armitage, McPherson and Rowe).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

LEVEL = 0.05
FIRST_LEVEL = 0.01
"""What the first look spends: enough for a change that is large compared with the noise, whatever the plan."""
LOOKS = 8
"""Looks at the most: more would cost level and save few runs."""
FIRST = 3
"""Blocks before the first look: two blocks of four have 36 orders, too few for any level below 0.05."""
GRID = 401
WIDEST = 8.0


@lru_cache(maxsize=256)
def looks(horizon: int) -> dict[int, float]:
    """Return the numbers of blocks at which is looked, each with its two-sided level."""
    places = sorted({FIRST, *(max(FIRST, math.ceil(horizon * look / LOOKS)) for look in range(1, LOOKS + 1))})
    return dict(zip(places, _levels([place / places[-1] for place in places]), strict=True))


def _levels(shares: list[float]) -> list[float]:
    """Return the level of each look, given the share of the runs that it sees."""
    levels: list[float] = []
    grid, density = np.zeros(1), np.ones(1)
    before, spent = 0.0, 0.0
    for share in shares:
        deviation = math.sqrt(share - before)
        target = _spent(share, shares[0]) - spent
        bound = _bound(grid, density, deviation, target)
        levels.append(2 * NormalDist().cdf(-bound / math.sqrt(share)))
        spent += target
        following = np.linspace(-bound, bound, GRID)
        step = following[1] - following[0]
        steps = np.exp(-(((following[:, None] - grid) / deviation) ** 2) / 2) / (deviation * math.sqrt(2 * math.pi))
        density = steps @ density * step
        density[[0, -1]] /= 2  # the trapezoidal rule
        grid, before = following, share
    return levels


def _spent(share: float, first: float) -> float:
    """Return the level that is spent by a look."""
    if first == 1:
        return LEVEL
    start = max(FIRST_LEVEL, LEVEL * first)
    return start + (LEVEL - start) * (share - first) / (1 - first)


def _bound(grid: Values, density: Values, deviation: float, target: float) -> float:
    """Return the bound that the motion crosses on either side with a probability."""
    low, high = 0.0, WIDEST
    for _ in range(50):
        middle = (low + high) / 2
        crossing = sum(
            weight * math.erfc((middle - place) / (deviation * math.sqrt(2)))
            for place, weight in zip(grid.tolist(), density.tolist(), strict=True)
        )
        low, high = (middle, high) if crossing > target else (low, middle)
    return (low + high) / 2
