"""Nodes that are slow across runs: a run's value is the level of its test, plus the effect of its nodes, plus noise.

The level is the middle of the test's neighbouring runs, within a period whose level stays the same. What a run differs
from it, in percent, is compared between nodes. Runs of a test in a row on the same nodes are one visit and count once:
noise that lasts for some nights, or a change that came with a move, would otherwise look like the node's effect.

How large an effect noise alone makes is found by permutation: if no node were slow, the visits of a test might as well
have been on each other's nodes. The largest effect of any node in such permutations bounds the error for all nodes
together, whatever the noise is like. A node that is named is set aside with its runs before the next one is looked for.

A visit counts by how far it is from the mean of its test, cut at a bound, so that a few far values decide nothing.
Which bound finds most depends on the noise: under a long tail on the slow side, that is a low one if many visits were
slowed down, and a high one if a node had few visits. So each node has the better of two scores, and so do permutations.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

ERROR = 0.005
"""How probable it may be that noise names any node. Others are looked at again after a slow one: 1 % in all."""
SMALLEST = 1.0
"""A smaller effect, in percent, is not worth a name."""
PERMUTATIONS = 999
NEIGHBOURS = 20
"""How many runs on each side show the level of a test."""
FEWEST_NEIGHBOURS = 5
FEWEST_VISITS = 2
"""A node with fewer visits is never named."""
OUTLIER = 2.5
"""A run counts as at most this far from its level, in multiples of the test's noise."""
CUTS = (2.0, 3.5)
"""The same for the visits of each score."""
BLOCK = 2_000_000
"""How many numbers permutations take at once."""
LEAST_NOISE = 1e-3
"""The noise of a test in percent, where its values repeat."""
LEAST_DEVIATION = 1e-9
"""A sum that varies less in permutations does so by rounding alone."""
MOST_PERCENT = 1e6
NORMAL_MAD = 0.6745
MOST_SLOW = 20
"""Nodes that are named: where many are slow, others are what is unusual."""
MAX_RUNS, MAX_NODES = 200_000, 20_000
SEED = 24


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One run: its nodes, and what they may have slowed down."""

    test: str
    run_key: str
    at: float
    """When it ended; only the order counts."""
    nodes: tuple[str, ...]
    value: float
    period: int = 0
    """The number of the period, between two changes of the test's level."""


@dataclass(frozen=True, slots=True)
class NodeEffect:
    """What runs on one node differ from others of the same tests."""

    name: str
    runs: int
    visits: int
    tests: tuple[str, ...]
    percent: float
    """Positive: runs on this node take longer."""
    low: float
    high: float
    """The interval of the effect, which holds for all nodes together with a probability of 99.5 %."""
    slow: bool
    """Whether the interval excludes 0, and the effect is large enough to matter."""

    @property
    def known(self) -> bool:
        """Whether there is an interval: a node with one visit, or all visits of its tests, could have any effect."""
        return bool(np.isfinite(self.low))


@dataclass(frozen=True, slots=True, eq=False)
class _Visits:
    """Visits as columns, and which nodes each was on."""

    percent: NDArray[np.float64]
    """How far the visit is from the level of its test."""
    noise: NDArray[np.float64]
    test: NDArray[np.intp]
    members: NDArray[np.intp]
    """The visit of each pair of a visit and a node."""
    node: NDArray[np.intp]
    names: tuple[str, ...]

    def without(self, node: int) -> _Visits:
        """Return the visits that were not on this node."""
        gone = np.zeros(len(self.percent), np.bool_)
        gone[self.members[self.node == node]] = True
        kept = ~gone[self.members]
        place = np.cumsum(~gone) - 1
        columns = (self.percent[~gone], self.noise[~gone], self.test[~gone])
        return _Visits(*columns, place[self.members[kept]], self.node[kept], self.names)


