"""The level and spread of a series of values.

This is plain Python: for the few hundred values of a baseline, `math.fsum` is exact and faster than creating an array.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PLATEAU = 9
"""How many runs in a row make a best level: one to four lucky runs do not."""


@dataclass(frozen=True, slots=True)
class Level:
    """The level of a series, and its spread in the unit of a rule."""

    value: float
    spread: float
    name: str
    """`mean`, `median`, `best level`."""


def mean_level(values: Sequence[float]) -> Level:
    """Return the mean and the standard deviation of the population (ddof 0)."""
    level = mean(values)
    return Level(level, math.dist(values, [level] * len(values)) / math.sqrt(len(values)), "mean")


def median_level(values: Sequence[float]) -> Level:
    """Return the median and the median absolute deviation from it."""
    level = median(values)
    return Level(level, median([abs(value - level) for value in values]), "median")


def best_level(values: Sequence[float], *, greater_is_better: bool, robust: bool = False) -> Level:
    """Return the best plateau: the best median of `PLATEAU` runs in a row, or the median of all if there are fewer.

    The spread is computed from differences d of neighbours, because deviations from the mean would grow with the slow
    change to be detected: `sqrt(mean(d²) / 2)`, or `median(|d|) / sqrt(2)` if `robust`. For steady noise these are the
    standard deviation and the median absolute deviation.
    """
    length = min(PLATEAU, len(values))
    plateaus = [median(values[start : start + length]) for start in range(len(values) - length + 1)]
    steps = [after - before for before, after in pairwise(values)]
    level = max(plateaus) if greater_is_better else min(plateaus)
    if not steps:
        return Level(level, 0.0, "best level")
    spread = median(map(abs, steps)) if robust else math.hypot(*steps) / math.sqrt(len(steps))
    return Level(level, spread / math.sqrt(2), "best level")


def mean(values: Sequence[float]) -> float:
    """Return the mean, exact for equal values: rounding must not make a constant differ from its mean."""
    least, greatest = min(values), max(values)
    return least if least == greatest else min(max(math.fsum(values) / len(values), least), greatest)
