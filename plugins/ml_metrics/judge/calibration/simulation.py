"""Runs that are simulated from a metric's own noise, to measure what a rule would find in them.

Values are scaled to at most 1 and turned so that a greater one is worse. The runs are drawn in blocks, so that noise
with a memory keeps it; a little normal noise is added, because a short history does not hold its own extremes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ml_metrics.judge.bounds import PLATEAU
from ml_metrics.judge.calibration.noise import MAX_RUNS, Kind, at_one_level

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ml_metrics.judge.calibration.noise import Noise

    Values = NDArray[np.float64]
    Level = Callable[[Values], tuple[Values, Values]]
    """The reference and the unit of the margin for each run from `WINDOW` on, of one series in each row."""

SEED = 20260101
FALSE_ALARMS = 0.001
"""The budget: one false alarm in 1,000 runs."""
WITHIN_RUNS = 7
FOUND_SHARE = 0.95
"""A change counts as found if this share of its simulations is found within `WITHIN_RUNS` runs."""
WINDOW = 100
SERIES, JUDGED = 120, 200
"""Healthy series and judged runs in each, from which the false alarms are counted."""
LOSSES = 200
STEPS = 10
"""Halvings of the interval in which the smallest change is searched, which begins with `LARGEST` deviations."""
LARGEST = 40.0
SMOOTH = 0.2
"""The added noise in standard deviations."""


@dataclass(frozen=True, slots=True)
class SimulatedRuns:
    """Healthy runs of a metric, as many series as rows."""

    healthy: Values
    spread: float
    """The deviation of the metric's noise, in the same unit."""
    scale: float
    """What a value is divided by."""
    sign: int
    """-1 if the values were turned."""

    @property
    def losses(self) -> Values:
        """Series of a baseline and the runs in which a loss has to be found; the loss is added later."""
        length = WINDOW + WITHIN_RUNS
        per_series = self.healthy.shape[1] // length
        cut = self.healthy[:, : per_series * length].reshape(-1, length)
        return cut[:LOSSES]


def simulated(values: Sequence[float], noise: Noise, *, greater_is_worse: bool) -> SimulatedRuns:
    """Return healthy runs made from finite values and the description of their noise. The seed is fixed."""
    series = np.asarray(values, dtype=np.float64)[-MAX_RUNS:]
    scale = float(np.max(np.abs(series)))
    level = at_one_level(series / scale)[0]
    level = level if greater_is_worse else -level
    random = np.random.default_rng(SEED)
    block = _block(noise, len(level))
    starts = random.integers(len(level), size=(SERIES, math.ceil((WINDOW + JUDGED) / block)))
    places = (starts[:, :, None] + np.arange(block)) % len(level)
    healthy = level[places.reshape(SERIES, -1)[:, : WINDOW + JUDGED]]
    spread = noise.spread / scale
    if noise.kind is not Kind.QUANTISED:
        healthy = healthy + random.normal(scale=SMOOTH * spread, size=healthy.shape)
    return SimulatedRuns(healthy, spread, scale, 1 if greater_is_worse else -1)


def _block(noise: Noise, runs: int) -> int:
    """Return the length of the drawn blocks: long enough to keep the memory and the seasons of the noise."""
    block = 1 if noise.memory == 0 else math.ceil(4 / (1 - min(0.9, abs(noise.memory))))
    if noise.period is not None:
        block = max(block, 4 * round(noise.period))
    return min(runs, block)


def mean_and_deviation(series: Values) -> tuple[Values, Values]:
    """As `stddevs_from_mean`."""
    baselines = _baselines(series)
    return baselines.mean(axis=-1), baselines.std(axis=-1)


def median_and_mad(series: Values) -> tuple[Values, Values]:
    """As `mads_from_median`."""
    baselines = _baselines(series)
    middle = np.median(baselines, axis=-1)
    return middle, np.median(np.abs(baselines - middle[..., None]), axis=-1)


def percent_of_mean(series: Values) -> tuple[Values, Values]:
    """As `percent_difference`."""
    middle = _baselines(series).mean(axis=-1)
    return middle, np.abs(middle) / 100


def percent_of_best(series: Values) -> tuple[Values, Values]:
    """As `percent_difference` with `against: best`."""
    plateaus = np.median(sliding_window_view(series, PLATEAU, axis=-1), axis=-1)
    best = sliding_window_view(plateaus, WINDOW - PLATEAU + 1, axis=-1).min(axis=-1)[..., :-1]
    return best, np.abs(best) / 100


def scores_of(runs: SimulatedRuns, level: Level, *, both_sides: bool) -> Values:
    """Return how far each healthy run is on the bad side of its reference, in units of the margin."""
    scores = []
    for series in runs.healthy:  # one at a time: the baselines of all would need much memory
        reference, unit = level(series)
        away = series[WINDOW:] - reference
        away = np.abs(away) if both_sides else away
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            score = away / unit
        scores.append(np.where(unit > 0, score, np.where(away > 0, np.inf, 0.0)))
    return np.concatenate(scores)


def factor_for(scores: Values) -> float:
    """Return the multiple of the unit beyond which one healthy run in 1,000 lies: infinity if there is none."""
    ordered = np.sort(scores)[::-1]
    return max(0.0, float(ordered[int(FALSE_ALARMS * len(ordered))]))


def smallest_change(runs: SimulatedRuns, level: Level, factor: float, *, both_sides: bool) -> float:
    """Return the smallest change that a rule finds within `WITHIN_RUNS` runs, in the unit of the simulated runs."""
    changes = []
    for series in (runs.losses, -runs.losses) if both_sides else (runs.losses,):
        low, high = np.zeros(len(series)), np.full(len(series), LARGEST * runs.spread)
        for _ in range(STEPS):
            middle = (low + high) / 2
            found = _found(series, middle, level, factor)
            low, high = np.where(found, low, middle), np.where(found, middle, high)
        changes.append(float(np.quantile(high, FOUND_SHARE)))
    return max(changes)


def _found(series: Values, change: Values, level: Level, factor: float) -> NDArray[np.bool_]:
    """Return in which series a change is found. The runs before it is found pass, so the baseline contains them."""
    changed = series.copy()
    changed[:, WINDOW:] += change[:, None]
    reference, unit = level(changed)
    found: NDArray[np.bool_] = np.any(changed[:, WINDOW:] > reference + factor * unit, axis=1)
    return found


def _baselines(series: Values) -> Values:
    """Return the runs before each run from `WINDOW` on, one baseline in a row."""
    return sliding_window_view(series, WINDOW, axis=-1)[..., :-1, :]
