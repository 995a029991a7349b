"""The scores of a rule: run by run on planted losses, and on the places that people mark in whole series.

Run by run: a loss is found within k runs if one of its first k runs fails. A false start is a healthy run that fails
after a run that did not.

Whole series, pooled: a place is right near one that most people mark; near one that only one or two mark, it counts
neither way. `silent` counts places in series that nobody marked. The mean F1 and the covering are those of the Turing
change point data set: index 0 is in every set; precision is against the marks of all, recall is the mean over people.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from .real import MARGIN, near

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .real import Labelled
    from .stories import Case, Flags

WITHIN = (1, 3, 5, 15)
STUCK, BLIND = 30, 20
"""A metric is stuck if so many healthy runs in a row fail; a rule is blind to a loss of so many runs if none fails."""


def starts_of(failing: Flags) -> Flags:
    """Return which runs fail after a run that did not."""
    return failing & ~np.concatenate(([False], failing[:-1]))


@dataclass(slots=True)
class Score:
    """The sums over the metrics that a rule judged run by run."""

    delays: list[int | None] = field(default_factory=list)
    """The number of runs of each loss that passed before the first one failed; None if none did."""
    healthy: int = 0
    starts: int = 0
    stuck: int = 0
    blind: int = 0
    creeps: int = 0
    crept: list[float] = field(default_factory=list)
    """By how many percent the level of each creep that was found had risen."""

    def add(self, case: Case, failing: Flags) -> None:
        """Count one metric."""
        for first, end in case.losses:
            self.add_loss(failing[first:end])
            self.blind += end - first >= BLIND and self.delays[-1] is None
        self.add_healthy(starts_of(failing) & case.healthy, int(case.healthy.sum()))
        self.stuck += _longest(failing & case.healthy) >= STUCK
        if case.creep is not None:
            self.creeps += 1
            found = np.flatnonzero(failing[case.creep :])
            self.crept += [float(case.crept[case.creep + place]) for place in found[:1]]

    def add_loss(self, failing: Flags) -> None:
        """Count one loss, by which of its runs fail."""
        found = np.flatnonzero(failing)
        self.delays.append(int(found[0]) if len(found) else None)

    def add_healthy(self, starts: Flags, runs: int) -> None:
        """Count healthy runs."""
        self.healthy += runs
        self.starts += int(starts.sum())

    def within(self, runs: int) -> float:
        """The share of the losses that were found within so many runs, in percent."""
        return 100 * sum(each is not None and each < runs for each in self.delays) / max(1, len(self.delays))

    def false_starts(self, runs: float = 1_000) -> float:
        """The false starts in so many healthy runs."""
        return runs * self.starts / max(1, self.healthy)

    def found(self) -> str:
        """The shares that are found within 1, 3, 5 and 15 runs."""
        return "/".join(f"{self.within(runs):.0f}" for runs in WITHIN)


def _longest(flags: Flags) -> int:
    """Return the length of the longest stretch of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return int((edges[1::2] - edges[::2]).max(initial=0))


@dataclass(slots=True)
class Agreement:
    """The agreement with people, over all series so far."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    silent: int = 0
    f1_sum: float = 0.0
    series: int = 0

    def add(self, series: Labelled, found: Sequence[int]) -> None:
        """Count the places found in one series."""
        open_places = series.agreed()
        for place in sorted(found):
            near_ones = [each for each in open_places if abs(each - place) <= MARGIN]
            if near_ones:
                open_places.remove(min(near_ones, key=lambda each: abs(each - place)))
                self.right += 1
            elif not near(place, series.marks):
                self.wrong += 1
        self.missed += len(open_places)
        self.silent += 0 if series.marks else len(found)
        self.f1_sum += f1_of(series.people, found)
        self.series += 1

    @property
    def precision(self) -> float:
        """The share of the places found that most people mark."""
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """The share of the places that most people mark which is found."""
        return self.right / max(1, self.right + self.missed)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / max(1, 2 * self.right + self.wrong + self.missed)

    @property
    def mean_f1(self) -> float:
        """The mean F1 of the series."""
        return self.f1_sum / max(1, self.series)


def agreement_of(found: Iterable[tuple[Labelled, Sequence[int]]]) -> Agreement:
    """Return the agreement of what was found in each series."""
    agreement = Agreement()
    for series, places in found:
        agreement.add(series, places)
    return agreement


def f1_of(people: Sequence[Sequence[int]], found: Sequence[int]) -> float:
    """Return the F1 of one series."""
    places, everyone = {0, *found}, [{0, *one} for one in people]
    precision = _hits(set().union(*everyone), places) / len(places)
    recall = sum(_hits(one, places) / len(one) for one in everyone) / len(everyone)
    return 2 * precision * recall / (precision + recall)


def covering_of(people: Sequence[Sequence[int]], found: Sequence[int], length: int) -> float:
    """Return how well the segments found cover those of each person, weighted by length; the mean over people."""
    segments = _segments(found, length)
    return sum(
        sum((end - start) * max(_overlap((start, end), each) for each in segments) for start, end in theirs) / length
        for theirs in (_segments(one, length) for one in people)
    ) / len(people)


def _hits(true: set[int], found: set[int]) -> int:
    free, hits = set(found), 0
    for place in sorted(true):
        close = [(abs(place - each), each) for each in free if abs(place - each) <= MARGIN]
        if close:
            free.discard(min(close)[1])
            hits += 1
    return hits


def _segments(places: Sequence[int], length: int) -> list[tuple[int, int]]:
    return list(pairwise([0, *sorted({place for place in places if 0 < place < length}), length]))


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> float:
    common = min(one[1], other[1]) - max(one[0], other[0])
    return max(0, common) / (max(one[1], other[1]) - min(one[0], other[0]))
