"""How sharply the two sides of a place in a series differ, and how certainly people see a change of level there.

A steady slope is not a change of level: what both sides have of it is removed first. Noise that remembers counts as
fewer values.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.judge.changepoint.noise_units import NORMAL_MAD, median

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Values = NDArray[np.float64]

NEAR, FAR, WHOLE = 24, 60, 400
"""How many values on each side are compared: the near ones show the edge, the far ones whether the change lasts, the
whole segments whether it stands out from all that the series does."""
SLOPE_ERRORS = 2.0
"""By how many standard errors a slope is reduced before it is removed: noise beside a change has a slope, too."""
MAX_MEMORY = 0.9
SHARPEST = 60.0
"""A sharper contrast is not more certain."""
SHORT_SERIES = 190
"""A shorter series counts as this long; nobody has marked shorter ones."""
WEIGHTS = (-2.015, 0.896, 1.551, 1.079, 0.832, -1.517, 0.385)
"""Of one and of each feature: a logistic regression of what most of five people mark on 205 series of nightly results.

`benchmarks/labelled_series.py` fits them.
"""


def features(series: Values, left: int, edge: int, right: int) -> tuple[float, ...]:
    """Return what makes people mark a place: its contrast near, far and as a whole, its order, the lengths.

    Args:
        series: in units of its noise.
        left: the first index of the segment before the place.
        edge: the first index of the segment after it.
        right: the end of that segment, exclusive.
    """
    near, ordered = _contrast(*_sides(series, left, edge, right, NEAR))
    far, _ = _contrast(*_sides(series, left, edge, right, FAR))
    whole, _ = _contrast(series[max(left, edge - WHOLE) : edge], series[edge : min(right, edge + WHOLE)])
    return (
        math.log(min(near, SHARPEST) + 0.1),
        math.log(min(far, SHARPEST) + 0.1),
        math.log(min(edge - left, right - edge, FAR)),
        math.log((ordered + 0.01) / (1.01 - ordered)),
        math.log(max(len(series), SHORT_SERIES)),
        math.log(min(whole, SHARPEST) + 0.1),
    )


def certainty_of(place: Sequence[float], weights: Sequence[float]) -> float:
    """Return the probability that most people, rather than nobody, mark a place with such features."""
    total = weights[0] + sum(weight * feature for weight, feature in zip(weights[1:], place, strict=True))
    return 1 / (1 + math.exp(-total))


def _sides(series: Values, left: int, edge: int, right: int, reach: int) -> tuple[Values, Values]:
    """Return the values on either side without their common slope."""
    before, after = series[max(left, edge - reach) : edge], series[edge : min(right, edge + reach)]
    slope = _common_slope(before, after)
    return before + slope * (len(before) - 0.5 - np.arange(len(before))), after - slope * (np.arange(len(after)) + 0.5)


def _common_slope(before: Values, after: Values) -> float:
    """Return the slope within both sides: all of it where a line explains them better, else what is significant."""
    sides = (before, after)
    places, levels = [_places(len(side)) for side in sides], [_centred(side) for side in sides]
    weight = sum(float(place @ place) for place in places)
    slope = sum(float(place @ level) for place, level in zip(places, levels, strict=True)) / weight
    if _error_of_line(np.concatenate(sides)) < sum(float(level @ level) for level in levels):
        return slope
    rest = np.concatenate([level - slope * place for place, level in zip(places, levels, strict=True)])
    error = math.sqrt(float(rest @ rest) / (len(rest) - 3) / weight / _share_of_news(rest))
    return math.copysign(max(0.0, abs(slope) - SLOPE_ERRORS * error), slope)


def _error_of_line(values: Values) -> float:
    """Return the squared error of the straight line through the values."""
    place, level = _places(len(values)), _centred(values)
    rest = level - float(place @ level) / float(place @ place) * place
    return float(rest @ rest)


def _places(count: int) -> Values:
    """Return the places of so many values around their middle."""
    return np.arange(count, dtype=np.float64) - (count - 1) / 2


def _centred(values: Values) -> Values:
    centred: Values = values - np.add.reduce(values) / len(values)  # in a third of the time of `mean`
    return centred


def _contrast(before: Values, after: Values) -> tuple[float, float]:
    """Return the difference of the medians in standard errors, and the share of pairs with the order of the medians."""
    levels = median(before), median(after)
    rest = np.concatenate([before - levels[0], after - levels[1]])
    spread = max(median(np.abs(rest)) / NORMAL_MAD, 0.3 * float(np.std(rest)), 1e-9)
    news = _share_of_news(_centred(before), _centred(after))
    error = spread * math.sqrt(sum(1 / max(1.0, len(side) * news) for side in (before, after)))
    low, high = (before, after) if levels[1] >= levels[0] else (after, before)
    sorted_high = np.sort(high)
    up_to, below = (np.searchsorted(sorted_high, low, side=side) for side in ("right", "left"))
    in_order = len(low) * len(high) - float(np.sum(up_to + below)) / 2
    return abs(levels[1] - levels[0]) / error, in_order / (len(low) * len(high))


def _share_of_news(*parts: Values) -> float:
    """Return the share of the values that independent noise of the same information would need: 1 without memory."""
    power = sum(float(part @ part) for part in parts)
    product = sum(float(part[1:] @ part[:-1]) for part in parts)
    memory = min(max(product / power if power else 0.0, 0.0), MAX_MEMORY)
    return (1 - memory) / (1 + memory)
