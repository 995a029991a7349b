"""The score of a rule: what it finds, how soon, and how often it fails a healthy run."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import quantiles
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from run_by_run.stories import Case, Flags

SOON, LATE = 5, 15
"""A loss is found within 5 runs if one of its first five runs fails."""
STUCK = 30
"""A metric is stuck if it fails for so many healthy runs in a row."""
BLIND = 20
"""A rule is blind to a loss of at least so many runs if none of them fails."""


@dataclass(slots=True)
class Score:
    """The sums over the cases of a rule."""

    cases: int = 0
    losses: int = 0
    soon: int = 0
    late: int = 0
    delays: list[int] = field(default_factory=list)
    """The number of runs of a loss that passed before the first one failed, of each loss that was found."""
    healthy: int = 0
    starts: int = 0
    """Healthy runs that fail after a run that did not: the beginnings of false alarms."""
    failing: int = 0
    """Healthy runs that fail, without those shortly after a recovery."""
    noisy: int = 0
    """Metrics with a false start."""
    stuck: int = 0
    blind: int = 0
    creeps: int = 0
    crept: list[float] = field(default_factory=list)
    """By how many percent the level of each creep that was found had risen."""

    def add(self, case: Case, failing: Flags) -> None:
        """Count one metric."""
        self.cases += 1
        self._count_losses(case, failing)
        self._count_false_alarms(case, failing)
        if case.creep is not None:
            self.creeps += 1
            found = np.flatnonzero(failing[case.creep :])
            self.crept += [float(case.crept[case.creep + place]) for place in found[:1]]

    def _count_losses(self, case: Case, failing: Flags) -> None:
        for first, end in case.losses:
            self.losses += 1
            found = np.flatnonzero(failing[first:end])
            if not len(found):
                self.blind += end - first >= BLIND
                continue
            delay = int(found[0])
            self.delays.append(delay)
            self.soon += delay < SOON
            self.late += delay < LATE

    def _count_false_alarms(self, case: Case, failing: Flags) -> None:
        wrong = failing & case.healthy
        before = np.concatenate(([False], failing[:-1]))
        starts = int((wrong & ~before).sum())
        self.healthy += int(case.healthy.sum())
        self.starts += starts
        self.noisy += starts > 0
        self.failing += int((wrong & ~case.aftermath).sum())
        self.stuck += _longest(wrong) >= STUCK

    def merge(self, other: Score) -> None:
        """Add the sums of another score."""
        for name in Score.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def figures(self) -> dict[str, float | int | None]:
        """Return what is reported."""
        losses, healthy = max(1, self.losses), max(1, self.healthy)
        ranks = quantiles(self.delays, n=10, method="inclusive") if len(self.delays) > 1 else []
        return {
            "cases": self.cases,
            "losses": self.losses,
            "soon": round(100 * self.soon / losses, 1),
            "late": round(100 * self.late / losses, 1),
            "ever": round(100 * len(self.delays) / losses, 1),
            "delay p50": round(ranks[4]) if ranks else None,
            "delay p90": round(ranks[8]) if ranks else None,
            "starts": round(1_000 * self.starts / healthy, 2),
            "failing": round(1_000 * self.failing / healthy, 1),
            "noisy": self.noisy,
            "stuck": self.stuck,
            "blind": self.blind,
            "creeps": self.creeps,
            "creeps found": len(self.crept),
            "crept": round(float(np.median(self.crept)), 1) if self.crept else None,
            "most crept": round(max(self.crept), 1) if self.crept else None,
        }


def _longest(flags: Flags) -> int:
    """Return the length of the longest stretch of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return int((edges[1::2] - edges[::2]).max(initial=0))
