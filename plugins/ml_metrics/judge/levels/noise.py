"""The noise of a metric around its level: how far runs scatter, and how much a run resembles the one before.

Many baselines are described at once: each row of an array is one baseline, or one group of newest runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Places = NDArray[np.int_]

BASELINE_RUNS = 100
"""How many runs a baseline has at most."""
P50_OF_NORMAL, P68_OF_NORMAL, P80_OF_NORMAL, NEIGHBOURS_OF_NORMAL = 0.6745, 0.9945, 1.2816, 0.954
"""The median, 68th and 80th percentile of |x|, and the median of |x - y|, where the standard deviation is 1."""
MEDIAN_ERROR = 1.25
"""The standard error of a median in units of that of a mean, for normal noise."""
NEAR_RUNS = 12
OUTLIER = 2.5
"""Further from the level than this, in units of the noise, a value counts as that far: outliers have no memory."""
STRONG_MEMORY, MAX_MEMORY = 0.15, 0.85
MEMORY_ERROR = 1.0
"""How many standard errors are added to a strong memory, which few runs underestimate."""
SMALL_BASELINE = 3.0
"""The error of a baseline of n runs is larger by `SMALL_BASELINE` / (n - 4), because few runs hide their noise."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """The levels and the noise of baselines, one for each entry."""

    count: Places
    level: Values
    spread: Values
    """The standard deviation, robustly: a second mode or a rounding unit widens it, outliers do not."""
    memory: Values
    """The correlation of a run with the one before, at its upper end."""

    def one(self, index: int) -> Baselines:
        """Return a single baseline."""
        chosen = slice(index, index + 1)
        return Baselines(self.count[chosen], self.level[chosen], self.spread[chosen], self.memory[chosen])


def baselines_before(values: Values, ends: Places) -> Baselines:
    """Describe the newest values before each index."""
    rows = _windows_before(values, ends, BASELINE_RUNS)
    count = np.minimum(ends, BASELINE_RUNS)
    level = _middles(np.sort(rows, axis=1), count)
    distances = np.abs(rows - level[:, None])
    ordered = np.sort(distances, axis=1)
    spread = _spreads(ordered, count)
    return Baselines(count, level, spread, _memories(rows - level[:, None], spread, count))


def levels_before(values: Values, first: int, end: int) -> Values:
    """Return, for each index in [first, end), the median of the newest values before it; NaN for other indexes."""
    levels = np.full(len(values) + 1, np.nan)
    padded = np.concatenate([np.full(BASELINE_RUNS, np.nan), values])
    rows = np.sort(sliding_window_view(padded, BASELINE_RUNS)[first:end], axis=1)  # a view until it is sorted
    levels[first:end] = _middles(rows, np.minimum(np.arange(first, end), BASELINE_RUNS))
    return levels


def spreads(rows: Values) -> Values:
    """Return the standard deviation of each row, robustly."""
    distances = np.sort(np.abs(rows - _row_medians(np.sort(rows, axis=1))[:, None]), axis=1)
    count = np.full(len(rows), rows.shape[1])
    return _spreads(distances, count)


def _spreads(distances: Values, count: Places) -> Values:
    """Return the spread of each row of ordered distances from the level.

    The 80th percentile shows a second mode. The median counts unless a rounding unit has made it larger than the rest.
    """
    middle = np.minimum(_middles(distances, count) / P50_OF_NORMAL, _quantiles(distances, count, 0.68) / P68_OF_NORMAL)
    return np.maximum(middle, _quantiles(distances, count, 0.8) / P80_OF_NORMAL)


def neighbour_noise(values: Values, runs: Places, length: int = NEAR_RUNS) -> Values:
    """Return the noise between neighbours, among the newest runs up to each: a step affects one difference only."""
    steps = np.abs(np.diff(values))
    count = np.minimum(runs, length - 1)
    if not len(steps):
        return np.zeros(len(runs))
    middle = _middles(np.sort(_windows_before(steps, runs, length - 1), axis=1), np.maximum(count, 1))
    return np.where(count >= NEAR_RUNS // 4, middle / NEIGHBOURS_OF_NORMAL, 0.0)


def errors_of_shifts(baselines: Baselines, local: Values, size: int) -> Values:
    """Return the standard error of the distance of `size` runs, which scatter by `local` at least, from the level."""
    small = 1 + SMALL_BASELINE / np.maximum(1, baselines.count - 4)
    new = np.maximum(baselines.spread, local) * error_of_mean(size, baselines.memory)
    old = baselines.spread * error_of_mean(baselines.count, baselines.memory)
    return MEDIAN_ERROR * small * np.hypot(new, old)


def error_of_mean(count: int | Places, memory: float | Values) -> Values:
    """Return the standard error of the mean of neighbouring runs, in units of the noise of one (AR(1))."""
    runs = np.asarray(count, dtype=np.float64)
    variance = ((1 + memory) / (1 - memory) - 2 * memory * (1 - memory**runs) / (runs * (1 - memory) ** 2)) / runs
    return cast("Values", np.sqrt(variance))


def memory_of(residuals: Values, spread: float) -> float:
    """Return the correlation of each residual with the one before, at its upper end."""
    row, spreads_, count = residuals[None], np.array([spread]), np.array([len(residuals)])
    return float(_memories(row - np.median(row), spreads_, count)[0])


def _memories(residuals: Values, spread: Values, count: Places) -> Values:
    unit = np.where(spread > 0, spread, 1.0)
    with np.errstate(over="ignore"):  # what overflows is an outlier
        rest = np.clip(np.nan_to_num(residuals / unit[:, None]), -OUTLIER, OUTLIER)
    power = np.einsum("ij,ij->i", rest, rest)
    memory = np.einsum("ij,ij->i", rest[:, 1:], rest[:, :-1]) / np.where(power > 0, power, 1.0)
    memory += (1 + 3 * np.maximum(memory, 0)) / count  # the bias of few runs
    memory = np.where(memory > STRONG_MEMORY, memory + MEMORY_ERROR / np.sqrt(count), memory)
    return np.where((spread > 0) & (count >= NEAR_RUNS // 2), np.clip(memory, 0, MAX_MEMORY), 0.0)


def _windows_before(values: Values, ends: Places, length: int) -> Values:
    """Return the values before each index as a row, with NaN where there are fewer than `length`."""
    padded = np.concatenate([np.full(length, np.nan), values])
    return cast("Values", sliding_window_view(padded, length)[ends])


def _middles(ordered: Values, count: Places) -> Values:
    """Return the median of the first `count` values of each ordered row."""
    rows = np.arange(len(ordered))
    return 0.5 * ordered[rows, (count - 1) // 2] + 0.5 * ordered[rows, count // 2]


def _row_medians(ordered: Values) -> Values:
    length = ordered.shape[1]
    return 0.5 * ordered[:, (length - 1) // 2] + 0.5 * ordered[:, length // 2]


def _quantiles(ordered: Values, count: Places, share: float) -> Values:
    place = (count - 1) * share
    lower = np.floor(place).astype(np.int_)
    rows = np.arange(len(ordered))
    rest = place - lower
    return cast("Values", ordered[rows, lower] * (1 - rest) + ordered[rows, np.minimum(lower + 1, count - 1)] * rest)
