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
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.efficiency.nodes_level import OUTLIER, compared_with_level
from ml_metrics.efficiency.nodes_score import limit_of, more_for_visits, scores_of
from ml_metrics.efficiency.nodes_visits import visits_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from ml_metrics.efficiency.nodes_level import Compared
    from ml_metrics.efficiency.nodes_visits import Visits

ERROR = 0.005
"""How probable it may be that noise names any node. Others are looked at again after a slow one: 1 % in all."""
SMALLEST = 1.0
"""A smaller effect, in percent, is not worth a name."""
MOST_SLOW = 20
"""Nodes that are named: where many are slow, others are what is unusual."""
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


def node_effects(runs: Iterable[NodeRun], *, smallest: float = SMALLEST) -> list[NodeEffect]:
    """Return the effect of each node, the slow ones first, then by size. Too few runs to compare: an empty list."""
    usable = [run for run in runs if run.nodes and np.isfinite(run.value)][:MAX_RUNS]
    compared = compared_with_level(usable)
    visits = visits_of(compared)
    if not len(visits.percent):
        return []
    found: dict[int, NodeEffect] = {}
    counts = _counts(compared)
    rest, random = visits, np.random.default_rng(SEED)
    while True:
        effect, scores = _effects(rest), scores_of(rest)
        score = np.max([one.of_nodes(rest) for one in scores], axis=0)
        more = more_for_visits(rest)
        limit = limit_of(rest, scores, more, ERROR, random) + more
        width = _widths(effect, score, limit, scores[-1].error)
        worst = int(np.argmax(score - more))
        named = bool(score[worst] > limit[worst] and effect[worst] >= smallest and len(found) < MOST_SLOW)
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
    near = np.clip(visits.percent, -OUTLIER * visits.noise, OUTLIER * visits.noise)
    total, count = np.bincount(visits.test, near), np.bincount(visits.test)
    order = np.argsort(visits.node, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(visits.node[order])) + 1):
        at = visits.members[part]
        own, noise, test = visits.percent[at], visits.noise[at], visits.test[at]
        middle = float(np.median(own))
        usual = np.clip(own, middle - OUTLIER * noise, middle + OUTLIER * noise)
        rest = total - np.bincount(test, near[at], len(total)), count - np.bincount(test, minlength=len(count))
        others = (rest[0] / np.maximum(rest[1], 1))[test]
        weight = noise**-2.0 * (rest[1] / count)[test]
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
