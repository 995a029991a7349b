"""Planted stories: where the level of a metric changes, and what a rule should do about it. Higher values are worse.

- A *loss* is a change for the worse of at least 10 % of the original level and 3 standard deviations of the noise that
  lasts 7 runs or longer. It counts from its first run until the level is back; after an improvement, the way back to
  the old level is a loss.
- A run is *healthy* if no change for the worse is in effect. Runs of a change that is too small (`small`) or too short
  (`brief`) for a loss count neither way, nor do the runs of a creep.
- The `AFTERMATH` runs after a recovery may still fail: a rule on levels cannot know better yet. They count as healthy
  for new failures only.
- Single bad nights, and everything in `noise.py`, are healthy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .noise import FAMILIES, PERCENT, Family, Random, Values

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 365
LEVEL = 100.0
AFTERMATH = 5
CREEP_A_WEEK = 0.003
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Case:
    """One metric of one test, with a value for each night."""

    family: str
    story: str
    values: Values
    healthy: Flags
    aftermath: Flags
    losses: tuple[tuple[int, int], ...]
    """The first run of each loss, and the first run after it."""
    creep: int | None
    """The run at which a creep begins."""
    crept: Values
    """By how many percent the level is above that of the run before the creep."""
    sd_percent: float


@dataclass(slots=True)
class Plan:
    """The level of a metric while a story is planted."""

    random: Random
    sd: float
    """The standard deviation of the noise in percent."""
    level: Values = field(default_factory=lambda: np.full(RUNS, LEVEL))
    healthy: Flags = field(default_factory=lambda: np.ones(RUNS, dtype=np.bool_))
    losses: list[tuple[int, int]] = field(default_factory=list)
    creep: int | None = None

    def size(self) -> float:
        """Draw the size of a loss, as a share of the level."""
        return max(10 * self.random.uniform(1, 2.5), self.sd * self.random.uniform(3, 6)) / 100

    def between(self, first: int, last: int) -> int:
        """Draw a run."""
        return int(self.random.integers(first, last))

    def lose(self, first: int, end: int = RUNS, size: float | None = None) -> None:
        """Plant a loss."""
        self.worsen(first, end, self.size() if size is None else size)
        self.losses.append((first, end))

    def worsen(self, first: int, end: int, size: float) -> None:
        """Plant a change for the worse that counts neither way."""
        self.level[first:end] *= 1 + size
        self.healthy[first:end] = False


def _step(plan: Plan) -> None:
    plan.lose(plan.between(60, 200))


def _late(plan: Plan) -> None:
    plan.lose(plan.between(250, 330))


def _early(plan: Plan) -> None:
    plan.lose(plan.between(25, 40))


def _recovery(plan: Plan) -> None:
    first = plan.between(60, 150)
    plan.lose(first, first + plan.between(20, 60))


def _two_losses(plan: Plan) -> None:
    first = plan.between(60, 120)
    plan.lose(first, first + plan.between(15, 30))
    second = plan.between(200, 250)
    plan.lose(second, second + plan.between(20, 60))


def _loss_then_gain(plan: Plan) -> None:
    first = plan.between(80, 120)
    plan.lose(first, first + plan.between(30, 50))
    plan.level[plan.between(220, 260) :] *= 1 - plan.size() * 0.6


def _gain(plan: Plan) -> None:
    plan.level[plan.between(80, 200) :] *= 1 - plan.size() * 0.8


def _gain_then_loss(plan: Plan) -> None:
    size = plan.size()
    plan.level[plan.between(60, 120) :] /= 1 + size
    plan.lose(plan.between(180, 260), size=size)


def _creep(plan: Plan) -> None:
    plan.creep = plan.between(40, 90)
    plan.level *= 1 + np.maximum(0, np.arange(RUNS) - plan.creep) / 7 * CREEP_A_WEEK
    plan.healthy[plan.creep :] = False


def _bad_nights(plan: Plan) -> None:
    for night in plan.random.integers(30, RUNS, size=6):
        plan.level[night] *= 1 + plan.size() * 2


def _short(plan: Plan) -> None:
    first = plan.between(60, 150)
    plan.lose(first, first + plan.between(7, 12))


def _brief(plan: Plan) -> None:
    for first in (plan.between(50, 100), plan.between(150, 200), plan.between(250, 300)):
        plan.worsen(first, first + plan.between(3, 7), plan.size())


def _loss_beside_bad_nights(plan: Plan) -> None:
    first = plan.between(80, 200)
    plan.lose(first)
    plan.level[first - plan.between(1, 6)] *= 1.5
    plan.level[first + plan.between(1, 4)] *= 0.8


def _small(plan: Plan) -> None:
    plan.worsen(plan.between(80, 200), RUNS, plan.random.uniform(0.5, 1.5) * plan.sd / 100)


def _back_and_forth(plan: Plan) -> None:
    for first in (80, 160, 240):
        plan.lose(first, first + plan.between(15, 25))


def _nothing(plan: Plan) -> None:
    """Plant nothing."""


STORIES: dict[str, Callable[[Plan], None]] = {
    "nothing": _nothing,
    "nothing again": _nothing,
    "step": _step,
    "late": _late,
    "early": _early,
    "recovery": _recovery,
    "two losses": _two_losses,
    "loss, then gain": _loss_then_gain,
    "gain": _gain,
    "gain, then loss": _gain_then_loss,
    "creep": _creep,
    "bad nights": _bad_nights,
    "short": _short,
    "loss beside bad nights": _loss_beside_bad_nights,
    "small": _small,
    "back and forth": _back_and_forth,
    "brief": _brief,
}


def cases(
    seed: int, families: tuple[str, ...] = tuple(FAMILIES), stories: tuple[str, ...] = tuple(STORIES)
) -> list[Case]:
    """Return every story in every family. The same seed gives the same values, whichever stories are chosen."""
    return [_case(family, story, seed) for family in families for story in stories]


def _case(name: str, story: str, seed: int) -> Case:
    family = FAMILIES[name]
    random = np.random.default_rng([seed, list(FAMILIES).index(name), list(STORIES).index(story)])
    plan = Plan(random, _sd_percent(family, random))
    noise = family.noise(random, RUNS)
    STORIES[story](plan)
    values = plan.level * (1 + plan.sd / 100 * noise)
    if family.disturb is not None:
        family.disturb(random, values, plan.level)
    kept = random.random(RUNS) >= family.missing
    for first, _ in plan.losses:
        kept[first] = True
    place = np.concatenate(([0], np.cumsum(kept)))  # the number of runs kept before each
    aftermath = np.zeros(RUNS, dtype=np.bool_)
    ends = np.flatnonzero(plan.healthy[1:] & ~plan.healthy[:-1]) + 1
    for end in ends:
        aftermath[end : end + AFTERMATH] = True
    before = LEVEL if plan.creep is None else plan.level[plan.creep]
    return Case(
        family=name,
        story=story,
        values=(values + family.offset)[kept],
        healthy=plan.healthy[kept],
        aftermath=aftermath[kept],
        losses=tuple((int(place[first]), int(place[end])) for first, end in plan.losses),
        creep=None if plan.creep is None else int(place[plan.creep]),
        crept=((plan.level / before - 1) * 100)[kept],
        sd_percent=plan.sd,
    )


def _sd_percent(family: Family, random: Random) -> float:
    drawn = float(np.exp(random.uniform(*np.log(PERCENT))))
    return min(drawn, family.most_percent)
