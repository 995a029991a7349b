"""Finds lasting changes of the level of a whole series, as people mark them on a chart.

1. Every value becomes a multiple of the series' own noise, with outliers clipped. The noise is that of neighbouring
   values, because a change of level affects few of them. Where the level wanders all the time, its usual wandering
   counts as noise, too.
2. Candidates are the cuts of the best division into segments of one level each.
3. The least certain candidate is removed until every one is at least as certain as asked: without it, its neighbours
   are compared over longer sides. How certain people are of a place depends on how sharply its two sides differ. A
   steady slope is not a change of level: what both sides have of it is removed first. Noise that remembers counts as
   fewer values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ml_metrics.judge.noise import NEIGHBOURS_OF_NORMAL, P50_OF_NORMAL, middle

Values = NDArray[np.float64]
Place = tuple[int, int, int]
MIN_LENGTH = 10
"""Fewer values have no noise to speak of."""
CLIP = 3.0
"""How many noises a value may differ from the median of its neighbourhood."""
REACH = 5
"""How many values on each side are its neighbourhood: two outliers are no majority, even next to each other."""
BLOCK, LEAST_BLOCKS = 12, 8
"""The length of the blocks whose medians show how far the level wanders, and how many of them are required: in fewer, a
single change of level would seem to be wandering."""
STEADY = 0.55
"""The level wanders if the medians of neighbouring blocks usually differ by more than this multiple of the noise."""
MIN_RUNS = 5
"""The least length of a segment."""
NEAR, FAR, WHOLE = 24, 60, 400
"""How many values on each side are compared: the near ones show the edge, the far ones whether the change lasts, the
whole segments whether it stands out from all that the series does."""
SHARPEST = 60.0
"""A sharper contrast is not more certain."""
WEIGHTS = (-2.015, 0.896, 1.551, 1.079, 0.832, -1.517, 0.385)
"""Of one and of each feature: a logistic regression of what most of five people mark on 205 series of nightly results.

