"""Generated series with known changes. The standard library alone generates the same numbers everywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

RUNS = 100


@dataclass(frozen=True, slots=True)
class Planted:
    """A series and the runs at which its level changes."""

    kind: str
    values: list[float]
    changes: tuple[int, ...] = ()


def series(seed: int) -> list[Planted]:
    """One series of each kind."""
    random = Random(seed)

    def noise(spread: float = 1.0) -> list[float]:
        return [random.gauss(100, spread) for _ in range(RUNS)]

    def with_levels(values: list[float], *levels: tuple[int, float]) -> list[float]:
        shifts = [sum(size for start, size in levels if run >= start) for run in range(RUNS)]
        return [value + shift for value, shift in zip(values, shifts, strict=True)]

    first, second = random.randrange(15, 40), random.randrange(60, 85)
    return [
        Planted("noise", noise()),
        Planted("much noise", noise(8)),
        Planted("spikes", [value + 60 * (random.random() < 0.05) for value in noise()]),
        Planted("slope", [value + run * 0.4 for run, value in enumerate(noise())]),
        Planted("week", [value - 20 * (run % 7 >= 5) for run, value in enumerate(noise())]),
        Planted("season", [value + 10 * math.sin(run / 8) for run, value in enumerate(noise())]),
        Planted("step", with_levels(noise(), (first, 10)), (first,)),
        Planted("small step in noise", with_levels(noise(3), (second, 12)), (second,)),
        Planted("two steps", with_levels(noise(), (first, 10), (second, 8)), (first, second)),
        Planted("there and back", with_levels(noise(), (second - 12, 10), (second, -10)), (second - 12, second)),
        Planted("step at the end", with_levels(noise(), (RUNS - 4, 12)), (RUNS - 4,)),
        Planted("step on a slope", with_levels([v + r * 0.1 for r, v in enumerate(noise())], (second, 15)), (second,)),
    ]
