"""Where the time of a run went: a bar whose parts sum to 100 percent, told apart by patterns and by labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.charts.goodput import OTHER, PRODUCTIVE, colours_of
from ml_metrics.dashboard.chart_data import time_of_run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.model import StoredMetric

PATTERNS = 6
"""The patterns that the page defines. Neighbours have different ones."""
UNMEASURED = "not measured"
LEAST = 0.05
"""The smallest rest, in percent, that is a part of its own: below it is rounding."""


@dataclass(frozen=True, slots=True)
class TimePart:
    """A part of the bar, in percent of the run's time."""

    kind: str
    percent: float
    start: float
    colour: str
    pattern: int


def time_bar(rows: Iterable[StoredMetric]) -> list[TimePart]:
    """Return the parts of a run's time, productive time first; nothing if the run did not measure it.

    Time that no kind covers is a part, too. Kinds that together exceed the time, as damaged rows may, are scaled.
    """
    kinds = {kind: max(0.0, percent) for kind, percent in time_of_run(rows).items()}
    if PRODUCTIVE not in kinds:
        return []
    rest = 100 - sum(kinds.values())
    if rest > LEAST:
        kinds[UNMEASURED] = rest
    whole = sum(kinds.values()) or 1.0
    ordered = sorted(kinds, key=lambda kind: (kind != PRODUCTIVE, kind in {OTHER, UNMEASURED}, -kinds[kind], kind))
    colours = {**colours_of(kind for kind in ordered if kind != UNMEASURED), UNMEASURED: "#9aa3af"}
    parts, start = [], 0.0
    for number, kind in enumerate(ordered):
        percent = kinds[kind] / whole * 100
        if percent > 0:
            parts.append(TimePart(kind, percent, start, colours[kind], number % PATTERNS))
        start += percent
    return parts
