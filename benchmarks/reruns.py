"""What it finds, and what it costs, to run a test again in the night in which a metric is suspicious.

A fleet of metrics with 60 healthy nights, and then a loss of 5, 10 or 20 %, or none. The noise of a metric is 2.3 % of
its level in the median (lognormal, .7 in logarithms); half of the metrics have normal noise, four in ten heavy tails (t
with 4 degrees of freedom), one in twenty remembers (.7), one in twenty has two modes. Of the variance of a run, a share
is the night's: the host that is slow for an hour makes all runs of the night slow.

For each `beyond`, and without reruns:

- found by night 1, 3 and 5: losses of which a run fails by then;
- extra runs: reruns in 100 runs of a test of 20 such metrics without a loss;
- alarms: healthy metrics that begin to fail in a night of 20,000 (nights 31 to 90).

    python benchmarks/reruns.py --docs     # five minutes; also rewrites the table in docs/conditions.md
    python benchmarks/reruns.py --metrics 50
"""

from __future__ import annotations

import argparse
import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from detectors.fleet import metric
from ml_metrics.judge.level import LevelRule, follow

if TYPE_CHECKING:
    from detectors.fleet import Metric

PAGE = Path(__file__).parents[1] / "docs" / "conditions.md"
BEGIN, END = "<!-- made by benchmarks/reruns.py: begin -->\n", "<!-- made by benchmarks/reruns.py: end -->"
SEED = 2026
HEALTHY, AFTER = 60, 5
"""The nights before and after a loss begins."""
QUIET, FIRST = 90, 30
"""The nights of a metric without a loss, and the first that counts: before, the noise is hardly known."""
METRICS, FLEET = 20, 20_000
"""The metrics of a test, and those of a night."""
LOSSES, NIGHTS = (0.05, 0.1, 0.2), (1, 3, 5)
PROCESSES = 2
SHARED, BEYOND = (0.0, 0.5), (None, 3.0, 4.0, 6.0)
RULE, RERUNS = LevelRule(worse=1), 2


@dataclass
class Followed:
    """What became of the nights of a metric."""

    failing: list[bool]
    suspicious: list[bool]
    reruns: list[int]


def _followed(one: Metric, nights: int, begins: int, loss: float, beyond: float | None) -> Followed:
    """Follow a metric, and run a suspicious night again, once more while all of its runs are bad."""

    def run(night: int) -> float:
        return one.run(night, loss if night >= begins else 0.0)

    values, of_night, place = [run(night) for night in range(nights)], list(range(nights)), 0
    did = Followed([False] * nights, [False] * nights, [0] * nights)
    levels = follow(values, RULE)
    while place < len(values):
        state, night = levels.at(place), of_night[place]
        did.failing[night] |= state.failing
        if (
            beyond is not None
            and did.reruns[night] < RERUNS
            and state.watched.beyond >= (beyond if not did.reruns[night] else 0.01)
        ):
            did.suspicious[night] = True
            did.reruns[night] += 1
            values.insert(place + 1, run(night))
            of_night.insert(place + 1, night)
            levels = follow(values, RULE, nights=[of_night.index(each) for each in of_night])
        place += 1
    return did


@dataclass(frozen=True)
class Figures:
    """One row of the table. The page has those of nights that share half of the noise."""

    shared: float
    beyond: float | None
    found: list[list[float]]
    """By loss and night, in percent."""
    extra: float
    alarms: float
    error: float
    """Its standard error."""

    def __str__(self) -> str:
        found = " | ".join("/".join(f"{each:.0f}" for each in of_loss) for of_loss in self.found)
        rule = "without reruns" if self.beyond is None else f"beyond {self.beyond:g}"
        alarms = f"{self.alarms:.1f} ± {self.error:.1f}" if self.alarms else f"0 (below {3 * self.error:.1f})"
        return f"| {rule} | {found} | {self.extra:.1f} % | {alarms} |"


def measure(shared: float, beyond: float | None, metrics: int) -> Figures:
    """Return the figures of a fleet."""
    found = []
    for loss in LOSSES:
        random, counts = np.random.default_rng([SEED, round(100 * loss)]), np.zeros(len(NIGHTS))
        for _ in range(metrics):
            did = _followed(metric(random, HEALTHY + AFTER, shared), HEALTHY + AFTER, HEALTHY, loss, beyond)
            if not any(did.failing[HEALTHY - 5 : HEALTHY]):
                counts += [any(did.failing[HEALTHY : HEALTHY + by]) for by in NIGHTS]
        found.append((100 * counts / metrics).tolist())
    random = np.random.default_rng([SEED, 0])
    quiet = [_followed(metric(random, QUIET, shared), QUIET, QUIET, 0.0, beyond) for _ in range(4 * metrics)]
    nights, span = len(quiet) * (QUIET - FIRST), range(FIRST, QUIET)
    begun = sum(did.failing[night] and not did.failing[night - 1] for did in quiet for night in span)
    suspicious = sum(sum(did.suspicious[FIRST:]) for did in quiet)
    reruns = sum(sum(did.reruns[FIRST:]) for did in quiet)
    of_tests = 1 - (1 - suspicious / nights) ** METRICS
    extra = 100 * of_tests * reruns / suspicious if suspicious else 0.0
    return Figures(shared, beyond, found, extra, FLEET * begun / nights, FLEET * math.sqrt(max(1, begun)) / nights)


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description="measure what reruns find and cost")
    parser.add_argument("--metrics", type=int, default=200, help="how many metrics have each loss; 200 by default")
    parser.add_argument("--docs", action="store_true", help="rewrite the table in docs/conditions.md")
    arguments = parser.parse_args()
    rows = [
        "| | 5 % found by night 1/3/5 | 10 % | 20 % | extra runs | alarms |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    cases = [(shared, beyond) for shared in SHARED for beyond in BEYOND]
    with ProcessPoolExecutor(PROCESSES) as pool:
        for figures in pool.map(measure, *zip(*cases, strict=True), [arguments.metrics] * len(cases)):
            print(f"{100 * figures.shared:.0f} % shared {figures}", flush=True)
            rows += [str(figures)] if figures.shared == SHARED[-1] else []
    if arguments.docs:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{chr(10).join(rows)}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
