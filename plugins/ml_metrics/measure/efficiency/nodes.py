"""Nodes that are slow across runs: a run's value is the level of its test, plus the effect of its nodes, plus noise.

The level is the middle of the test's neighbouring runs, within a period whose level stays the same. What a run differs
from it, in percent, is compared between nodes. Runs of a test in a row on the same nodes are one visit and count once:
noise that lasts for some nights, or a change that came with a move, would otherwise look like the node's effect.

How large an effect noise alone makes is found by permutation: if no node were slow, the visits of a test might as well
have been on each other's nodes. The largest effect of any node in such permutations bounds the error for all nodes
together, whatever the noise is like. A node that is named is set aside with its runs before the next one is looked for.

A visit counts by how far it is from the mean of its test, cut at a bound, so that a few far values decide nothing.
Which bound finds most depends on the noise: under a long tail on the slow side, that is a low one if many visits were
slowed down, and a high one if a node had few visits. Where the level drifts, runs are compared with a line through
their neighbours instead. So each node has the best of four scores, and so do permutations.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


NEIGHBOURS = 20
"""How many runs on each side show the level of a test."""
FEWEST_NEIGHBOURS = 5
OUTLIER = 2.5
"""A run counts as at most this far from its level, in multiples of the test's noise."""
LEAST_NOISE = 1e-3
"""The noise of a test in percent, where its values repeat."""
NORMAL_MAD = 0.6745


