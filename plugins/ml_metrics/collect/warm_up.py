"""Finding the warm-up of a series: its first points, if they are at another level than the steady rest.

The second half of the series gives the level and the noise. The warm-up ends where the sum of the distances from this
level, less one spread for each point, is greatest. It counts only if the noise of the second half has almost nothing
alike, if what follows it is flat, and if it is short: a value that changes through the whole run, like a falling loss,
has no warm-up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.collect.strategies import median

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

MIN_POINTS = 8
MAX_SHARE = 1 / 3
"""The longest warm-up, as a share of the points."""
MAX_GRADUAL_SHARE = 1 / 10
"""The longest warm-up that approaches the steady level gradually. A longer one is a trend."""
MIN_GRADUAL_POINTS = 8
"""In fewer points, a gradual approach cannot be told from a few steps at other levels."""
CLIP = 4.0
"""In spreads: how much a single point can extend the warm-up."""
ALLOWANCE = 2.0
"""In spreads: the distance from the steady level that is no evidence."""
MIN_EVIDENCE = 5.0
"""In spreads: the sum of the distances beyond the allowance that a warm-up has at least."""
LINEAR_UP_TO = 4.0
"""In spreads: greater distances count by their logarithm, so that no outlier outweighs all else."""
MAX_ALIKE = 0.01
"""The greatest share of the steady part in which as many points in a row differ as much."""
MAX_DRIFT = 0.15
"""How much the level of the rest may change, as a share of its distance from the warm-up."""
MIN_DRIFT = 3.0
"""In spreads: how much the level of a series that changes throughout differs between its ends."""
RELATIVE_SPREAD = 1e-3
"""The smallest spread, as a share of the level: smaller differences do not matter."""
TINY_SPREAD = 1e-12
"""The smallest spread, as a share of the greatest value: of a level of zero without any noise."""
SD_OF_MAD = 1.4826
"""The standard deviation of normal noise, in median absolute deviations."""


class Absence(StrEnum):
    """Why a series has no warm-up."""

    SHORT = "short"
    STEADY = "steady"
    CHANGING = "changing"


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The first points of a series that are at another level than the rest."""

    points: int
    level: float
    """The median of the warm-up."""
    steady: float
    """The median of the rest."""


def find_warm_up(values: Values) -> WarmUp | Absence:
    """Return the warm-up of finite values in the order of their steps, or why there is none."""
    if len(values) < MIN_POINTS:
        return Absence.SHORT
    scale = math.ldexp(1.0, -math.frexp(float(np.abs(values).max()))[1]) if values.any() else 1.0
    scaled = values * scale if 0 < scale < math.inf else values * 2.0**1000
    found = _found(scaled)
    if isinstance(found, int):
        # a level of 0 has no sign
        return WarmUp(found, 2 * median(values[:found] / 2) + 0.0, 2 * median(values[found:] / 2) + 0.0)
    return found


def _found(values: Values) -> int | Absence:
    """Return the number of points, or why there is none."""
    distance = _distances(values)
    sides = [(_extent(one), one) for one in (distance, -distance)]
    short = [(points, one) for points, one in sides if 0 < points <= MAX_SHARE * len(values)]
    evident = [points for points, one in short if _is_evident(one, points)]
    if levels := [points for points in evident if _is_level(values, points)]:
        return max(levels)
    longest = max(points for points, _ in sides)
    if longest <= MAX_SHARE * len(values):
        return Absence.CHANGING if evident or _drifts(values) else Absence.STEADY
    # of a change in the middle, the part before it may have a warm-up of its own
    before = _found(values[:longest]) if MIN_POINTS <= longest < len(values) else Absence.CHANGING
    return before if isinstance(before, int) else Absence.CHANGING


def _distances(values: Values) -> Values:
    """Return the distance of each value from the steady level, in spreads of the steady part."""
    steady = values[len(values) // 2 :]
    level = median(steady)
    centred = values - level
    spread = SD_OF_MAD * median(np.abs(centred[len(values) // 2 :]))
    spread = max(spread * (1 + 4 / len(steady)), RELATIVE_SPREAD * abs(level), TINY_SPREAD)
    rest = np.clip(centred[len(values) // 2 :] / spread, -CLIP, CLIP)
    power = float(rest @ rest)
    alike = max(0.0, min(0.95, float(rest[1:] @ rest[:-1]) / power)) if power else 0.0
    return centred / (spread * math.sqrt((1 + alike) / (1 - alike)))


def _extent(distance: Values) -> int:
    """Return after how many points the sum of clipped distances is greatest."""
    sums = np.cumsum(np.clip(distance, -CLIP, CLIP) - ALLOWANCE)
    index = int(sums.argmax())
    return index + 1 if sums[index] > 0 else 0


def _is_evident(distance: Values, points: int) -> bool:
    """Whether almost nowhere in the steady part points in a row differ as much."""
    size = np.maximum(np.abs(distance), LINEAR_UP_TO)
    damped = np.clip(distance, -LINEAR_UP_TO, LINEAR_UP_TO) * (1 + np.log(size / LINEAR_UP_TO))
    sums = np.concatenate(([0.0], np.cumsum(damped - ALLOWANCE)))
    own = float(sums[points])
    steady = sums[len(distance) // 2 :]
    greatest = np.maximum.accumulate(steady[:0:-1])[::-1] - steady[:-1]
    return own >= MIN_EVIDENCE and float(np.mean(greatest >= own)) <= MAX_ALIKE


def _is_level(values: Values, points: int) -> bool:
    """Whether the rest is flat beside the warm-up, and the warm-up no long approach to it."""
    rest = values[points:]
    level = median(rest[len(rest) // 2 :])
    height = abs(median(values[:points]) - level)
    begin, _, end = np.array_split(rest, 3)
    if abs(median(begin) - median(end)) > MAX_DRIFT * height:
        return False
    if points < MIN_GRADUAL_POINTS or points <= MAX_GRADUAL_SHARE * len(values):
        return True
    first, second = (abs(median(part) - level) for part in np.array_split(values[1:points], 2))
    return second > first / 2


def _drifts(values: Values) -> bool:
    """Whether the last third is at another level than the first, beside the spread within them."""
    begin, _, end = np.array_split(values, 3)
    levels = [median(part) for part in (begin, end)]
    spreads = [median(np.abs(part - level)) for part, level in zip((begin, end), levels, strict=True)]
    return abs(levels[0] - levels[1]) > MIN_DRIFT * SD_OF_MAD * max(spreads)
