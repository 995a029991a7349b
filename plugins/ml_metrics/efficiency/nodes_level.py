"""How far each run is from the level of its test: the middle of its neighbours, or a line where the level drifts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ml_metrics.efficiency.nodes import NodeRun

NEIGHBOURS = 20
"""How many runs on each side show the level of a test."""
FEWEST_NEIGHBOURS = 5
MOST_PERCENT = 1e6
LINE_RUNS = 40
"""At most so many runs have one line, where a drift of the level is removed."""
LINE_CUT, LINE_ROUNDS = 1.5, 6
"""A run moves the line by at most so much, in multiples of the noise around it; and how often it is fitted."""
OUTLIER = 2.5
"""A run counts as at most this far from its level, in multiples of the test's noise."""
LEAST_NOISE = 1e-3
"""The noise of a test in percent, where its values repeat."""
NORMAL_MAD = 0.6745


@dataclass(frozen=True, slots=True)
class Compared:
    """A run, and how far it is from its level in percent, with and without the drift of that level."""

    run: NodeRun
    with_drift: float
    percent: float


def compared_with_level(runs: Sequence[NodeRun]) -> list[Compared]:
    """Return how far each run is from the middle of its neighbours; lonely runs are left out."""
    ordered = sorted(runs, key=lambda run: (run.test, run.period, run.at, run.run_key))
    found = []
    for _, group in groupby(ordered, key=lambda run: (run.test, run.period)):
        each, of_period = list(group), []
        values = np.array([run.value for run in each])
        for place, run in enumerate(each):
            low, high = max(0, place - NEIGHBOURS), place + NEIGHBOURS + 1
            others = np.concatenate([values[low:place], values[place + 1 : high]])
            level = _middle(others) if len(others) >= FEWEST_NEIGHBOURS else 0.0
            if level > 0:
                percent = min(max((run.value / level - 1) * 100, -MOST_PERCENT), MOST_PERCENT)
                of_period.append((run, percent))
        flat = _without_drift(np.array([percent for _, percent in of_period]))
        found += [Compared(*pair, float(one)) for pair, one in zip(of_period, flat, strict=True)]
    return found


def _without_drift(percent: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far each run is from a straight line through it and its neighbours, which outliers hardly move."""
    parts = np.array_split(percent, -(-len(percent) // LINE_RUNS) or 1)
    return np.concatenate([_from_line(part) for part in parts])


def _from_line(percent: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distances from a line, fitted with less weight for what is far from it."""
    place, weight, far = np.arange(len(percent)) - (len(percent) - 1) / 2, np.ones(len(percent)), percent
    for _ in range(LINE_ROUNDS if len(percent) > FEWEST_NEIGHBOURS else 0):
        middle, level = np.average(place, weights=weight), np.average(percent, weights=weight)
        slope = float(np.sum(weight * (place - middle) * (percent - level)) / np.sum(weight * (place - middle) ** 2))
        far = percent - level - slope * (place - middle)
        usual = max(float(np.median(np.abs(far))) / NORMAL_MAD, LEAST_NOISE)
        weight = np.minimum(1.0, LINE_CUT * usual / np.maximum(np.abs(far), LEAST_NOISE))
    return far


def _middle(values: NDArray[np.float64]) -> float:
    """Return the mean of the middle half: unlike the median, it does not jump where values have two modes."""
    quarter = len(values) // 4
    return float(np.sort(values)[quarter : len(values) - quarter].mean())


def noise_of(percent: NDArray[np.float64]) -> float:
    """Return the standard deviation without outliers."""
    usual = max(float(np.median(np.abs(percent))) / NORMAL_MAD, LEAST_NOISE)
    return max(float(np.sqrt(np.mean(np.clip(percent, -OUTLIER * usual, OUTLIER * usual) ** 2))), LEAST_NOISE)
