"""The former rule `change_point`: a search of the newest 100 values after each run.

The first level is the one to keep, and a better one replaces it. While a loss is open, the level to keep is the median
of the last nine runs that passed.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from older_change_points import change_points

if TYPE_CHECKING:
    from run_by_run.noise import Values
    from run_by_run.stories import Flags

WINDOW, KEPT, LEAST = 100, 9, 5
PERCENT = 5.0


def fails_by_older_change_points(values: Values) -> Flags:
    """Return which runs fail by the defaults of the former rule."""
    failing = np.zeros(len(values), dtype=np.bool_)
    for run in range(LEAST, len(values)):
        newest = values[max(0, run - WINDOW) : run + 1]
        steps = change_points(newest.tolist(), p_value=0.001, min_change_percent=PERCENT, min_runs=3)
        levels = [steps[0].before, *(step.after for step in steps)] if steps else [float(np.median(newest))]
        good = levels[0]
        if failing[run - 1]:
            passed = values[:run][~failing[:run]]
            good = median(passed[-KEPT:].tolist())
        for level in levels:
            good = min(good, level)
        failing[run] = levels[-1] > good + abs(good) * PERCENT / 100
    return failing