def node_effects(runs: Iterable[NodeRun], *, smallest: float = SMALLEST) -> list[NodeEffect]:
    """Return the effect of each node, the slow ones first, then by size. Too few runs to compare: an empty list."""
    usable = [run for run in runs if run.nodes and np.isfinite(run.value)][:MAX_RUNS]
    compared = _percent_of_level(usable)
    visits = _visits(compared)
    if not len(visits.percent):
        return []
    found: dict[int, NodeEffect] = {}
    counts = _counts(compared)
    rest, random = visits, np.random.default_rng(SEED)
    while True:
        effect, scores = _effects(rest), [_Score.of(rest, cut) for cut in CUTS]
        score = np.max([one.of_nodes(rest) for one in scores], axis=0)
        limit = _limit(rest, scores, random)
        width = _widths(effect, score, limit, scores[-1].error)
        worst = int(np.argmax(score))
        named = bool(score[worst] > limit and effect[worst] >= smallest and len(found) < MOST_SLOW)
        for node in [worst] if named else np.unique(rest.node).tolist():
            name = rest.names[node]
            found[node] = NodeEffect(
                name=name,
                runs=counts[name][0],
                visits=int((visits.node == node).sum()),
                tests=counts[name][1],
                percent=float(effect[node]),
                low=float(effect[node] - width[node]),
                high=float(effect[node] + width[node]),
                slow=named,
            )
        rest = rest.without(worst)
        if not named or not len(rest.percent):
            return sorted(found.values(), key=lambda one: (not one.slow, -one.percent, one.name))


def _percent_of_level(runs: Sequence[NodeRun]) -> list[tuple[NodeRun, float]]:
    """Return each run with how far it is from the middle of its neighbours, in percent; lonely runs are left out."""
    ordered = sorted(runs, key=lambda run: (run.test, run.period, run.at, run.run_key))
    found = []
    for _, group in groupby(ordered, key=lambda run: (run.test, run.period)):
        each = list(group)
        values = np.array([run.value for run in each])
        for place, run in enumerate(each):
            low, high = max(0, place - NEIGHBOURS), place + NEIGHBOURS + 1
            others = np.concatenate([values[low:place], values[place + 1 : high]])
            level = _middle(others) if len(others) >= FEWEST_NEIGHBOURS else 0.0
            if level > 0:
                percent = min(max((run.value / level - 1) * 100, -MOST_PERCENT), MOST_PERCENT)
                found.append((run, percent))
    return found


def _middle(values: NDArray[np.float64]) -> float:
    """Return the mean of the middle half: unlike the median, it does not jump where values have two modes."""
    quarter = len(values) // 4
    return float(np.sort(values)[quarter : len(values) - quarter].mean())


def _noise(percent: NDArray[np.float64]) -> float:
    """Return the standard deviation without outliers."""
    usual = max(float(np.median(np.abs(percent))) / NORMAL_MAD, LEAST_NOISE)
    return max(float(np.sqrt(np.mean(np.clip(percent, -OUTLIER * usual, OUTLIER * usual) ** 2))), LEAST_NOISE)


def _visits(compared: Sequence[tuple[NodeRun, float]]) -> _Visits:
    names: dict[str, int] = {}
    tests: dict[str, int] = {}
    percent: list[float] = []
    noise: list[float] = []
    test, members, nodes = [], [], []
    for name, of_test in groupby(compared, key=lambda one: one[0].test):
        rows = list(of_test)
        spread = _noise(np.array([far for _, far in rows]))
        for _, visit in groupby(rows, key=lambda one: (one[0].period, one[0].nodes)):
            each = list(visit)
            for node in dict.fromkeys(each[0][0].nodes):
                if node in names or len(names) < MAX_NODES:
                    members.append(len(percent))
                    nodes.append(names.setdefault(node, len(names)))
            percent.append(float(np.mean([far for _, far in each])))
            noise.append(spread)
            test.append(tests.setdefault(name, len(tests)))
    return _Visits(
        np.array(percent), np.array(noise), np.array(test, np.intp), np.array(members, np.intp),
        np.array(nodes, np.intp), tuple(names),
    )  # fmt: skip


def _counts(compared: Sequence[tuple[NodeRun, float]]) -> dict[str, tuple[int, tuple[str, ...]]]:
    runs: dict[str, int] = {}
    tests: dict[str, set[str]] = {}
    for run, _ in compared:
        for node in set(run.nodes):
            runs[node] = runs.get(node, 0) + 1
            tests.setdefault(node, set()).add(run.test)
    return {node: (count, tuple(sorted(tests[node]))) for node, count in runs.items()}


