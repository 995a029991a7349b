"""How well places that a rule finds agree with those that people mark.

Pooled over all series: a place is right near one that most people mark; near one that only one or two mark, it counts
neither way. `silent` counts places in series that nobody marked. The mean F1 and the covering are those of the Turing
change point data set: index 0 is in every set; precision is against the marks of all, recall is the mean over people.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from whole_series.labelled import MARGIN, near

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from whole_series.labelled import Labelled


@dataclass(slots=True)
class Score:
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


def score_of(found: Iterable[tuple[Labelled, Sequence[int]]]) -> Score:
    """Return the score of what was found in each series."""
    score = Score()
    for series, places in found:
        score.add(series, places)
    return score


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
