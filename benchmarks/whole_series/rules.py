"""The rules that are compared. Each returns the first index of each new level in a whole series."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import older_change_points
from ml_metrics.judge import change_points
from run_by_run.rules import OTAVA_PYTHON

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Find = Callable[[Sequence[float]], list[int]]

FIND_BY_OTAVA = Path(__file__).parent / "find_by_otava.py"
MIN_BACK, BACK, FORE, LEAST_T = 12, 24, 12, 7.0
"""Perfherder compares so many values before a place with so many from it on."""


def rules() -> dict[str, Find]:
    """Return the rules that search one series after the other."""
    return {
        "ours": find_by_us,
        "Perfherder's t-test, t > 7": find_by_t_test,
        "the former rule, 5 %": lambda values: find_by_former_rule(values, 5.0),
        "the former rule, no percentage": lambda values: find_by_former_rule(values, 0.0),
        "nothing": lambda _: [],
    }


def find_by_us(values: Sequence[float]) -> list[int]:
    """Search as `ml-metrics changes` does."""
    return [step.index for step in change_points(values)]


def find_by_former_rule(values: Sequence[float], min_change_percent: float) -> list[int]:
    """Search for significant, large and lasting changes."""
    steps = older_change_points.change_points(
        list(values), p_value=0.001, min_change_percent=min_change_percent, min_runs=3
    )
    return [step.index for step in steps]


def find_by_t_test(values: Sequence[float]) -> list[int]:
    """Search for local maxima of Student's t, with weights that fall linearly with the distance from the place."""
    series = np.asarray(values, dtype=np.float64)
    t = np.zeros(len(series) + 1)
    for place in range(MIN_BACK, len(series) - FORE + 1):
        t[place] = _t(series[max(0, place - BACK) : place][::-1], series[place : place + FORE])
    return [
        place
        for place in range(MIN_BACK, len(series) - FORE + 1)
        if t[place] > LEAST_T and t[place] >= max(t[place - 1], t[place + 1])
    ]


def find_by_otava(many: Sequence[Sequence[float]]) -> list[list[int]]:
    """Search by apache-otava with its defaults, which has an environment of its own."""
    asked = json.dumps(list(map(list, many)))
    answer = subprocess.run([OTAVA_PYTHON, FIND_BY_OTAVA], input=asked, capture_output=True, text=True, check=True)
    found: list[list[int]] = json.loads(answer.stdout)
    return found


def _t(back: Values, fore: Values) -> float:
    (old, old_error), (new, new_error) = (_weighted(side) for side in (back, fore))
    if old == new:
        return 0.0
    error = math.sqrt(old_error + new_error)
    return abs(new - old) / error if error else math.inf


def _weighted(side: Values) -> tuple[float, float]:
    """Return the weighted mean of values, nearest first, and the square of its standard error."""
    mean = float(np.average(side, weights=np.arange(len(side), 0, -1)))
    return mean, float(np.sum(np.square(side - mean))) / (len(side) - 1) / len(side)
