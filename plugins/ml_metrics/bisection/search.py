"""A binary search in spite of noise: which candidate to measure next, and what the measurements show.

The candidates are in the order of time, the first one good and the last one bad. First the ends are compared, unless
references from the history differ already: without a difference, there is nothing to find. Then the candidate that
halves the remaining probability is measured, again where an answer was ambiguous, until one place has a probability of
`CERTAIN`, or the budget is spent.

A search is a plain record, its definition and its probes, so that it can go on wherever it was interrupted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.bisection.posterior import Places, places
from ml_metrics.bisection.probe import State
from ml_metrics.compare.arms import arms_of
from ml_metrics.compare.plan import BASE, CANDIDATE, FEWEST_RUNS, MeasuredRun, Plan, decision_on, next_step
from ml_metrics.compare.verdict import Shift, decide
from ml_metrics.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.bisection.probe import Probe

CERTAIN = 0.97
REFERENCE_LEVEL = 0.01
"""The level at which references from the history are taken to differ."""
MOST_BROKEN = 3
"""A candidate is left out after this many broken runs."""
METRIC = "value"


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched."""

    candidates: tuple[str, ...]
    """In the order of time: the first one is known to be good, the last one to be bad."""
    max_runs: int
    good: tuple[float, ...] = ()
    """Values of the good level that were measured before."""
    bad: tuple[float, ...] = ()
    effect: float = 2.0
    """The smallest change that matters, in percent: ends that differ by less are equivalent."""
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.candidates) < 2:  # noqa: PLR2004  (a good and a bad one)
            raise ConfigError(f"candidates: {len(self.candidates)} given: a search needs a good and a bad one")
        if len(set(self.candidates)) < len(self.candidates):
            twice = next(one for one in self.candidates if self.candidates.count(one) > 1)
            raise ConfigError(f"candidates: {twice!r} is listed twice")
        if self.max_runs < 1:
            raise ConfigError(f"max_runs: {self.max_runs}: a search needs a run at least")
        if not self.references_differ() and self.max_runs < FEWEST_RUNS:
            raise ConfigError(
                f"max_runs: {self.max_runs} cannot show that the ends differ: that takes {FEWEST_RUNS} runs or more,"
                " or values of good and bad runs from the history"
            )

    @classmethod
    def from_document(cls, asked: Mapping[str, Any]) -> Search:
        """Return the search of a journal."""
        try:
            lists = {name: tuple(asked[name]) for name in ("candidates", "good", "bad")}
            return cls(max_runs=asked["max_runs"], effect=asked["effect"], seed=asked["seed"], **lists)
        except (KeyError, TypeError) as error:
            raise ConfigError(f"the journal of the search cannot be read: {error!r}") from error

    @property
    def last(self) -> int:
        """The bad end."""
        return len(self.candidates) - 1

    def references_differ(self) -> bool:
        """Whether values from the history show the change already."""
        arms = arms_of([(self.good, self.bad)])
        return decide(arms, self.effect, REFERENCE_LEVEL).shift in {Shift.HIGHER, Shift.LOWER}


@dataclass(frozen=True, slots=True)
class Found:
    """The end of a search."""

    reason: str
    is_found: bool = field(default=False, kw_only=True)
    is_answer: bool = field(default=True, kw_only=True)
    """Whether the question is answered, also by that there is no change; not if it could not be measured in time."""
    good: str | None = None
    """The last candidate before the change that was or could be measured."""
    bad: str | None = None
    """The first one after it."""
    certainty: float | None = None
    between: tuple[str, ...] = field(default=())
    """Candidates between both that could not be measured: the change may be in any of them, too."""


def next_probe(search: Search, probes: Sequence[Probe]) -> int | Found:
    """Return the candidate to measure next, or the answer."""
    untestable = _untestable(probes)
    if len(untestable) == len(search.candidates):
        return Found("no candidate can be measured", is_answer=False)
    if not search.references_differ():
        step = _compared_ends(search, probes, untestable)
        if step is not None:
            return step
    known = places(search.candidates, untestable, _values(search, probes))
    best = known.best
    if known.probability[best] >= CERTAIN:
        return _answer(search, known, best)
    return _budget(search, known, best) if len(probes) >= search.max_runs else known.halving()


