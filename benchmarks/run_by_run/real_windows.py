"""Windows of real series in which people marked changes of level, and windows in which nobody marked any.

The series and marks may not be shipped with the project; they are read from `../shared/changepoints` beside it.

- A *change* is a place that at least three of five people mark (within 5 runs), where the medians of up to 30 runs on
  either side differ by 5 % or more, with 30 runs before it and 16 after it free of other such places. Its window
  is the 180 runs before and the 20 runs from the change on, turned so that the change is for the worse.
- A *quiet* window is 200 runs without a mark of anybody. Every third one is judged, in both directions.

A start of an alarm is right within 5 runs before and 14 after the change. Near another mark, at most 5 before and 15
after it, it counts neither way. All other starts are wrong. Precision is the share of right starts; quiet windows
count in it as if there were two for every three changes, since it depends on how many there are.
"""

from __future__ import annotations

import gzip
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from run_by_run.scores import LATE, SOON

if TYPE_CHECKING:
    from run_by_run.noise import Values
    from run_by_run.rules import Rule

LABELLED = Path(__file__).parents[3] / "shared" / "changepoints" / "series.json.gz"
MARGIN, AGREEING = 5, 3
LEAST_PERCENT, SMALL_PERCENT = 5, 1
SIDE, BEFORE, AFTER = 30, 180, 20
LEAST_AFTER = 16
QUIET, EVERY_QUIET = 200, 3
QUIET_FOR_A_CHANGE = 2 / 3


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a series, in the direction in which higher is worse."""

    values: Values
    change: int | None
    """The first run of the new level; None in a quiet window."""
    marks: tuple[int, ...] = ()
    """The places that anybody marked."""


def windows(labelled: Path = LABELLED, least: float = LEAST_PERCENT) -> list[Window]:
    """Return the windows of the labelled series, in the order of their names, the quiet ones last."""
    with gzip.open(labelled) as file:
        series = json.load(file)
    found, quiet = [], []
    for name in sorted(series):
        values, people = np.asarray(series[name]["values"]), series[name]["people"]
        marks = sorted({mark for one in people for mark in one})
        found += [_window_of(values, marks, *change) for change in _changes(values, people, least)]
        edges = [0, *marks, len(values)]
        for first, end in itertools.pairwise(edges):
            if end - first >= QUIET + 2 * MARGIN:
                quiet.append(values[first + MARGIN : first + MARGIN + QUIET])
    return found + [Window(way * values, None) for values in quiet[::EVERY_QUIET] for way in (1, -1)]


def real_figures(rule: Rule, found: list[Window]) -> dict[str, float]:
    """Return how a rule does on the windows."""
    soon = late = right = wrong = quiet_starts = quiet_alerts = 0
    changes = sum(window.change is not None for window in found)
    for window, failing in zip(found, rule.fails([window.values for window in found]), strict=True):
        starts = np.flatnonzero(failing & ~np.concatenate(([False], failing[:-1])))
        if window.change is None:
            quiet_starts += len(starts)
            quiet_alerts += len(starts) > 0
            continue
        first = np.flatnonzero(failing[window.change : window.change + LATE])
        late += len(first) > 0
        soon += bool(len(first) and first[0] < SOON)
        right += sum(window.change - MARGIN <= int(start) < window.change + LATE for start in starts)
        wrong += sum(_is_wrong(int(start), window, window.change) for start in starts)
    quiet = len(found) - changes
    weighed = quiet_starts * QUIET_FOR_A_CHANGE * changes / max(1, quiet)
    return {
        "changes": changes,
        "soon": round(100 * soon / changes, 1),
        "late": round(100 * late / changes, 1),
        "precision": round(100 * right / max(1, right + wrong + weighed), 1),
        "quiet": quiet,
        "quiet that alert": quiet_alerts,
        "starts": round(1_000 * quiet_starts / (quiet * QUIET), 2),
    }


def _is_wrong(start: int, window: Window, change: int) -> bool:
    if change - MARGIN <= start < change + LATE:
        return False
    return not any(mark - MARGIN <= start <= mark + LATE for mark in window.marks)


def _changes(values: Values, people: list[list[int]], least: float) -> list[tuple[int, int]]:
    """Return the first run and the direction of each change that has room around it."""
    agreed = _agreed(people)
    found = []
    for change in agreed:
        left = max([0, *(other for other in agreed if other < change - MARGIN)])
        right = min([len(values), *(other for other in agreed if other > change + MARGIN)])
        if change - left < SIDE or right - change < LEAST_AFTER:
            continue
        before = float(np.median(values[max(left, change - SIDE) : change]))
        after = float(np.median(values[change : min(right, change + SIDE)]))
        if before and abs(after / before - 1) * 100 >= least:
            found.append((change, 1 if after > before else -1))
    return [(change, way) for change, way in found if change >= SIDE + 2 * MARGIN]


def _agreed(people: list[list[int]]) -> list[int]:
    """Return the places that enough people mark, those with more votes first where two are near each other."""

    def rank(mark: int) -> tuple[int, int, int]:
        near = sum(any(abs(other - mark) <= MARGIN for other in one) for one in people)
        return near, sum(mark in one for one in people), mark

    kept: list[int] = []
    for votes, _, mark in sorted((rank(mark) for mark in {mark for one in people for mark in one}), reverse=True):
        if votes >= AGREEING and all(abs(mark - other) > MARGIN for other in kept):
            kept.append(mark)
    return sorted(kept)


def _window_of(values: Values, marks: list[int], change: int, way: int) -> Window:
    first, end = max(0, change - BEFORE), min(len(values), change + AFTER)
    inside = tuple(mark - first for mark in marks if first <= mark < end)
    return Window(way * values[first:end], change - first, inside)
