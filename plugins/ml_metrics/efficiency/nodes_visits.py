"""The visits of nodes: runs of a test in a row on the same nodes, which count once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.efficiency.nodes_level import noise_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ml_metrics.efficiency.nodes_level import Compared

MAX_NODES = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Visits as columns, and which nodes each was on."""

    percent: NDArray[np.float64]
    """How far the visit is from the level of its test, beside the drift of that level."""
    noise: NDArray[np.float64]
    with_drift: NDArray[np.float64]
    """The same, with the drift."""
    noise_with_drift: NDArray[np.float64]
    test: NDArray[np.intp]
    members: NDArray[np.intp]
    """The visit of each pair of a visit and a node."""
    node: NDArray[np.intp]
    names: tuple[str, ...]

    def without(self, node: int) -> Visits:
        """Return the visits that were not on this node."""
        gone = np.zeros(len(self.percent), np.bool_)
        gone[self.members[self.node == node]] = True
        kept = ~gone[self.members]
        place = np.cumsum(~gone) - 1
        return Visits(
            self.percent[~gone],
            self.noise[~gone],
            self.with_drift[~gone],
            self.noise_with_drift[~gone],
            self.test[~gone],
            place[self.members[kept]],
            self.node[kept],
            self.names,
        )


def visits_of(compared: Sequence[Compared]) -> Visits:
    """Return the visits, in the order of their tests."""
    names: dict[str, int] = {}
    tests: dict[str, int] = {}
    columns: list[tuple[float, ...]] = []
    test, members, nodes = [], [], []
    for name, of_test in groupby(compared, key=lambda one: one.run.test):
        rows = list(of_test)
        spread, drifting = (
            noise_of(np.array(far)) for far in zip(*((one.percent, one.with_drift) for one in rows), strict=True)
        )
        for _, visit in groupby(rows, key=lambda one: (one.run.period, one.run.nodes)):
            each = list(visit)
            for node in dict.fromkeys(each[0].run.nodes):
                if node in names or len(names) < MAX_NODES:
                    members.append(len(columns))
                    nodes.append(names.setdefault(node, len(names)))
            own, own_with_drift = (
                float(np.mean(far)) for far in zip(*((one.percent, one.with_drift) for one in each), strict=True)
            )
            columns.append((own, spread, own_with_drift, drifting))
            test.append(tests.setdefault(name, len(tests)))
    percent, noise, with_drift, noise_with_drift = np.array(columns, np.float64).reshape(-1, 4).T
    return Visits(
        percent, noise, with_drift, noise_with_drift, np.array(test, np.intp), np.array(members, np.intp),
        np.array(nodes, np.intp), tuple(names),
    )  # fmt: skip
