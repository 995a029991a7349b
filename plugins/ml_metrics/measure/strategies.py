"""The aggregation strategies: how the points of a tag become one number.

Sums are exact and rounded once, so a mean depends neither on the order of the points nor on the machine. Values that
are not finite are left out, except by strategies that select a point by its time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.config.collection import Strategy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ml_metrics.core.model import Series

    Values = NDArray[np.float64]


def last(series: Series) -> int:
    """The index of the point with the latest wall time; of several, the one that was written last."""
    backwards = series.wall_time[::-1]
    index = int(backwards.argmax())
    if np.isnan(backwards[index]):
        index = int(_times(series)[::-1].argmax())
    return len(backwards) - 1 - index


def first(series: Series) -> int:
    """The index of the point with the earliest wall time; of several, the one that was written first."""
    times = series.wall_time
    index = int(times.argmin())
    return int(_times(series).argmin()) if np.isnan(times[index]) else index


def highest(series: Series) -> int:
    """The index of the greatest finite value; of several, the first."""
    index = int(series.value.argmax())
    return index if np.isfinite(series.value[index]) else int(_finite(series, -np.inf).argmax())


def lowest(series: Series) -> int:
    """The index of the smallest finite value; of several, the first."""
    index = int(series.value.argmin())
    return index if np.isfinite(series.value[index]) else int(_finite(series, np.inf).argmin())


def latest(series: Series, count: int) -> NDArray[np.intp]:
    """The indices of the points with the latest wall times; of several with one time, those written last."""
    return np.argsort(_times(series), kind="stable")[-count:]


def _times(series: Series) -> Values:
    """The wall times. A point without one follows the point that was written before it."""
    known = ~np.isnan(series.wall_time)
    if not known.any():
        return np.broadcast_to(np.float64(-np.inf), known.size)
    before = np.maximum.accumulate(np.where(known, np.arange(known.size), -1))
    return np.where(before < 0, -np.inf, series.wall_time[before])


BY_TIME: dict[Strategy, Callable[[Series], int]] = {Strategy.FINAL: last, Strategy.FIRST: first}
"""The strategies that select a point by its time, whatever its value."""
BY_VALUE: dict[Strategy, Callable[[Series], int]] = {Strategy.MAX: highest, Strategy.MIN: lowest}
"""The strategies that select one of the points with a finite value."""


def mean(values: Values) -> float:
    """The mean, from a sum that is rounded once."""
    try:
        return math.fsum(values.tolist()) / len(values)
    except OverflowError:  # the sum overflows, although the mean may not
        return math.fsum((values * 2.0**-64).tolist()) / len(values) * 2.0**64


def trimmed_mean(values: Values) -> float:
    """The mean without the lowest and the highest tenth of the values, each rounded down to whole values."""
    beyond = len(values) // 10
    if not beyond:
        return mean(values)
    return mean(np.partition(values, (beyond, len(values) - beyond - 1))[beyond : len(values) - beyond])


def deviation(values: Values) -> float:
    """The standard deviation of the population (ddof 0)."""
    scale = _scale(values)
    distances = values * scale - mean(values * scale)
    return math.sqrt(math.fsum((distances * distances).tolist()) / len(values)) / scale


def median(values: Values) -> float:
    upper = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, upper)[upper])
    return mean(np.partition(values, (upper - 1, upper))[upper - 1 : upper + 1])


def percentile(values: Values, percent: int) -> float:
    """A percentile, with linear interpolation between the neighbouring values."""
    lower, beyond = divmod((len(values) - 1) * percent, 100)
    upper = min(lower + 1, len(values) - 1)
    partitioned = np.partition(values, (lower, upper))
    low, high = float(partitioned[lower]), float(partitioned[upper])
    if beyond == 0 or low == high:
        return low
    return low * (1 - beyond / 100) + high * (beyond / 100)


NUMBERS: dict[Strategy, Callable[[Values], float]] = {
    Strategy.AVERAGE: mean,
    Strategy.MEDIAN: median,
    Strategy.P50: median,
    Strategy.P90: lambda values: percentile(values, 90),
    Strategy.P95: lambda values: percentile(values, 95),
    Strategy.P99: lambda values: percentile(values, 99),
    Strategy.STD: deviation,
    Strategy.TRIMMED_MEAN: trimmed_mean,
}
"""The strategies that compute a number from all finite values."""


def _scale(values: Values) -> float:
    """A power of two that keeps the squares of the scaled values from overflow and underflow."""
    greatest = float(np.abs(values).max())
    if greatest > 2.0**500:
        return 2.0**-600
    return 2.0**500 if 0 < greatest < 2.0**-400 else 1.0


def _finite(series: Series, replacement: float) -> Values:
    return np.where(np.isfinite(series.value), series.value, replacement)
