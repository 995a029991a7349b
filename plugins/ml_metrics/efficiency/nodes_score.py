"""How slow nodes are in multiples of what chance makes, and how far chance goes: found by permutation of visits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ml_metrics.efficiency.nodes_visits import Visits

PERMUTATIONS = 999
FEWEST_VISITS = 2
"""A node with fewer visits is never named."""
CUTS = (2.0, 3.5)
"""A visit counts as at most this far from the mean of its test, in multiples of its noise: a bound for each score."""
FOR_MANY_VISITS = 0.5
"""How much more a node with e times as many visits has to score: its effect shows anyway, that of others hardly."""
BLOCK = 2_000_000
"""How many numbers permutations take at once."""
DENSE = 100_000
"""Up to so many pairs of a visit and a node, a table of them is faster than their list."""
LEAST_DEVIATION = 1e-9
"""A sum that varies less in permutations does so by rounding alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """How slow each node is in multiples of what chance makes, with visits cut at one bound."""

    scored: NDArray[np.float64]
    """The visits as they count."""
    deviation: NDArray[np.float64]
    """The standard deviation of each node's sum under permutations."""
    error: NDArray[np.float64]
    """The same for how much it differs from others, in percent."""
    compared: NDArray[np.bool_]
    """The nodes that have enough visits, on which not all visits of their tests were."""

    @classmethod
    def of(cls, visits: Visits, percent: NDArray[np.float64], noise: NDArray[np.float64], cut: float) -> Score:
        """Return the score by these distances from the level, with this noise."""
        tests, size = int(visits.test.max()) + 1, len(visits.names)
        total = np.maximum(np.bincount(visits.test, minlength=tests), 1)
        near = np.clip(percent / noise, -cut, cut)
        scored = (near - (np.bincount(visits.test, near, tests) / total)[visits.test]) / noise
        variance = np.bincount(visits.test, scored**2, tests) / np.maximum(total - 1, 1)
        pairs, own = np.unique(visits.test[visits.members] * size + visits.node, return_counts=True)
        test, node = np.divmod(pairs, size)
        spread = np.bincount(node, variance[test] * own * (1 - own / total[test]), size)
        of_test = np.zeros(tests)
        of_test[visits.test] = noise**-2.0
        known = np.bincount(node, of_test[test] * own * (1 - own / total[test]), size)
        deviation = np.sqrt(np.maximum(spread, 0.0))
        compared = (np.bincount(visits.node, minlength=size) >= FEWEST_VISITS) & (deviation > LEAST_DEVIATION)
        error = np.divide(deviation, known, out=np.full(size, np.inf), where=compared)
        return cls(scored, deviation, error, compared)

    def of_nodes(self, visits: Visits) -> NDArray[np.float64]:
        """Return the score of each node; without enough visits, it is -inf."""
        sums = np.bincount(visits.node, self.scored[visits.members], len(visits.names))
        score = np.full(len(visits.names), -np.inf)
        score[self.compared] = sums[self.compared] / self.deviation[self.compared]
        return score

    def largest(self, exchanged: _Exchanged, more: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return by how much the worst node exceeds what it has to score, for each order of the visits."""
        sums = exchanged.sums(self.scored)[:, self.compared]
        scores: NDArray[np.float64] = sums / self.deviation[self.compared] - more[self.compared]
        largest: NDArray[np.float64] = scores.max(axis=1)
        return largest


@dataclass(frozen=True, slots=True, eq=False)
class _Exchanged:
    """Visits in some random orders, each within its test."""

    visits: Visits
    orders: NDArray[np.intp]

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of the values on each node, a row for each order."""
        size, visits = len(self.visits.names), self.visits
        if size * len(visits.percent) <= DENSE:
            table = np.zeros((len(visits.percent), size))
            table[visits.members, visits.node] = 1.0
            product: NDArray[np.float64] = values[self.orders] @ table
            return product
        place = np.arange(len(self.orders))[:, None] * size + visits.node
        shuffled = values[self.orders[:, visits.members]]
        listed: NDArray[np.float64] = np.zeros((len(self.orders), size))
        listed += np.bincount(place.ravel(), shuffled.ravel(), listed.size).reshape(listed.shape)
        return listed


def scores_of(visits: Visits) -> list[Score]:
    """Return the scores of which each node has the best one."""
    drifting = [Score.of(visits, visits.with_drift, visits.noise_with_drift, cut) for cut in CUTS]
    return [*drifting, *(Score.of(visits, visits.percent, visits.noise, cut) for cut in CUTS)]


def more_for_visits(visits: Visits) -> NDArray[np.float64]:
    """Return how much more each node has to score because of the number of its visits."""
    return FOR_MANY_VISITS * np.log(np.maximum(np.bincount(visits.node, minlength=len(visits.names)), 1))


def limit_of(
    visits: Visits, scores: Sequence[Score], more: NDArray[np.float64], error: float, random: np.random.Generator
) -> float:
    """Return by how much the worst of all nodes exceeds `more` with a probability of `error` if none is slow."""
    usable = [score for score in scores if score.compared.any()]
    if not usable:
        return float("inf")
    worst = []
    rows = max(1, BLOCK // max(len(visits.members), len(visits.names)))
    for start in range(0, PERMUTATIONS, rows):
        count = min(rows, PERMUTATIONS - start)
        # visits are in the order of their tests: this is a random order within each
        orders = np.argsort(visits.test + random.random((count, len(visits.percent))), axis=1)
        exchanged = _Exchanged(visits, orders)
        worst.append(np.max([score.largest(exchanged, more) for score in usable], axis=0))
    return max(float(np.quantile(np.concatenate(worst), 1 - error, method="higher")), 0.0)
