"""Where the current level of a baseline starts."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CERTAINTY = 0.9
"""How certain a change of level has to be to begin a baseline."""
SUSPICIOUS = 1.4
"""The search is skipped where the greatest sum of deviations in a row, divided by the noise and the square root of the
number of values, is smaller. One stable series in 20 is searched, and every one with a change that is certain."""
CLIPPED = 3.0
"""The greatest deviation that counts, in noises."""


def level_starts(values: Sequence[float], least: int) -> list[int]:
    """Return the indexes at which certain levels start, newest first, with at least so many values from there on."""
    if len(values) < 2 * least or not may_have_levels(values):
        return []
    return [start for start in _starts(tuple(values)) if len(values) - start >= least]


@lru_cache(maxsize=256)  # the rules that a calibration tries have mostly the same baselines, as have failing runs
def _starts(values: tuple[float, ...]) -> list[int]:
    from ml_metrics.judge.changepoint import change_points  # imports numpy, which most judgements do not need

    return [step.index for step in reversed(change_points(values, certainty=CERTAINTY))]


def may_have_levels(values: Sequence[float]) -> bool:
    """Whether values drift from their median by more than independent noise usually does; a quick test."""
    import numpy as np  # not for conditions without a history

    halves = np.asarray(values, dtype=np.float64) / 2  # the difference of two finite numbers may be infinite
    middle = np.sort(halves)[len(halves) // 2]
    steps = np.sort(np.abs(halves[1:] - halves[:-1]))
    if steps[-1] == 0:
        return False
    noise = steps[len(steps) // 2] / 0.954 or steps[-1]
    with np.errstate(over="ignore"):  # an infinite deviation is clipped, too
        clipped = ((halves - middle) / noise).clip(-CLIPPED, CLIPPED)
    sums = np.abs(np.cumsum(clipped - clipped.mean()))
    return bool(sums.max() >= SUSPICIOUS * math.sqrt(len(clipped)))
