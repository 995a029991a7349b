"""A map of hosts by steps, thinned so that a page can draw it whatever the number of hosts and steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MAX_HOSTS = 64
"""The hosts that behave least like the others are kept."""
MAX_COLUMNS = 100
MAX_NAME = 100
"""The characters of a host's name that are drawn."""
MOST_PERCENT = 1e6


@dataclass(frozen=True, slots=True)
class HostMap:
    """How much longer than the median of the hosts each host took, in percent, by spans of steps."""

    hosts: tuple[str, ...]
    steps: tuple[int, ...]
    """The first step of each column."""
    last_step: int
    percent: tuple[tuple[float, ...], ...]
    """A row for each host."""
    left_out: int
    """Hosts that are not drawn."""

    def document(self) -> dict[str, Any]:
        """Return what reports contain."""
        return {
            "hosts": list(self.hosts),
            "first_steps": list(self.steps),
            "last_step": self.last_step,
            "percent": [list(row) for row in self.percent],
            "hosts_left_out": self.left_out,
        }


def host_map(names: Sequence[str], steps: NDArray[np.int64], seconds: NDArray[np.float64]) -> HostMap:
    """Return the map of a table of step times, with a row for each host and a column for each step."""
    starts = np.unique(np.linspace(0, len(steps), min(MAX_COLUMNS, len(steps)), endpoint=False).astype(int))
    usual = np.median(seconds, axis=0)
    sums, all_usual = np.add.reduceat(seconds, starts, axis=1), np.add.reduceat(usual, starts)
    share = np.divide(sums, all_usual, out=np.ones_like(sums), where=all_usual > 0)
    percent = np.clip((share - 1) * 100, -MOST_PERCENT, MOST_PERCENT)
    kept = np.sort(np.argsort(-np.abs(percent).max(axis=1), kind="stable")[:MAX_HOSTS])
    return HostMap(
        hosts=tuple(names[index][:MAX_NAME] for index in kept),
        steps=tuple(steps[starts].tolist()),
        last_step=int(steps[-1]),
        percent=tuple(tuple(round(value, 2) for value in percent[index].tolist()) for index in kept),
        left_out=len(names) - len(kept),
    )
