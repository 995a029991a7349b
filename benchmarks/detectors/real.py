"""Real series: those in which five people marked changes of level, windows of them, and the Turing data set.

The marks of the first have no licence, so they are no part of the project: they are read from `../shared/changepoints`
beside it. The Turing change point data set is read from a clone of alan-turing-institute/TCPD in `../shared/TCPD`, or
where TCPD names one; series of several dimensions, and those that its licences keep out of it, are left out.

- A *change* is a place that at least three of five people mark (within 5 runs), where the medians of up to 30 runs on
  either side differ by 1 % or more, with 30 runs before it and 16 after it free of other such places. Its window is the
  180 runs before and the 20 runs from the change on, turned so that the change is for the worse.
- A *quiet* window is 200 runs without a mark of anybody. Every third one is judged, in both directions.
"""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .noise import Values

SHARED = Path(__file__).parents[3] / "shared"
LABELLED = SHARED / "changepoints" / "series.json.gz"
TCPD = Path(os.environ.get("TCPD", SHARED / "TCPD"))
MARGIN = 5
"""Marks this close to each other are marks of one place."""
MAJORITY = 3
SIDE, BEFORE, AFTER = 30, 180, 20
LEAST_AFTER, LEAST_PERCENT = 16, 1.0
QUIET, EVERY_QUIET = 200, 3


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


def near(place: int, others: list[int]) -> bool:
    """Whether a place is within the margin of another."""
    return any(abs(place - other) <= MARGIN for other in others)


def labelled_series() -> list[Labelled]:
    """Return the labelled series by name; none if they are not there."""
    if not LABELLED.exists():
        return []
    document = json.loads(gzip.decompress(LABELLED.read_bytes()))
    return [Labelled(name, one["values"], one["people"]) for name, one in sorted(document.items())]


def tcpd_series(folder: Path = TCPD) -> list[Labelled]:
    """Return the series of the Turing data set, without missing values, and their marks among those that remain."""
    found = []
    people = json.loads((folder / "annotations.json").read_text()) if (folder / "annotations.json").exists() else {}
    for name, marks in sorted(people.items()):
        file = folder / "datasets" / name / f"{name}.json"
        series = json.loads(file.read_text())["series"] if file.exists() else []
        if len(series) == 1:
            raw = [math.nan if value is None else float(value) for value in series[0]["raw"]]
            kept = np.cumsum([not math.isnan(value) for value in raw])
            places = [[int(kept[mark]) - 1 for mark in one] for one in marks.values()]
            found.append(Labelled(name, [value for value in raw if not math.isnan(value)], places))
    return found


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a series, in the direction in which higher is worse."""

    values: Values
    change: int | None
    """The first run of the new level; None in a quiet window."""
    percent: float = 0.0
    """The size of the change."""


def windows() -> list[Window]:
    """Return the windows of the labelled series, in the order of their names, the quiet ones last."""
    found, quiet = [], []
    for series in labelled_series():
        values = np.asarray(series.values)
        found += _changes(values, series.agreed())
        for first, end in itertools.pairwise([0, *series.marks, len(values)]):
            if end - first >= QUIET + 2 * MARGIN:
                quiet.append(values[first + MARGIN : first + MARGIN + QUIET])
    return found + [Window(way * values, None) for values in quiet[::EVERY_QUIET] for way in (1, -1)]


def _changes(values: Values, agreed: list[int]) -> list[Window]:
    """Return the window of each change that has room around it."""
    found = []
    for change in sorted(agreed):
        left = max([0, *(other for other in agreed if other < change - MARGIN)])
        right = min([len(values), *(other for other in agreed if other > change + MARGIN)])
        if change - left < SIDE or right - change < LEAST_AFTER or change < SIDE + 2 * MARGIN:
            continue
        before = float(np.median(values[max(left, change - SIDE) : change]))
        after = float(np.median(values[change : min(right, change + SIDE)]))
        percent = abs(after / before - 1) * 100 if before else 0.0
        if percent >= LEAST_PERCENT:
            first = max(0, change - BEFORE)
            part = values[first : min(len(values), change + AFTER)]
            found.append(Window(part if after > before else -part, change - first, percent))
    return found
