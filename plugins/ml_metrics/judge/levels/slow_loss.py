"""A slow loss, which adds up although no run differs much from the ones before."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ml_metrics.judge.levels.noise import (
    BASELINE_RUNS,
    MEDIAN_ERROR,
    NEIGHBOURS_OF_NORMAL,
    error_of_mean,
    memory_of,
    neighbour_noise,
    spreads,
)
from ml_metrics.judge.levels.shifts import Loss

if TYPE_CHECKING:
    from ml_metrics.judge.levels.noise import Places, Values
    from ml_metrics.judge.levels.rule import LevelRule

PLATEAU, TAIL = 21, 15
"""The newest 15 runs are compared with the best 21 runs in a row."""
PERCENT, ERRORS, NOISE = 4.25, 5.5, 2.9
"""How large a slow loss is: in percent, in standard errors, and in the noise of one run."""
SLOPE_RUNS = 60


def slow_loss(values: Values, first: int, end: int, best: float, rule: LevelRule) -> tuple[Loss | None, float]:
    """Return the first slow loss in [first, end), and the best plateau until there. `best` is that of earlier runs."""
    start = max(first, PLATEAU + 2)
    if start >= end:
        return None, best
    runs = np.arange(start, end)
    bests = np.minimum(best, np.minimum.accumulate(_medians(values, PLATEAU, runs)))
    tails = _medians(values, TAIL, runs)
    least = np.maximum(rule.smallest_change(bests), np.abs(bests) * (PERCENT / 100))
    chosen = np.flatnonzero(tails - bests >= least)
    chosen = chosen[tails[chosen] - bests[chosen] > _smallest_noise(values, runs[chosen])]
    for index in chosen:
        run, after, before = int(runs[index]), float(tails[index]), float(bests[index])
        if after - before > _noise_of_gap(values[max(0, run + 1 - BASELINE_RUNS) : run + 1]):
            return Loss(run, TAIL, before, after), before
    return None, float(bests[-1])


def _medians(values: Values, length: int, runs: Places) -> Values:
    medians: Values = np.median(sliding_window_view(values, length)[runs - length + 1], axis=1)
    return medians


def _smallest_noise(values: Values, runs: Places) -> Values:
    """Return the gap that noise without any memory can make."""
    near = neighbour_noise(values, runs, BASELINE_RUNS)
    noise = np.maximum(near, spreads(sliding_window_view(values, TAIL)[runs - TAIL + 1]))
    error = MEDIAN_ERROR * noise * np.hypot(error_of_mean(TAIL, 0.0), error_of_mean(PLATEAU, 0.0))
    return np.maximum(ERRORS * error, NOISE * near)


def _noise_of_gap(values: Values) -> float:
    """Return the gap that noise can make. The memory is that of the residuals, since a slope is no memory."""
    steps = np.diff(values)
    near = _neighbours(steps)
    noise = max(near, float(spreads(values[-TAIL:][None])[0]))
    slope = _without_slope(values[-SLOPE_RUNS:])
    memory = max(memory_of(steps, _neighbours(np.diff(steps))), memory_of(slope, noise))
    error = MEDIAN_ERROR * noise * math.hypot(error_of_mean(TAIL, memory), error_of_mean(PLATEAU, memory))
    return max(ERRORS * error, NOISE * near)


def _neighbours(steps: Values) -> float:
    """Return the noise between neighbours; from the mean where most of them are equal."""
    return float(np.median(np.abs(steps))) / NEIGHBOURS_OF_NORMAL or float(np.hypot.reduce(steps)) / math.sqrt(
        2 * len(steps)
    )


def _without_slope(values: Values) -> Values:
    places = np.arange(len(values)) - (len(values) - 1) / 2
    rest = values - values.mean()
    flat: Values = rest - float(places @ rest) / float(places @ places) * places
    return flat
