"""Series with the places at which each of five people marked a change of level.

They may not be shipped with the project; they are read from `../shared/changepoints` beside it.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parents[3] / "shared" / "changepoints" / "series.json.gz"
MARGIN = 5
"""Marks this close to each other are marks of one place."""
MAJORITY = 3


@dataclass(frozen=True, slots=True)
class Labelled:
    """A series and what each person marked: the index of the first value of each new level."""

    name: str
    values: list[float]
    people: list[list[int]]

    @property
    def origin(self) -> str:
        """The name of the longer series that this one may be a part of."""
        return self.name.partition("_split")[0]

    @property
    def marks(self) -> list[int]:
        """All places that anybody marked."""
        return sorted({mark for one in self.people for mark in one})

    def agreed(self) -> list[int]:
        """Return the places that most people marked, those with the most marks first."""
        kept: list[int] = []
        for mark in sorted(self.marks, key=self._votes, reverse=True):
            if self._votes(mark)[0] >= MAJORITY and not near(mark, kept):
                kept.append(mark)
        return kept

    def _votes(self, mark: int) -> tuple[int, int, int]:
        return sum(near(mark, one) for one in self.people), sum(mark in one for one in self.people), mark


def labelled_series() -> list[Labelled]:
    """Return the labelled series by name; none if their file does not exist."""
    if not FILE.exists():
        return []
    with gzip.open(FILE) as opened:
        document = json.load(opened)
    return [Labelled(name, one["values"], one["people"]) for name, one in sorted(document.items())]


def near(place: int, others: list[int]) -> bool:
    """Whether a place is within the margin of another."""
    return any(abs(place - other) <= MARGIN for other in others)
