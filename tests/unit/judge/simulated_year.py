"""A simulated year of nightly runs with planted regressions, by the standard library and with fixed seeds."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

RUNS = 365
FIRST_RUNS = 40
"""The number of runs before the first regression."""
AFTERMATH = 3
"""The number of runs after a regression in which a rule on levels may still alert."""


@dataclass(frozen=True, slots=True)
class Regression:
    """A range of runs with worse values; higher is worse."""

    first: int
    end: int
    """The first run after the regression."""
    kind: str


@dataclass(frozen=True, slots=True)
class Year:
    """One metric of one test, with a value for each night."""

    name: str
    values: list[float]
    regressions: tuple[Regression, ...]


def years() -> list[Year]:
    """Return years with different kinds of noise and six regressions each, and a constant metric."""
    kinds = {
        "even noise": lambda random: random.gauss(0, 1),
        "long tail": lambda random: random.lognormvariate(0, 0.7) - 1.2,
        "spikes": lambda random: random.gauss(0, 1) + 12 * (random.random() < 0.01),
        "two nodes": lambda random: random.gauss(0, 0.7) + 2 * (random.random() < 0.3),
        "rounded": lambda random: round(random.gauss(0, 1)),
    }
    found = []
    for number, (name, noise) in enumerate(kinds.items()):
        for seed in range(4):
            random = Random(100 * number + seed)
            found.append(_year(f"{name} {seed}", [100 + noise(random) for _ in range(RUNS)], random))
    return [*found, Year("constant", [7.0] * RUNS, ())]


def _year(name: str, values: list[float], random: Random) -> Year:
    regressions = []
    room = (RUNS - FIRST_RUNS) // 6
    for number, kind in enumerate(("short", "long", "short", "creep", "long", "large")):
        first = FIRST_RUNS + number * room + random.randrange(0, 8)
        length = {"short": 3, "long": 25, "creep": 40, "large": 8}[kind]
        regressions.append(Regression(first, first + length, kind))
        for run in range(first, first + length):
            values[run] += {"short": 9.0, "long": 8.0, "creep": 0.3 * (run - first), "large": 60.0}[kind]
    return Year(name, values, tuple(regressions))