def _compared_ends(search: Search, probes: Sequence[Probe], untestable: frozenset[int]) -> int | Found | None:
    """Return the end to measure next, or that the ends do not differ; None once they do."""
    for end, name in ((0, "good"), (search.last, "bad")):
        if end in untestable:
            return Found(f"the {name} end, {search.candidates[end]}, cannot be measured", is_answer=False)
    plan, ends = Plan(search.effect, search.max_runs, seed=search.seed), _ends(search, probes)
    step = next_step(plan, ends)
    if step.runs and len(probes) < search.max_runs:
        return 0 if step.runs[0] == BASE else search.last
    return None if not step.runs and _ends_differ(plan, ends) else _no_difference(search)


def _untestable(probes: Sequence[Probe]) -> frozenset[int]:
    broken: dict[int, int] = {}
    found = set()
    for probe in probes:
        if probe.state is State.UNTESTABLE:
            found.add(probe.candidate)
        broken[probe.candidate] = broken.get(probe.candidate, 0) + 1 if probe.state is State.BROKEN else 0
        if broken[probe.candidate] >= MOST_BROKEN:
            found.add(probe.candidate)
    return frozenset(found)


def _ends(search: Search, probes: Sequence[Probe]) -> list[MeasuredRun]:
    """Return the probes of both ends as the runs of a comparison. Broken ones were repeated."""
    measured = [probe for probe in probes if probe.value is not None and probe.candidate in {0, search.last}]
    return [MeasuredRun(CANDIDATE if probe.candidate else BASE, {METRIC: probe.value or 0.0}) for probe in measured]


def _ends_differ(plan: Plan, ends: Sequence[MeasuredRun]) -> bool:
    decision = decision_on(plan, ends, METRIC)
    return decision is not None and decision.found.shift in {Shift.HIGHER, Shift.LOWER}


def _values(search: Search, probes: Sequence[Probe]) -> list[tuple[int, float]]:
    """Return every value with its candidate. Those of the history stand before the first and after the last one."""
    measured = [(probe.candidate, probe.value) for probe in probes if probe.value is not None]
    finite = [(candidate, value) for candidate, value in measured if math.isfinite(value)]
    return [*((-1, value) for value in search.good), *finite, *((search.last + 1, value) for value in search.bad)]


def _no_difference(search: Search) -> Found:
    first, last = search.candidates[0], search.candidates[-1]
    return Found(f"nothing found: between {first} and {last}, there is no more than noise")


def _answer(search: Search, known: Places, best: int) -> Found:
    certainty = float(known.probability[best])
    if best == 0:
        return Found(f"nothing found: {search.candidates[0]} is as bad as the others", certainty=certainty)
    if best == len(known.testable):
        return Found(f"nothing found: {search.candidates[-1]} is as good as the others", certainty=certainty)
    good, bad = known.testable[best - 1], known.testable[best]
    between = search.candidates[good + 1 : bad]
    where = f"after {search.candidates[good]}, by" if between else "with"
    return Found(
        f"the level changed {where} {search.candidates[bad]}",
        search.candidates[good],
        search.candidates[bad],
        round(certainty, 4),
        between,
        is_found=True,
    )


def _budget(search: Search, known: Places, best: int) -> Found:
    certainty = round(float(known.probability[best]), 4)
    if not 0 < best < len(known.testable):
        reason = f"the budget of {search.max_runs} runs is spent, and no change was found"
        return Found(reason, certainty=certainty, is_answer=False)
    good, bad = search.candidates[known.testable[best - 1]], search.candidates[known.testable[best]]
    reason = f"the budget of {search.max_runs} runs is spent; the most likely place is {bad}, with {certainty:.0%}"
    return Found(reason, good, bad, certainty, is_answer=False)