def _effects(visits: _Visits) -> NDArray[np.float64]:
    """Return the effect of each node: the mean of its visits, without outliers."""
    weight = visits.noise**-2.0
    effect = np.zeros(len(visits.names))
    order = np.argsort(visits.node, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(visits.node[order])) + 1):
        at = visits.members[part]
        own, noise = visits.percent[at], visits.noise[at]
        middle = float(np.median(own))
        usual = np.clip(own, middle - OUTLIER * noise, middle + OUTLIER * noise)
        effect[visits.node[part[0]]] = float(np.average(usual, weights=weight[at]))
    return effect


@dataclass(frozen=True, slots=True, eq=False)
class _Score:
    """How slow each node is in multiples of what chance makes, with visits cut at one bound."""

    scored: NDArray[np.float64]
    """The visits as they count."""
    deviation: NDArray[np.float64]
    """The standard deviation of each node's sum under permutations."""
    error: NDArray[np.float64]
    """The same for its mean in percent."""
    compared: NDArray[np.bool_]
    """The nodes that have enough visits, on which not all visits of their tests were."""

    @classmethod
    def of(cls, visits: _Visits, cut: float) -> _Score:
        tests, size = int(visits.test.max()) + 1, len(visits.names)
        total = np.maximum(np.bincount(visits.test, minlength=tests), 1)
        near = np.clip(visits.percent / visits.noise, -cut, cut)
        scored = (near - (np.bincount(visits.test, near, tests) / total)[visits.test]) / visits.noise
        variance = np.bincount(visits.test, scored**2, tests) / np.maximum(total - 1, 1)
        pairs, own = np.unique(visits.test[visits.members] * size + visits.node, return_counts=True)
        test, node = np.divmod(pairs, size)
        spread = np.bincount(node, variance[test] * own * (1 - own / total[test]), size)
        weights = np.bincount(visits.node, (visits.noise**-2.0)[visits.members], size)
        deviation = np.sqrt(np.maximum(spread, 0.0))
        compared = (np.bincount(visits.node, minlength=size) >= FEWEST_VISITS) & (deviation > LEAST_DEVIATION)
        error = np.divide(deviation, weights, out=np.full(size, np.inf), where=compared)
        return cls(scored, deviation, error, compared)

    def of_nodes(self, visits: _Visits) -> NDArray[np.float64]:
        """Return the score of each node; without enough visits, it is -inf."""
        sums = np.bincount(visits.node, self.scored[visits.members], len(visits.names))
        score = np.full(len(visits.names), -np.inf)
        score[self.compared] = sums[self.compared] / self.deviation[self.compared]
        return score

    def largest(self, visits: _Visits, orders: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the score of the worst node for each order of the visits."""
        size = len(visits.names)
        place = np.arange(len(orders))[:, None] * size + visits.node
        shuffled = self.scored[orders[:, visits.members]]
        sums = np.bincount(place.ravel(), shuffled.ravel(), len(orders) * size).reshape(len(orders), size)
        largest: NDArray[np.float64] = (sums[:, self.compared] / self.deviation[self.compared]).max(axis=1)
        return largest


def _widths(
    effect: NDArray[np.float64], score: NDArray[np.float64], limit: float, error: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return half the width of each interval. It excludes 0 if, and only if, the score is beyond the limit."""
    width = np.full(len(effect), np.inf)
    beyond, within = score > limit, np.isfinite(score) & (score <= limit) & np.isfinite(limit)
    width[beyond] = np.minimum(limit * error[beyond], np.maximum(effect[beyond], 0.0) * limit / score[beyond])
    width[within] = np.maximum(limit * error[within], effect[within])
    return width


def _limit(visits: _Visits, scores: Sequence[_Score], random: np.random.Generator) -> float:
    """Return the score that the worst of all nodes exceeds with the probability `ERROR` if none is slow."""
    usable = [score for score in scores if score.compared.any()]
    if not usable:
        return float("inf")
    worst = []
    rows = max(1, BLOCK // max(len(visits.members), len(visits.names)))
    for start in range(0, PERMUTATIONS, rows):
        count = min(rows, PERMUTATIONS - start)
        # visits are in the order of their tests: this is a random order within each
        orders = np.argsort(visits.test + random.random((count, len(visits.percent))), axis=1)
        worst.append(np.max([score.largest(visits, orders) for score in usable], axis=0))
    return max(float(np.quantile(np.concatenate(worst), 1 - ERROR, method="higher")), 0.0)
