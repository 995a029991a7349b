"""A made-up year of nightly runs with planted regressions. Standard library only, and a fixed seed for each series."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

RUNS = 365
QUIET = 40
"""No regression is planted before a test has some history."""
AFTERMATH = 3
"""So many runs after a regression a rule on levels may take to see that it is over."""


@dataclass(frozen=True, slots=True)
class Regression:
    """A stretch of runs that are worse than they should be; higher is worse."""

    first: int
    end: int
    """The first run after it."""
    kind: str


@dataclass(frozen=True, slots=True)
class Year:
    """One metric of one test, night by night."""

    name: str
    values: list[float]
    regressions: tuple[Regression, ...]


def years() -> list[Year]:
    """Kinds of noise that nightly tests have, each with six regressions; and a metric that never moves."""
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
    room = (RUNS - QUIET) // 6
    for number, kind in enumerate(("short", "long", "short", "creep", "long", "large")):
        first = QUIET + number * room + random.randrange(0, 8)
        length = {"short": 3, "long": 25, "creep": 40, "large": 8}[kind]
        regressions.append(Regression(first, first + length, kind))
        for run in range(first, first + length):
            values[run] += {"short": 9.0, "long": 8.0, "creep": 0.3 * (run - first), "large": 60.0}[kind]
    return Year(name, values, tuple(regressions))