`python -m benchmarks.detectors --fit` fits them.
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level between two adjacent segments of a series."""

    index: int
    """The index of the first value of the new level."""
    before: float
    after: float
    """The medians of the values on either side, at most `NEAR` of them."""
    in_noise: float
    """The size of the change as a multiple of the noise. A gap of more than 100 noises without any value counts 100."""
    certainty: float
    """The probability that most people would mark such a place as a change of level, rather than nobody."""

    @property
    def percent(self) -> float:
        change = self.after - self.before
        return math.copysign(math.inf, change) if self.before == 0 else change / abs(self.before) * 100


def change_points(values: Sequence[float], *, certainty: float = 0.5, weights: Sequence[float] = WEIGHTS) -> list[Step]:
    """The changes of level, oldest first. `values`: finite, of any magnitude, oldest first; fewer than ten have none.

    `certainty` is the least of each change. A benchmark fits other `weights` for the features of a change.
    """
    series = np.asarray(values, dtype=np.float64)
    calm = in_noise_units(series)
    if calm is None:
        return []
    sure = cache(lambda left, edge, right: certainty_of(features(calm, left, edge, right), weights))
    return [_step(series, calm, place, sure(*place)) for place in certain_places(best_edges(calm), sure, certainty)]


def edges_of(values: Sequence[float]) -> list[int]:
    """The edges of the best division of a series into segments, both ends included: a quick search.

    Its cuts are candidates, of which `change_points` keeps those that are certain.
    """
    calm = in_noise_units(np.asarray(values, dtype=np.float64))
    return [0, len(values)] if calm is None else best_edges(calm)


def certain_places(edges: Sequence[int], sure: Callable[[int, int, int], float], certainty: float) -> list[Place]:
    """The places that remain when the least certain edge is removed until all are certain enough.

    A place is the start of the segment before an edge, the edge, and the end of the segment after it. Both ends of the
    series are edges.
    """
    edges = list(edges)
    while places := list(zip(edges, edges[1:], edges[2:], strict=False)):
        least = min(places, key=lambda place: sure(*place))
        if sure(*least) >= certainty:
            break
        edges.remove(least[1])
    return places


def _step(series: Values, calm: Values, place: Place, certainty: float) -> Step:
    left, _, right = place
    edge = _first_of_new_level(calm, place)
    old, new = slice(max(left, edge - NEAR), edge), slice(edge, min(right, edge + NEAR))
    return Step(
        index=edge,
        before=middle(series[old].tolist()),
        after=middle(series[new].tolist()),
        in_noise=abs(_median(calm[new]) - _median(calm[old])),
        certainty=certainty,
    )


def _first_of_new_level(calm: Values, place: Place) -> int:
    """The edge; or a better one within the shortest of segments, which may hold two values of the other level."""
    left, edge, right = place
    first = edge - 2 * (edge - left == MIN_RUNS)
    last = edge + 2 * (right - edge == MIN_RUNS)
    before, after = np.median(calm[max(left, edge - NEAR) : edge]), np.median(calm[edge : min(right, edge + NEAR)])
    misfits = np.abs(calm[first:last] - before) - np.abs(calm[first:last] - after)
    return first + int(np.concatenate(([0.0], np.cumsum(misfits))).argmin())


def level_starts(values: Sequence[float], least: int) -> list[int]:
    """The indexes at which certain levels start, newest first, with at least so many values from there on."""
    if len(values) < 2 * least or not may_have_levels(values):
        return []
    return [start for start in _starts(tuple(values)) if len(values) - start >= least]


@lru_cache(maxsize=256)  # while a metric fails, its baseline stays
def _starts(values: tuple[float, ...]) -> list[int]:
    return [step.index for step in reversed(change_points(values, certainty=0.9))]


def may_have_levels(values: Sequence[float]) -> bool:
    """Whether values drift from their median by more than independent noise usually does; a quick test.

    One stable series in 20 does, and every one with a change that is certain.
    """
    halves = np.asarray(values, dtype=np.float64) / 2  # the difference of two finite numbers may be infinite
    middle = np.sort(halves)[len(halves) // 2]
    steps = np.sort(np.abs(halves[1:] - halves[:-1]))
    if steps[-1] == 0:
        return False
    noise = steps[len(steps) // 2] / NEIGHBOURS_OF_NORMAL or steps[-1]
    with np.errstate(over="ignore"):  # an infinite deviation is clipped, too
        clipped = ((halves - middle) / noise).clip(-CLIP, CLIP)
    sums = np.abs(np.cumsum(clipped - clipped.mean()))
    return bool(sums.max() >= 1.4 * math.sqrt(len(clipped)))


def in_noise_units(series: Values) -> Values | None:
    """The series in units of its noise, without outliers; or None if it has no noise or is too short."""
    if len(series) < MIN_LENGTH:
        return None
    largest = float(np.max(np.abs(series)))
    if not math.isfinite(largest):
        raise ValueError("every value should be finite")
    # times a power of two by which sums of the values are finite and keep their digits
    usual = series * (2.0**-40 if largest > 2.0**1000 else 2.0**100 if largest < 2.0**-900 else 1.0)
    unit = noise_of(usual)
    if unit == 0:
        return None
    if (wandering := _wandering(_clipped(usual, unit))) > STEADY * unit:
        unit = max(unit, wandering / STEADY, _wandering(usual) / STEADY)
    # around its median, with every wide gap between values narrowed, so that sums stay exact
    levels, places = np.unique(_clipped(usual, unit), return_inverse=True)
    gaps = np.minimum(np.diff(levels), 100 * unit) / unit
    scaled = np.concatenate(([0.0], np.cumsum(gaps)))[places]
    return np.asarray(scaled - _median(scaled))


def noise_of(series: Values) -> float:
    """The standard deviation of the noise; 0 if every value differs equally from the one before.

    If most do, the noise is made of the smaller of the other differences: the larger ones may be changes of level.
    """
    differences = np.diff(series)
    unusual = np.abs(differences - _median(differences))
    if middle := _median(unusual):
        return middle / (P50_OF_NORMAL * math.sqrt(2))
    others = np.sort(unusual[unusual > 0])
    return float(others[(len(others) - 1) // 8]) * math.sqrt(len(others) / len(unusual) / 2) if len(others) else 0.0


def _clipped(series: Values, unit: float) -> Values:
    """The series with each value at most `CLIP` noises from the median of its neighbourhood."""
    windows = sliding_window_view(np.pad(series, REACH, mode="reflect"), 2 * REACH + 1)
    middle = np.median(windows, axis=1)
    return np.clip(series, middle - CLIP * unit, middle + CLIP * unit)


def _wandering(series: Values) -> float:
    """The usual difference between the medians of neighbouring blocks, read from both ends of the series."""
    if len(series) < LEAST_BLOCKS * BLOCK:
        return 0.0
    steps = []
    for values in (series, series[::-1]):
        for offset in (0, BLOCK // 2):
            count = (len(values) - offset) // BLOCK
            blocks = values[offset : offset + count * BLOCK].reshape(count, BLOCK)
            steps.append(np.abs(np.diff(np.median(blocks, axis=1))))
    return float(np.median(np.concatenate(steps)))


def best_edges(series: Values) -> list[int]:
    """The edges of the best division, both ends of the series included.

    Optimal partitioning: the squared errors around the means of the segments, in units of the noise, plus a penalty for
    each cut, are as small as possible.
    """
    count = len(series)
    penalty = 2.5 * math.log(count)  # little enough to miss no cut that people mark
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


def features(series: Values, left: int, edge: int, right: int) -> tuple[float, ...]:
    """What makes people mark a place: its contrast near, far and as a whole, its order, the lengths."""
    near, ordered = _contrast(*_sides(series, left, edge, right, NEAR))
    is_far = max(edge - left, right - edge) > NEAR
    far = _contrast(*_sides(series, left, edge, right, FAR))[0] if is_far else near
    whole, _ = _contrast(series[max(left, edge - WHOLE) : edge], series[edge : min(right, edge + WHOLE)])
    return (
        math.log(min(near, SHARPEST) + 0.1),
        math.log(min(far, SHARPEST) + 0.1),
        math.log(min(edge - left, right - edge, FAR)),
        math.log((ordered + 0.01) / (1.01 - ordered)),
        math.log(max(len(series), 190)),  # nobody has marked shorter ones
        math.log(min(whole, SHARPEST) + 0.1),
    )


def certainty_of(place: Sequence[float], weights: Sequence[float]) -> float:
    """The probability that most people, rather than nobody, mark a place with such features."""
    total = weights[0] + sum(weight * feature for weight, feature in zip(weights[1:], place, strict=True))
    return 1 / (1 + math.exp(-total))


def _sides(series: Values, left: int, edge: int, right: int, reach: int) -> tuple[Values, Values]:
    before, after = series[max(left, edge - reach) : edge], series[edge : min(right, edge + reach)]
    slope = _common_slope(before, after)
    return before + slope * (len(before) - 0.5 - np.arange(len(before))), after - slope * (np.arange(len(after)) + 0.5)


def _common_slope(before: Values, after: Values) -> float:
    """The slope within both sides: all of it where a line explains them better, else what is significant.

    That is without two standard errors: noise beside a change has a slope, too.
    """
    sides = (before, after)
    places, levels = [_centred(np.arange(len(side))) for side in sides], [_centred(side) for side in sides]
    weight = sum(float(place @ place) for place in places)
    slope = sum(float(place @ level) for place, level in zip(places, levels, strict=True)) / weight
    place, level = _centred(np.arange(sum(map(len, sides)))), _centred(np.concatenate(sides))
    off_line = level - float(place @ level) / float(place @ place) * place
    if float(off_line @ off_line) < sum(float(level @ level) for level in levels):
        return slope
    rest = np.concatenate([level - slope * place for place, level in zip(places, levels, strict=True)])
    error = math.sqrt(float(rest @ rest) / (len(rest) - 3) / weight / _share_of_news(rest))
    return math.copysign(max(0.0, abs(slope) - 2 * error), slope)


def _centred(values: NDArray[Any]) -> Values:
    return np.asarray(values - np.add.reduce(values, dtype=np.float64) / len(values))


def _contrast(before: Values, after: Values) -> tuple[float, float]:
    """The difference of the medians in standard errors, and the share of pairs with the order of the medians."""
    levels = _median(before), _median(after)
    rest = np.concatenate([before - levels[0], after - levels[1]])
    spread = max(_median(np.abs(rest)) / P50_OF_NORMAL, 0.3 * float(np.std(rest)), 1e-9)
    news = _share_of_news(_centred(before), _centred(after))
    error = spread * math.sqrt(sum(1 / max(1.0, len(side) * news) for side in (before, after)))
    low, high = (before, after) if levels[1] >= levels[0] else (after, before)
    sorted_high = np.sort(high)
    up_to, below = (np.searchsorted(sorted_high, low, side=side) for side in ("right", "left"))
    in_order = len(low) * len(high) - float(np.sum(up_to + below)) / 2
    return abs(levels[1] - levels[0]) / error, in_order / (len(low) * len(high))


def _median(values: Values) -> float:
    """That of numpy, in a tenth of its time for few values."""
    ordered, count = np.sort(values), len(values)
    return float(ordered[(count - 1) // 2] + ordered[count // 2]) / 2


def _share_of_news(*parts: Values) -> float:
    """The share of the values that independent noise of the same information would need: 1 without memory."""
    power = sum(float(part @ part) for part in parts)
    product = sum(float(part[1:] @ part[:-1]) for part in parts)
    memory = min(max(product / power if power else 0.0, 0.0), 0.9)
    return (1 - memory) / (1 + memory)