class Compared(NamedTuple):
    """A run, and how far it is from its level in percent, with the drift of that level and beside it."""

    run: NodeRun
    percent: tuple[float, float]


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
            # the mean of the middle half: unlike the median, it does not jump where values have two modes
            quarter = len(others) // 4
            middle = np.sort(others)[quarter : len(others) - quarter]
            level = float(middle.mean()) if len(others) >= FEWEST_NEIGHBOURS else 0.0
            if level > 0:
                of_period.append((run, min(max((run.value / level - 1) * 100, -1e6), 1e6)))
        # at most forty runs have one line, where a drift of the level is removed
        percent = np.array([percent for _, percent in of_period])
        flat = np.concatenate([_from_line(part) for part in np.array_split(percent, -(-len(percent) // 40) or 1)])
        found += [Compared(run, (far, float(one))) for (run, far), one in zip(of_period, flat, strict=True)]
    return found


def _from_line(percent: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far each run is from a straight line through it and its neighbours, which outliers hardly move.

    The line is fitted six times. A run moves it by at most 1.5 times the noise around it.
    """
    place, weight, far = np.arange(len(percent)) - (len(percent) - 1) / 2, np.ones(len(percent)), percent
    for _ in range(6 if len(percent) > FEWEST_NEIGHBOURS else 0):
        middle, level = np.average(place, weights=weight), np.average(percent, weights=weight)
        slope = float(np.sum(weight * (place - middle) * (percent - level)) / np.sum(weight * (place - middle) ** 2))
        far = percent - level - slope * (place - middle)
        usual = max(float(np.median(np.abs(far))) / NORMAL_MAD, LEAST_NOISE)
        weight = np.minimum(1.0, 1.5 * usual / np.maximum(np.abs(far), LEAST_NOISE))
    return far


def noise_of(percent: NDArray[np.float64]) -> float:
    usual = max(float(np.median(np.abs(percent))) / NORMAL_MAD, LEAST_NOISE)
    return max(float(np.sqrt(np.mean(np.clip(percent, -OUTLIER * usual, OUTLIER * usual) ** 2))), LEAST_NOISE)


PERMUTATIONS = 999
CUTS = (2.0, 3.5)
"""A visit counts as at most this far from the mean of its test, in multiples of its noise: a bound for each score."""
BLOCK = 2_000_000
"""How many numbers permutations take at once."""
DENSE = 100_000
"""Up to so many pairs of a visit and a node, a table of them is faster than their list."""


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
    """The nodes that have two visits or more, on which not all visits of their tests were."""

    @classmethod
    def of(cls, visits: Visits, *, drift: bool, cut: float) -> Score:
        percent, noise = (one[0 if drift else 1] for one in (visits.percent, visits.noise))
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
        # a sum that varies less in permutations does so by rounding alone
        compared = (np.bincount(visits.node, minlength=size) > 1) & (deviation > 1e-9)
        error = np.divide(deviation, known, out=np.full(size, np.inf), where=compared)
        return cls(scored, deviation, error, compared)

    def of_nodes(self, visits: Visits) -> NDArray[np.float64]:
        """Without enough visits, the score of a node is -inf."""
        sums = np.bincount(visits.node, self.scored[visits.members], len(visits.names))
        score = np.full(len(visits.names), -np.inf)
        score[self.compared] = sums[self.compared] / self.deviation[self.compared]
        return score

    def largest(self, visits: Visits, orders: NDArray[np.intp], more: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return by how much the worst node exceeds what it has to score, for each order of the visits."""
        shape = (len(orders), len(visits.names))
        if shape[1] * len(visits.test) <= DENSE:
            table = np.zeros((len(visits.test), shape[1]))
            table[visits.members, visits.node] = 1.0
            sums: NDArray[Any] = self.scored[orders] @ table
        else:
            place = np.arange(shape[0])[:, None] * shape[1] + visits.node
            shuffled = self.scored[orders[:, visits.members]]
            sums = np.bincount(place.ravel(), shuffled.ravel(), shape[0] * shape[1]).reshape(shape)
        scores = sums[:, self.compared] / self.deviation[self.compared] - more[self.compared]
        largest: NDArray[np.float64] = scores.max(axis=1)
        return largest


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
        orders = np.argsort(visits.test + random.random((count, len(visits.test))), axis=1)
        worst.append(np.max([score.largest(visits, orders, more) for score in usable], axis=0))
    return max(float(np.quantile(np.concatenate(worst), 1 - error, method="higher")), 0.0)


MAX_NODES = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Visits as columns, and which nodes each was on."""

    percent: NDArray[np.float64]
    """How far each visit is from the level of its test: with the drift of that level, and beside it."""
    noise: NDArray[np.float64]
    """That of its test, of both."""
    test: NDArray[np.intp]
    members: NDArray[np.intp]
    """The visit of each pair of a visit and a node."""
    node: NDArray[np.intp]
    names: tuple[str, ...]

    def without(self, node: int) -> Visits:
        gone = np.zeros(len(self.test), np.bool_)
        gone[self.members[self.node == node]] = True
        left, kept = ~gone, ~gone[self.members]
        members = (np.cumsum(left) - 1)[self.members[kept]]
        percent, noise = self.percent[:, left], self.noise[:, left]
        return Visits(percent, noise, self.test[left], members, self.node[kept], self.names)


def visits_of(compared: Sequence[Compared]) -> Visits:
    """In the order of their tests."""
    names: dict[str, int] = {}
    tests: dict[str, int] = {}
    test: list[int] = []
    percent, noise, members, nodes = [], [], [], []
    for name, rows_of_test in groupby(compared, key=lambda one: one.run.test):
        rows = list(rows_of_test)
        of_rows = [noise_of(np.array(far)) for far in zip(*(one.percent for one in rows), strict=True)]
        for _, visit in groupby(rows, key=lambda one: (one.run.period, one.run.nodes)):
            each = list(visit)
            for node in dict.fromkeys(each[0].run.nodes):
                if node in names or len(names) < MAX_NODES:
                    members.append(len(test))
                    nodes.append(names.setdefault(node, len(names)))
            percent.append([np.mean(far) for far in zip(*(one.percent for one in each), strict=True)])
            noise.append(of_rows)
            test.append(tests.setdefault(name, len(tests)))
    far, usual = (np.array(one, np.float64).reshape(-1, 2).T for one in (percent, noise))
    of_test, visit_of, on_node = (np.array(one, np.intp) for one in (test, members, nodes))
    return Visits(far, usual, of_test, visit_of, on_node, tuple(names))


ERROR = 0.005
"""How probable it may be that noise names any node. Others are looked at again after a slow one: 1 % in all."""
MAX_RUNS = 200_000
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


def node_effects(runs: Iterable[NodeRun], *, smallest: float = 1.0) -> list[NodeEffect]:
    """Return the effect of each node, the slow ones first, then by size. Too few runs to compare: an empty list.

    An effect of fewer percent than the `smallest` is not worth a name. Up to twenty nodes are named: where many are
    slow, others are what is unusual.
    """
    usable = [run for run in runs if run.nodes and np.isfinite(run.value)][:MAX_RUNS]
    compared = compared_with_level(usable)
    visits = visits_of(compared)
    if not len(visits.test):
        return []
    found: dict[int, NodeEffect] = {}
    counts = _counts(compared)
    rest, random = visits, np.random.default_rng(SEED)
    while True:
        effect = _effects(rest)
        scores = [Score.of(rest, drift=drift, cut=cut) for drift in (True, False) for cut in CUTS]
        score = np.max([one.of_nodes(rest) for one in scores], axis=0)
        # a node with many visits has to score more: its effect shows anyway, that of others hardly
        more = 0.5 * np.log(np.maximum(np.bincount(rest.node, minlength=len(rest.names)), 1))
        limit = limit_of(rest, scores, more, ERROR, random) + more
        width = _widths(effect, score, limit, scores[-1].error)
        worst = int(np.argmax(score - more))
        named = bool(score[worst] > limit[worst] and effect[worst] >= smallest and len(found) < 20)
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
        if not named or not len(rest.test):
            return sorted(found.values(), key=lambda one: (not one.slow, -one.percent, one.name))


def _counts(compared: Sequence[Compared]) -> dict[str, tuple[int, tuple[str, ...]]]:
    runs: dict[str, int] = {}
    tests: dict[str, set[str]] = {}
    for one in compared:
        for node in set(one.run.nodes):
            runs[node] = runs.get(node, 0) + 1
            tests.setdefault(node, set()).add(one.run.test)
    return {node: (count, tuple(sorted(tests[node]))) for node, count in runs.items()}


def _effects(visits: Visits) -> NDArray[np.float64]:
    """Return by how much the visits of each node differ from the others of their tests, without outliers."""
    effect = np.zeros(len(visits.names))
    percent, noise = visits.percent[1], visits.noise[1]
    near = np.clip(percent, -OUTLIER * noise, OUTLIER * noise)
    total, count = np.bincount(visits.test, near), np.bincount(visits.test)
    order = np.argsort(visits.node, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(visits.node[order])) + 1):
        at = visits.members[part]
        own, own_noise, test = percent[at], noise[at], visits.test[at]
        middle = float(np.median(own))
        usual = np.clip(own, middle - OUTLIER * own_noise, middle + OUTLIER * own_noise)
        rest = total - np.bincount(test, near[at], len(total)), count - np.bincount(test, minlength=len(count))
        others = (rest[0] / np.maximum(rest[1], 1))[test]
        weight = own_noise**-2.0 * (rest[1] / count)[test]
        if weight.any():
            effect[visits.node[part[0]]] = float(np.average(usual - others, weights=weight))
    return effect


def _widths(
    effect: NDArray[np.float64],
    score: NDArray[np.float64],
    limit: NDArray[np.float64],
    error: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return half the width of each interval. It excludes 0 if, and only if, the score is beyond the limit."""
    width = np.full(len(effect), np.inf)
    beyond, within = score > limit, np.isfinite(score) & (score <= limit) & np.isfinite(limit)
    chance = np.where(np.isfinite(limit), limit, 0.0) * np.where(np.isfinite(error), error, 0.0)
    width[beyond] = np.minimum(chance[beyond], np.maximum(effect[beyond], 0.0) * limit[beyond] / score[beyond])
    width[within] = np.maximum(chance[within], effect[within])
    return width
