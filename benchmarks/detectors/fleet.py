"""A fleet of metrics as tests have them: half of them with normal noise, four in ten with heavy tails, the rest odd."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .noise import Random, Values

SLOW = 0.3
"""The share of the runs at the slow mode."""


@dataclass(frozen=True)
class Metric:
    """A metric whose nights are drawn once, with any number of runs in each."""

    spread: float
    kind: str
    nights: Values
    random: Random
    shared: float
    """The share of the variance of a run that is the night's."""

    def run(self, night: int, loss: float) -> float:
        """Return the value of another run in a night."""
        own = _noise(self.kind, self.random, 1)[0]
        value = math.sqrt(self.shared) * self.nights[night] + math.sqrt(1 - self.shared) * own
        return float(100 * (1 + loss + self.spread * value))


def metric(random: Random, nights: int, shared: float) -> Metric:
    """Draw a metric. Its noise is 2.3 % of the level in the median."""
    kind = str(random.choice(["normal", "heavy tails", "memory", "two modes"], p=[0.5, 0.4, 0.05, 0.05]))
    drawn = _noise(kind, random, nights)
    for night in range(1, nights if kind == "memory" else 0):
        drawn[night] = 0.7 * drawn[night - 1] + math.sqrt(1 - 0.7**2) * drawn[night]
    return Metric(min(0.2, 0.023 * math.exp(0.7 * random.normal())), kind, drawn, random, shared)


def fleet(seed: int, metrics: int, nights: int, loss: float = 0.0, begins: int = 0) -> list[Values]:
    """Return the values of metrics with one run a night, and a loss of this share of the level from a night on."""
    random, lost = np.random.default_rng([seed, round(1_000 * loss)]), loss * (np.arange(nights) >= begins)
    drawn = (metric(random, nights, 1.0) for _ in range(metrics))
    return [100 * (1 + lost + one.spread * one.nights) for one in drawn]


def _noise(kind: str, random: Random, count: int) -> Values:
    if kind == "heavy tails":
        return random.standard_t(4, size=count) / math.sqrt(2)
    if kind == "two modes":
        return (random.random(count) < SLOW) * 2.1 - 0.63 + 0.3 * random.normal(size=count)
    return random.normal(size=count)
