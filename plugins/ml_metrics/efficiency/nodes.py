"""Nodes that are slow across runs: a run's value is the level of its test, plus the effect of its nodes, plus noise.

The level is the middle of the test's neighbouring runs, within a period whose level stays the same. What a run differs
from it, in percent, is compared between nodes. Runs of a test in a row on the same nodes are one visit and count once:
noise that lasts for some nights, or a change that came with a move, would otherwise look like the node's effect.

How large an effect noise alone makes is found by permutation: if no node were slow, the visits of a test might as well
have been on each other's nodes. The largest effect of any node in such permutations bounds the error for all nodes
together, whatever the noise is like. A node that is named is set aside with its runs before the next one is looked for.
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
CLIPPED = 2.5
"""A run counts as at most this far from its level, in multiples of the test's noise."""
LEAST_NOISE = 1e-3
"""The noise of a test in percent, where its values repeat."""
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
        """Whether there is an interval: a node with one visit could have any effect."""
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
        effect, error, score = _effects(rest)
        limit = _limit(rest, random)
        worst = int(np.argmax(score))
        named = bool(score[worst] > limit and effect[worst] >= smallest and len(found) < MOST_SLOW)
        for node in [worst] if named else np.flatnonzero(np.isfinite(error)).tolist():
            width = limit * error[node] if score[node] > -np.inf else np.inf
            name = rest.names[node]
            found[node] = NodeEffect(
                name=name,
                runs=counts[name][0],
                visits=int((visits.node == node).sum()),
                tests=counts[name][1],
                percent=float(effect[node]),
                low=float(effect[node] - width),
                high=float(effect[node] + width),
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
    return max(float(np.sqrt(np.mean(np.clip(percent, -CLIPPED * usual, CLIPPED * usual) ** 2))), LEAST_NOISE)


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


def _effects(visits: _Visits) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return effect, standard error and score of each node; without enough visits, the score is -inf."""
    size = len(visits.names)
    weight = visits.noise**-2.0
    weights = np.bincount(visits.node, weight[visits.members], size)
    count = np.bincount(visits.node, minlength=size)
    error = np.full(size, np.inf)
    error[count > 0] = weights[count > 0] ** -0.5
    score = np.full(size, -np.inf)
    compared = count >= FEWEST_VISITS
    score[compared] = _sums(visits, _scored(visits))[compared] * error[compared]
    effect = np.zeros(size)
    order = np.argsort(visits.node, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(visits.node[order])) + 1):
        at = visits.members[part]
        own, noise = visits.percent[at], visits.noise[at]
        middle = float(np.median(own))
        usual = np.clip(own, middle - CLIPPED * noise, middle + CLIPPED * noise)
        effect[visits.node[part[0]]] = float(np.average(usual, weights=weight[at]))
    return effect, error, score


def _scored(visits: _Visits) -> NDArray[np.float64]:
    """Return the visits as they count in scores."""
    scored: NDArray[np.float64] = np.clip(visits.percent / visits.noise, -CLIPPED, CLIPPED) / visits.noise
    return scored


def _sums(visits: _Visits, scored: NDArray[np.float64]) -> NDArray[np.float64]:
    sums: NDArray[np.float64] = np.bincount(visits.node, scored[visits.members], len(visits.names)).astype(np.float64)
    return sums


def _limit(visits: _Visits, random: np.random.Generator) -> float:
    """Return the score that the worst of all nodes exceeds with the probability `ERROR` if none is slow."""
    scored = _scored(visits)
    count = np.bincount(visits.node, minlength=len(visits.names))
    weights = np.bincount(visits.node, (visits.noise**-2.0)[visits.members], len(visits.names))
    compared = count >= FEWEST_VISITS
    if not compared.any():
        return float("inf")
    error = weights[compared] ** -0.5
    worst = np.empty(PERMUTATIONS)
    for index in range(PERMUTATIONS):
        # visits are in the order of their tests: this is a random order within each
        shuffled = scored[np.argsort(visits.test + random.random(len(scored)))]
        worst[index] = (_sums(visits, shuffled)[compared] * error).max()
    return max(float(np.quantile(worst, 1 - ERROR, method="higher")), 0.0)
