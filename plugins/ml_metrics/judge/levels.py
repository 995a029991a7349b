"""The level of a series of values and how far they spread: what historical bounds are measured in.

Plain Python: a baseline has some hundred values, for which `math.fsum` is exact and faster than making an array.
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
"""How many runs in a row make a level that may be called the best: a lucky run or four do not."""


@dataclass(frozen=True, slots=True)
class Level:
    """Where a series stands, and its spread in the unit that a rule counts in."""

    value: float
    spread: float
    name: str
    """`mean`, `median`, `best level`."""


def mean_level(values: Sequence[float]) -> Level:
    """The mean and the standard deviation of the population (ddof 0)."""
    level = mean(values)
    return Level(level, math.dist(values, [level] * len(values)) / math.sqrt(len(values)), "mean")


def median_level(values: Sequence[float]) -> Level:
    """The median and the median absolute deviation from it."""
    level = median(values)
    return Level(level, median([abs(value - level) for value in values]), "median")


def best_level(values: Sequence[float], *, greater_is_better: bool, robust: bool = False) -> Level:
    """The best plateau: the best median of `PLATEAU` runs in a row, or the median of all where they are fewer.

    The spread is measured between neighbours, since the distance from one mean would grow with the very creep that is
    looked for: `sqrt(mean(d²) / 2)`, or where `robust` is wanted `median(|d|) / sqrt(2)`, which for steady noise are
    the standard deviation and the median absolute deviation.
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
    """The mean, exact for equal values: a constant must not differ from itself by rounding."""
    least, greatest = min(values), max(values)
    return least if least == greatest else min(max(math.fsum(values) / len(values), least), greatest)
