"""Values of a baseline that are implausibly far from the others.

The distance is measured in spreads around the median. The spread is the larger of 1.4826 times the median absolute
deviation and the 80th percentile of the absolute deviations divided by 1.2816. For normal noise, both are the standard
deviation; up to a fifth of the values can be outliers, or a second mode, without hiding or making one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

LEAST_VALUES = 8
"""With fewer values, no value is implausible: their spread is too uncertain."""
FAR = 8.0
"""How many spreads from the median are implausible. Noise with heavy tails (Student's t, 3 degrees of freedom) exceeds
it in one run of 2,000; two modes, autocorrelated, seasonal and quantised noise do not."""
YOUNG = 6.0
"""The limit is larger by this many parts of the number of values, because a few values can be close by chance."""
CONSTANT_SPREAD = 0.05
"""The spread of values of which more than nine in ten are equal, as a share of the median."""
LARGEST = 1.7e308
LASTING = 9
"""How many values in a row are a level and not outliers."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The median of a baseline, and the distance from it that is implausible."""

    median: float
    spread: float
    limit: float
    """In spreads."""

    def spreads(self, value: float) -> float:
        """Return the distance of a value from the median in spreads, negative below it."""
        return (value / 2 - self.median / 2) / (self.spread / 2)

    def side(self, value: float) -> int:
        """Return 1 or -1 if a value is implausibly far above or below the median, and 0 if it is plausible."""
        spreads = self.spreads(value)
        return (spreads > self.limit) - (spreads < -self.limit)


def scale_of(values: Sequence[float] | Values) -> Scale | None:
    """Return the scale of a baseline; None if it has too few values or they define no distance."""
    count = len(values)
    if count < LEAST_VALUES:
        return None
    import numpy as np  # not for conditions without a history

    halves = np.sort(np.asarray(values, dtype=np.float64) / 2)  # the difference of two finite numbers may be infinite
    middle = _median(halves)
    distances = np.sort(np.abs(halves - middle)).tolist()
    spread = max(1.4826 * _median(distances), distances[int(0.8 * (count - 1))] / 1.2816)
    spread = spread or distances[int(0.9 * (count - 1))] / 1.6449 or CONSTANT_SPREAD * abs(middle)
    middle, spread = 2 * middle, min(2 * spread, LARGEST)
    return Scale(middle, spread, FAR * (1 + YOUNG / count)) if spread > 0 else None


def outliers(values: Sequence[float]) -> frozenset[int]:
    """Return the indexes of the implausible values.

    The value that is farthest from the median of the others is measured by their scale, and left out if it is far; then
    the next. So what a value does to the scale cannot hide it or another one.
    """
    if len(values) <= LEAST_VALUES:
        return frozenset()
    import numpy as np

    found: list[int] = []
    order = np.argsort(values, kind="stable")
    rest = np.asarray(values, dtype=np.float64)[order]
    while len(rest) > LEAST_VALUES:
        middle = rest[len(rest) // 2] / 2
        farthest, kept = (-1, slice(-1)) if rest[-1] / 2 - middle >= middle - rest[0] / 2 else (0, slice(1, None))
        scale = scale_of(rest[kept])
        if scale is None or not scale.side(float(rest[farthest])):
            break
        found.append(int(order[farthest]))
        order, rest = order[kept], rest[kept]
    return frozenset(found)


def levels_among(found: frozenset[int], values: Sequence[float]) -> list[list[int]]:
    """Return the outliers that are a level of their own: at least nine in a row, all above the others or all below."""
    if len(found) < LASTING:
        return []
    middle = _median(sorted(value / 2 for index, value in enumerate(values) if index not in found))
    sides = [(1 if value / 2 > middle else -1) if index in found else 0 for index, value in enumerate(values)]
    streaks = [(side, list(group)) for side, group in groupby(range(len(values)), sides.__getitem__)]
    return [streak for side, streak in streaks if side and len(streak) >= LASTING]


def _median(ordered: Sequence[float] | Values) -> float:
    return float((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)
