"""What a young series borrows from its siblings until its own noise is known."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ml_metrics.core.kinds import Kind, kind_of
from ml_metrics.core.text import counted
from ml_metrics.judge.noise import KNOWN_RUNS, Noise, middle

FEWEST_RUNS = 3
"""From how many runs on a series with siblings is judged by its level."""
ALIKE, AS_KNOWN = 0.4, 3
"""How far the logarithms of the noise of siblings are apart as long as few show it, and as how many that counts."""
MOST_RUNS = 15


class Sibling(NamedTuple):
    """The noise of a metric of another test, as a share of its level."""

    test: str
    metric: str
    noise: float


@dataclass(frozen=True, slots=True)
class Siblings:
    """Series that are like a young one."""

    noise: float
    """Their usual noise, as a share of the level."""
    runs: float
    """How many runs of its own would tell a series as much. The more the siblings differ, the fewer."""
    names: str

    def lend(self, noise: Noise) -> Noise:
        """The noise of a young baseline, with what its siblings add to it."""
        if noise.count >= KNOWN_RUNS:
            return noise
        own, theirs = noise.count - 1, self.noise * abs(noise.level)
        spread = math.sqrt((own * noise.spread**2 + self.runs * theirs**2) / (own + self.runs))
        return replace(noise, spread=spread, lent=self.runs)


def siblings_of(test: str, metric: str, known: Iterable[Sibling]) -> Siblings | None:
    """The siblings that tell most about the noise of a metric of a test; None if none is known.

    They are the same metric of tests with nearly the same name, which run on other hardware or were renamed, of all
    tests, or other metrics of the same kind.
    """
    words = _words(test)
    same = [one for one in known if one.metric == metric and one.test != test and one.noise > 0]
    near = [one for one in same if 2 * len(words & _words(one.test)) >= max(len(words), len(_words(one.test)))]
    kind = kind_of(metric)
    alike = [
        one for one in known if one.test == test and one.metric != metric and kind_of(one.metric) == kind != Kind()
    ]
    groups = (
        (near, f"that of {counted(len(near), 'test')} like this one"),
        (same, f"that of {counted(len(same), 'test')} with this metric"),
        (alike, f"that of {counted(len(alike), 'metric')} of the same kind"),
    )
    found = [_together([one.noise for one in group], names) for group, names in groups if group]
    return max(found, key=lambda one: one.runs, default=None)


def _words(name: str) -> set[str]:
    return set(re.split(r"[\W_]+", name))


def _together(noise: Sequence[float], names: str) -> Siblings:
    logs = [math.log(each) for each in noise]
    usual = middle(logs)
    apart = (sum((each - usual) ** 2 for each in logs) + AS_KNOWN * ALIKE**2) / (len(logs) - 1 + AS_KNOWN)
    return Siblings(math.exp(usual), min(MOST_RUNS, 0.5 / apart), names)
