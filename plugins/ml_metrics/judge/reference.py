"""The reference of a value: the level of its metric before the change that is still open, or else its baseline.

The newest run that passed is no reference: while a rule waits for more runs at a new level, those runs pass.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType

from ml_metrics.core.model import BROKEN, Bounds, Outcome, StoredMetric
from ml_metrics.core.units import change, readable
from ml_metrics.judge.changes import differences, percent_of
from ml_metrics.judge.history import BY_TIME, in_units_of, is_measured
from ml_metrics.judge.noise import middle
from ml_metrics.judge.wording import is_relative

_Rows = Sequence[StoredMetric]
REFERENCE_RUNS = 100
"""How many runs before a run are looked at: a change of level before them is no longer open."""
FEWEST_BEFORE = 3
"""The fewest runs before a change."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What a value is compared with."""

    level: float
    good: StoredMetric | None = None
    """The newest run at this level before the change, or before the run."""
    since: StoredMetric | None = None
    """The first run of the new level; None if the run is at the level of the reference."""
    unit: str = ""

    def percent(self, value: float | None) -> float | None:
        percent = None if value is None else percent_of(self.level, value)
        return percent if percent is not None and math.isfinite(percent) else None

    def words(self, value: float | None, attributes: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> str:
        """The change to a value: `+8.4 % against 779 ms; since 2026-11-21, image: a → b`; empty if none counts.

        `attributes` has what is recorded about the runs on both sides of the change.
        """
        percent = self.percent(value)
        if value is None or (percent is not None and abs(percent) < 0.1) or value == self.level:
            return ""
        share = "" if percent is None else f"{change(percent)} "
        words = f"{share}against {readable([self.level, value], self.unit)[0]}"
        if self.since is None:
            return words
        changed = differences(attributes, self.good.run_key, self.since.run_key) if self.good else ()
        return ", ".join([f"{words}; since {self.since.timestamp:%Y-%m-%d}", *changed])


def reference_of(
    row: StoredMetric, others: Iterable[StoredMetric], accepted: Container[str] = frozenset()
) -> Reference | None:
    """The reference of a value; None if no earlier run has one.

    `others`: the same metric in other runs of the test, in any order; later runs do not count. `accepted`: the keys of
    runs at a level that was accepted; runs before the newest of them do not count.
    """
    if is_relative(row.rule):  # the level at which this run would have been as good as the ones before
        return None if row.reference is None else Reference(row.reference, unit=row.unit)
    others = in_units_of({row.metric: (row.unit, row.value)}, others)
    before = [each for each in others if BY_TIME(each) < BY_TIME(row) and each.trial is None and is_measured(each)]
    earlier = sorted(before, key=BY_TIME)[-REFERENCE_RUNS:]
    earlier = earlier[max((index for index, each in enumerate(earlier) if each.run_key in accepted), default=0) :]
    if not earlier:
        return None if row.reference is None else Reference(row.reference, unit=row.unit)
    own = [replace(row, outcome=None)] if is_measured(replace(row, outcome=None)) else []
    levels = _levels([*earlier, *own])
    baseline = row.reference if row.outcome is Outcome.FAIL else None
    if baseline is not None:
        nearest = min(range(len(levels)), key=lambda index: abs(_value(levels[index]) - baseline))
        if nearest < len(levels) - 1:  # the level to keep, maybe before several changes
            old, new = _value(levels[nearest]), _value(levels[-1])
            return _before(row, old if _is_mixed(baseline, old, new) else baseline, levels[: nearest + 2])
    if len(levels) > 1:
        # shifted runs may be part of a baseline; but a loss since an improvement is no improvement
        old = _value(levels[-2])
        if row.value is None or baseline is None or (row.value > baseline) == (row.value > old):
            return _before(row, old, levels)
    # the baseline of the verdict, or the usual value where there is none or shifted runs are part of it
    good = [each for each in earlier if each.outcome not in BROKEN]
    usual = _value(good or earlier)
    level = usual if row.reference is None else row.reference
    if row.outcome is not Outcome.FAIL and row.value is not None and good and _is_mixed(level, usual, row.value):
        level = usual
    return Reference(level, _newest_near(level, row.value, good), unit=row.unit)


def _before(row: StoredMetric, level: float, levels: Sequence[_Rows]) -> Reference:
    new = _value(levels[-1])
    back = row.value is not None and abs(row.value - level) < abs(row.value - new)
    since = None if back else levels[-1][0]
    return Reference(level, _newest_near(level, new, levels[-2]), since, unit=row.unit)


def _is_mixed(baseline: float, old: float, new: float) -> bool:
    """Whether runs of the new level that passed have moved a baseline away from the old one."""
    return abs(baseline / 2 - old / 2) > abs(new / 2 - old / 2) / 10


def _newest_near(level: float, other: float | None, rows: Sequence[StoredMetric]) -> StoredMetric | None:
    """The newest run that is nearer to a level than to another value, if possible one that did not break."""
    known = [(row, row.value) for row in rows if row.value is not None]
    near = [row for row, value in known if other is None or abs(value - level) <= abs(value - other)] or list(rows)
    return next((row for row in reversed(near) if row.outcome not in BROKEN), near[-1] if near else None)


def _levels(rows: Sequence[StoredMetric]) -> list[_Rows]:
    """The runs of each level of a metric, oldest first. A level that was left and has returned counts once."""
    levels: list[_Rows] = []
    for start, end in pairwise([*_starts([row.value for row in rows if row.value is not None]), len(rows)]):
        levels.append(rows[start:end])
        while len(levels) > 2:
            old, left_for, new = (_value(each) / 2 for each in levels[-3:])
            if abs(new - old) > abs(new - left_for) / 2:
                break
            levels[-3:] = [[*levels[-3], *levels[-1]]]
    return levels


def _starts(values: Sequence[float]) -> list[int]:
    """Where the levels start: those of a search, and one with fewer runs than a search needs."""
    from ml_metrics.judge.changepoints import edges_of  # imports numpy

    starts = [0]
    for edge, end in pairwise(edges_of(values)[1:]):
        start = _best_start(values[:end], starts[-1], [*range(edge - 4, edge + 5), *range(end - 9, end)])
        if _is_clear(values[starts[-1] : start], values[start:end]):
            starts.append(start)
    first, end = starts[-1], len(values)
    few = [*range(first + FEWEST_BEFORE, first + 10), *range(end - 9, end)]
    start = _best_start(values, first, few)
    levels = [values[start:end] for start, end in pairwise(starts)]
    usual = max((_misfit(each, _level(each)) / len(each) for each in levels), default=0.0)
    return [*starts, start] if start > first and _is_clear(values[first:start], values[start:], usual) else starts


def _best_start(values: Sequence[float], first: int, places: Iterable[int]) -> int:
    possible = [place for place in places if first + FEWEST_BEFORE <= place < len(values)]
    halves = {place: (values[first:place], values[place:]) for place in possible}
    return min(halves, key=lambda place: sum(_misfit(half, middle(half)) for half in halves[place]), default=first)


def _is_clear(old: Sequence[float], new: Sequence[float], usual: float = 0.0) -> bool:
    """Whether two neighbouring levels differ by eight errors of the noise within them, or of the usual noise."""
    count = len(old) + len(new)
    before, after = _level(old), _level(new)
    local = (_misfit(old, before) + _misfit(new, after)) / count * (1 + 3 / max(1, count - 4))
    error = 1.25 * max(local, usual) * math.sqrt(1 / len(old) + 1 / len(new))
    return abs(after - before) > 8 * error


def _misfit(values: Sequence[float], level: float) -> float:
    return sum(abs(value - level) for value in values)


def _level(values: Sequence[float]) -> float:
    return middle(values[-24:])


def _value(rows: _Rows) -> float:
    return _level([row.value for row in rows if row.value is not None])


def main_metric(rows: Iterable[StoredMetric], references: Mapping[str, Reference]) -> StoredMetric | None:
    """The metric that a run is mainly about; None if it broke no condition and no level got worse.

    That is the one farthest beyond its bounds, or else the one with a condition whose level got worse most.
    """
    found = list(rows)
    broken = [row for row in found if row.outcome in BROKEN]
    if broken:
        return max(broken, key=_distance)
    worse = {row.metric: _got_worse(row, references.get(row.metric)) for row in found if row.rule}
    return max((row for row in found if worse.get(row.metric)), key=lambda row: worse[row.metric], default=None)


def distance(value: float | None, bounds: Bounds | None, spread: float | None) -> float:
    """How far a value is beyond its bounds, in their width, the spread of the baseline, or the bound itself."""
    if bounds is None or value is None:
        return math.inf
    beyond = max(bounds.lower - value, value - bounds.upper)
    bound = bounds.lower if value <= bounds.lower else bounds.upper
    width = bounds.upper - bounds.lower
    unit = width if 0 < width < math.inf else spread or abs(bound)
    return max(0.0, beyond) / unit if unit and math.isfinite(unit) else max(0.0, beyond)


def _distance(row: StoredMetric) -> float:
    lower, upper = (-math.inf if row.lower is None else row.lower), (math.inf if row.upper is None else row.upper)
    return distance(row.value, Bounds(lower, upper) if (row.lower, row.upper) != (None, None) else None, row.spread)


def _got_worse(row: StoredMetric, reference: Reference | None) -> float:
    """By how many percent the level got worse; 0 if it did not, or if the better side is unknown."""
    percent = reference.percent(row.value) if reference is not None and reference.since is not None else None
    is_bounded = row.upper is not None, row.lower is not None
    side = {(True, False): 1, (False, True): -1}.get(is_bounded, {"lower": 1, "higher": -1}.get(row.better, 0))
    return max(0.0, (percent or 0.0) * side)
