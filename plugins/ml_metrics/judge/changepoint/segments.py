"""Divides a series into segments of one level each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

MIN_RUNS = 5
"""The least length of a segment."""
PENALTY = 2.5
"""What a cut costs, as a multiple of the logarithm of the length: few enough to miss no cut that people mark."""


def best_edges(series: Values) -> list[int]:
    """Return the edges of the best division, both ends of the series included.

    Optimal partitioning: the squared errors around the means of the segments, in units of the noise, plus a penalty for
    each cut, are as small as possible.
    """
    count = len(series)
    penalty = PENALTY * math.log(count)
    sums = np.concatenate(([0.0], np.cumsum(series)))
    squares = np.concatenate(([0.0], np.cumsum(np.square(series))))
    best = np.full(count + 1, np.inf)
    best[0] = -penalty
    cut_before = np.zeros(count + 1, dtype=np.int64)
    lengths = np.arange(count, 0, -1.0)
    for end in range(MIN_RUNS, count + 1):
        starts = end - MIN_RUNS + 1
        totals = (
            best[:starts] - squares[:starts] - np.square(sums[end] - sums[:starts]) / lengths[count - end :][:starts]
        )
        cut_before[end] = cut = int(totals.argmin())
        best[end] = totals[cut] + squares[end] + penalty
    edges = [count]
    while edges[-1] > 0:
        edges.append(int(cut_before[edges[-1]]))
    return edges[::-1]
