"""Slow nodes across runs: how often a planted node is found, and how often another one is named.

Each simulation has 16 nodes, of which one slows its runs down by 3 %, or none. The noise is one of the families of
`detectors/noise.py` with a standard deviation of 1 % of the level. `found`: the slow node is named after 30 nights;
`false`: another node is named; `none`: any node is named where none is slow; `covers`: the interval of the slow node
holds the 3 %. After each share, its 95 % interval (Wilson). `SLOW_NODES_SIMULATIONS` sets the number of simulations,
`SLOW_NODES_SEED` which ones. A figure whose interval excludes its target fails the benchmark.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1] / "plugins"), str(Path(__file__).parent)]

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ml_metrics.measure.efficiency import NodeRun

NODES = 16
NIGHTS = 30
SLOWER = 0.03
NOISE = 0.01
SIMULATIONS = int(os.environ.get("SLOW_NODES_SIMULATIONS", "200"))
SEED = int(os.environ.get("SLOW_NODES_SEED", "1"))
FOUND, FALSE = 0.95, 0.01
"""A figure fails if its interval excludes the target."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How the runs of a night use the nodes."""

    about: str
    tests: int
    nodes: int
    """The nodes of each run, drawn at random. A run waits for the slowest of them."""
    target: bool
    """Whether 30 nights are to suffice: with 2 runs on a node, they cannot."""


PLANS = (
    Plan("1 test on 4 of 16 nodes, 30 runs", 1, 4, target=True),
    Plan("4 tests on 1 node each, 30 runs of each", 4, 1, target=True),
    Plan("1 test on 1 node, 30 runs: 2 on each node", 1, 1, target=False),
)
FAMILIES = ("normal", "heavy tails", "memory .5", "two modes", "lognormal", "weekends", "wandering")
DRIFT = "drift"
"""Normal noise on a level that rises or falls by 2 to 6 % in 30 nights."""


def runs_of(random: np.random.Generator, plan: Plan, family: str, slow: str | None) -> list[NodeRun]:
    """Return the runs of all nights. Each test has its own level, which changes once."""
    from detectors import noise
    from ml_metrics.measure.efficiency import NodeRun

    found = []
    for test in range(plan.tests):
        wave = NOISE * (drifting(random) if family == DRIFT else noise.FAMILIES[family].noise(random, NIGHTS))
        level = float(random.uniform(10, 1000))
        for night in range(NIGHTS):
            nodes = tuple(f"node-{one}" for one in sorted(random.choice(NODES, plan.nodes, replace=False)))
            slower = SLOWER if slow in nodes else 0.0
            value = level * (1 + slower + float(wave[night]))
            found.append(NodeRun(f"test-{test}", f"{test}-{night}", float(night), nodes, value))
    return found


def drifting(random: np.random.Generator) -> NDArray[np.float64]:
    """Return normal noise on a straight slope, in standard deviations."""
    noise = random.normal(size=NIGHTS)
    direction = float(random.choice([-1, 1]))
    slope: NDArray[np.float64] = np.linspace(-1, 1, NIGHTS) * (direction * random.uniform(1, 3))
    return noise + slope


def simulated(plan: Plan, family: str, count: int, seed: int = SEED) -> tuple[int, int, int, int]:
    """Count the simulations: slow node found, another named, any named where none is slow, interval holds the truth."""
    from ml_metrics.measure.efficiency import node_effects

    found = false = none = covers = 0
    for index in range(count):
        random = np.random.default_rng([seed, index])
        effects = node_effects(runs_of(random, plan, family, "node-5"))
        named = {one.name for one in effects if one.slow}
        found += "node-5" in named
        false += bool(named - {"node-5"})
        covers += all(one.low <= SLOWER * 100 <= one.high for one in effects if one.name == "node-5")
        none += any(one.slow for one in node_effects(runs_of(random, plan, family, None)))
    return found, false, none, covers


def interval(hits: int, count: int) -> tuple[float, float]:
    """Return the interval of Wilson for a share, at 95 %."""
    share, z = hits / count, 1.96
    middle, width = share + z * z / (2 * count), z * np.sqrt(share * (1 - share) / count + z * z / (4 * count**2))
    return max((middle - width) / (1 + z * z / count), 0.0), min((middle + width) / (1 + z * z / count), 1.0)


def main() -> int:
    """Print the figures of every plan and family."""
    failed, count = 0, SIMULATIONS
    print(f"{'plan':<42} {'noise':<12} {'found':>19} {'false':>18} {'none':>18} {'covers':>7}   CPU")
    for plan in PLANS:
        for family in (*FAMILIES, DRIFT):
            started = time.process_time()
            *counts, covers = simulated(plan, family, count)
            took = time.process_time() - started
            shares = [(hits / count, *interval(hits, count)) for hits in counts]
            cells = " ".join(f"{share:>6.1%} ({low:>5.1%}-{high:>5.1%})" for share, low, high in shares)
            print(f"{plan.about:<42} {family:<12} {cells} {covers / count:>7.1%} {took:>5.1f} s", flush=True)
            missed = plan.target and shares[0][2] < FOUND
            failed += missed or max(share[1] for share in shares[1:]) > FALSE
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
