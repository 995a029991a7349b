"""Curves over a load or a size in a comparison: one answer for a whole curve, with where it differs most.

The ranges of a curve, all of it among them, and its single points are compared at once. What counts is the greatest
difference, in units of its own noise. How often the same runs show as great a one if they are dealt to base and
candidate in other ways is the error, and it is that of the whole curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from statistics import median_high, median_low
from typing import Any, TypeGuard

import numpy as np

from ml_metrics.core.kinds import HIGHER
from ml_metrics.core.model import Stated, Sweep, SweepPoint
from ml_metrics.judge.compare.statistics import Arms, Block, Found, Shift, Values, arms_of, decide
from ml_metrics.judge.sweeps import COVERED, MOVED, Aligned, aligned, numbers_of, points_of

ValueOrCurve = float | Sweep
MeasuredBlock = tuple[Sequence[ValueOrCurve], Sequence[ValueOrCurve]]
"""The values of a metric, or the curves, of base and candidate in one block; NaN for a run without."""
DEALS = 10_000
"""So many ways to deal the runs to both arms are tried, or all if they are fewer."""
NOTHING_COMMON = "no curves of both have points in common"
SHOWN_RANGES = 4
"""All of a curve, and what is before, at and behind its knee."""


def are_numbers(blocks: Sequence[MeasuredBlock]) -> TypeGuard[Sequence[Block]]:
    return not any(isinstance(value, Sweep) for block in blocks for arm in block for value in arm)


def curve_of(name: str, content: Any) -> Sweep | None:
    """The curve of a JSON document: `[[x, y], ...]`, or what `ml-metrics curve --json` prints; None if it is none."""
    if isinstance(content, Sweep):
        return content
    try:
        if isinstance(content, dict):
            return Sweep.from_document(content)
        points = [SweepPoint(float(x), None if y is None else float(y)) for x, y in content]
    except (KeyError, TypeError, ValueError):
        return None
    return (
        Sweep(name, UNSTATED[0], tuple(sorted(points)))
        if points and all(math.isfinite(one.x) for one in points)
        else None
    )


def stated_of(blocks: Sequence[MeasuredBlock]) -> Stated | None:
    """What curves state about themselves."""
    curves = (each for block in blocks for arm in block for each in arm if isinstance(each, Sweep))
    return next((Stated(better=one.better) for one in curves if one.better), None)


def decided(blocks: Sequence[MeasuredBlock], effect: float, level: float) -> Found:
    """What the values or curves show: an interval of the confidence 1 - `level` decides."""
    return (
        decide(arms_of(blocks), effect, level) if are_numbers(blocks) else compared_curves(blocks, effect, level).found
    )


def arms_of_all(blocks: Sequence[MeasuredBlock]) -> Arms:
    """Those of the values, or of the mean distances of whole curves."""
    if are_numbers(blocks):
        return arms_of(blocks)
    columns = _columns(blocks)
    return arms_of(columns.blocks(0) if columns else [])


def ranges_in_percent(curves: Sequence[Sweep]) -> list[tuple[str, list[float]]]:
    """Where, and by run: all of a curve and what is beside its knee, in percent of the median of all but the last."""
    columns = _columns([(curves[:-1], curves[-1:])])
    if columns is None or len(columns.values) < len(curves):
        return []
    shown = range(min(SHOWN_RANGES, len(columns.where)))
    by_run = ((f" {columns.where[at]} ({columns.axis})", columns.blocks(at)[0]) for at in shown)
    return [(where, [*before, *last]) for where, (before, last) in by_run]


def beside(
    good: Sequence[Sweep], bad: Sequence[Sweep], others: Sequence[Sweep]
) -> tuple[str, dict[Sweep, float]] | None:
    """Where good and bad curves differ most, and what each curve has there in percent of the good ones.

    NaN for one that does not reach it; None if good and bad ones have no points in common.
    """
    first = [one for one in good if one.measured][:1]
    fits = [[one for one in each if _fits(one, first)] for each in (good, bad, others)]
    columns = _columns([(fits[0], [*fits[1], *fits[2]])]) if fits[0] and fits[1] else None
    if columns is None:
        return None
    begin, end = len(fits[0]), len(fits[0]) + len(fits[1])
    changes = columns.values[begin:end].mean(axis=0) - columns.values[:begin].mean(axis=0)
    column = int(np.nan_to_num(np.abs(changes) * columns.certainty).argmax())
    ((before, after),) = columns.blocks(column)
    return f"{columns.where[column]} ({columns.axis})", dict(zip(chain(*fits), [*before, *after], strict=True))


@dataclass(frozen=True, slots=True)
class Whole:
    """What the curves of both arms show."""

    found: Found
    blocks: Sequence[Block] = ()
    """The range or point that shows it best, in percent of the base."""
    where: str = ""
    change: float | None = None
    """There, in percent."""
    interval: tuple[float, float] | None = None
    """Where the change is, for the whole curve; None if runs are too few for one."""
    shorter: str = ""
    """That the candidate does not reach as far as the base, so that it is not equivalent."""


def compared_curves(blocks: Sequence[MeasuredBlock], effect: float, level: float, better: str = "") -> Whole:
    """`better`: in which direction the curve improves; a change for the worse comes first."""
    columns = _columns(blocks)
    return Whole(Found(Shift.UNDECIDED)) if columns is None else columns.compared(effect, level, better)


def _columns(blocks: Sequence[MeasuredBlock]) -> _Columns | None:
    """None if there are no runs of both arms in a block, or they have no points in common."""
    curves: list[Sweep] = []
    places: list[tuple[list[int], list[int]]] = []
    for block in blocks:
        both: tuple[list[int], list[int]] = ([], [])
        for arm, rows in zip(block, both, strict=True):
            for one in arm:
                if isinstance(one, Sweep) and _fits(one, curves):
                    rows.append(len(curves))
                    curves.append(one)
        if all(both):
            places.append(both)
    lines = [points_of(one) for one in curves]
    found = aligned([*lines, max(lines, key=lambda line: len(line[0]))]) if places else None
    if found is None:
        return None
    arms = [[row for both in places for row in both[arm]] for arm in (0, 1)]
    reached = np.all([np.isfinite(found.distances[rows]).mean(axis=0) >= COVERED for rows in arms], axis=0)
    if not reached.any():
        return None
    x = [[lines[row][0] for row in rows] for rows in arms]
    (first, last), (own_first, own_last) = (
        (median_low([one[0] for one in arm]), median_high([one[-1] for one in arm])) for arm in x
    )
    shorter = f"The candidate reaches from {own_first:g} to {own_last:g}, the base from {first:g} to {last:g}"
    is_shorter = own_first > first or own_last < last
    return _Columns.of(found.at(reached), places, curves[0], shorter if is_shorter else "")


def _fits(one: Sweep, curves: Sequence[Sweep]) -> bool:
    """Whether it has points, and the axes of the others; bare points state none."""
    return bool(one.measured) and (not curves or _axes(one) in {_axes(curves[0]), UNSTATED})


UNSTATED = "x", ""


def _axes(curve: Sweep) -> tuple[str, str]:
    return curve.x_name, curve.unit


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """The runs as rows, and what is compared of them as columns: ranges of the curve first, then its points."""

    where: list[str]
    values: Values
    """How far above the others, in logarithms or as a share; NaN where a run does not reach."""
    is_share: bool
    certainty: Values
    bends: Values
    """By how much the values may be wrong because they are interpolated."""
    places: list[tuple[list[int], list[int]]]
    """The rows of base and candidate of each block."""
    axis: str
    shorter: str
    """That the candidate does not reach as far as the base."""

    @classmethod
    def of(cls, found: Aligned, places: list[tuple[list[int], list[int]]], curve: Sweep, shorter: str) -> _Columns:
        numbers = numbers_of(found, 1)
        ranges = [at for at, name in enumerate(numbers.where) if name != MOVED]
        weights = numbers.weights[ranges]
        distances = found.distances[:-1]
        present = np.isfinite(distances)
        covered = present @ weights.T
        with np.errstate(invalid="ignore", divide="ignore"):
            of_ranges = np.where(covered >= COVERED, np.where(present, distances, 0.0) @ weights.T / covered, np.nan)
        points = np.zeros_like(found.distances) if found.bends is None else np.nan_to_num(found.bends)
        return cls(
            [*(numbers.where[at] for at in ranges), *(f"at {x:g}" for x in found.x)],
            np.hstack([of_ranges, distances]),
            found.is_share,
            np.concatenate([numbers.certainty[ranges], 1 / found.noise]),
            np.hstack([points @ weights.T, points])[:-1],
            places,
            f"{curve.x_name} in {curve.x_unit}" if curve.x_unit else curve.x_name,
            shorter,
        )

    def rows(self, arm: int) -> list[int]:
        return [row for both in self.places for row in both[arm]]

    def blocks(self, column: int) -> list[Block]:
        """A range or a point in percent of the median of the base."""
        values = self.values[:, column] - np.nanmedian(self.values[self.rows(0), column])
        percent = (100 * (np.exp(values) if self.is_share else 1 + values)).tolist()
        return [([percent[row] for row in base], [percent[row] for row in others]) for base, others in self.places]

    def compared(self, effect: float, level: float, better: str) -> Whole:
        base, others = self.rows(0), self.rows(1)
        changes = np.nanmean(self.values[others], axis=0) - np.nanmean(self.values[base], axis=0)
        bends = self.bends[others].mean(axis=0) + self.bends[base].mean(axis=0)
        ranges = [arms_of(self.blocks(column)) for column in range(min(SHOWN_RANGES, len(self.where)))]
        centred = self._centred()
        own, dealt = (_scores(centred, each, self.places) for each in (self._own(), self._deals()))
        shown = np.maximum(1 - bends / np.maximum(np.abs(changes), 1e-12), 0.0)  # the rest may be interpolated
        score = own[0] * shown / ranges[0].widening  # values that resemble the ones before differ more by chance
        chance = {side: np.sort((side * dealt).max(axis=1))[::-1] for side in (1, -1)}
        rates = {side: float((each >= (side * score).max() - 1e-9).mean()) for side, each in chance.items()}
        worse = -1 if better == HIGHER else 1
        side = worse if better and rates[worse] <= level / 2 else min(rates, key=rates.__getitem__)
        limit = chance[side][min(int(level / 2 * len(dealt)), len(dealt) - 1)]
        is_new = (side * score > limit) & (rates[side] <= level / 2)
        column = int(np.where(is_new, np.abs(changes) * self.certainty, np.abs(score) / 1e9).argmax())
        reach = abs(changes[column] * limit / score[column]) if score[column] else math.inf
        low, middle, high = (self._percent(changes[column] + way * reach) for way in (-1, 0, 1))
        found = Found(Shift.UNDECIDED)
        is_great = is_new & (np.abs([self._percent(each) for each in changes]) >= effect)
        if not is_great.any() and all(decide(arms, effect, level).shift is Shift.EQUIVALENT for arms in ranges):
            found = found if self.shorter else Found(Shift.EQUIVALENT, 1 - level)
        elif is_new.any():
            found = Found(Shift.HIGHER if side > 0 else Shift.LOWER, 1 - 2 * rates[side])
        ends = (low, high) if math.isfinite(low + high) and 2 / len(dealt) <= level else None
        return Whole(found, self.blocks(column), f" {self.where[column]} ({self.axis})", middle, ends, self.shorter)

    def _percent(self, change: float) -> float:
        return 100 * (math.expm1(min(change, 50.0)) if self.is_share else change)

    def _centred(self) -> Values:
        """Each column around its mean in each block. One that is far off counts no more than five others."""
        found = np.zeros_like(self.values)
        for base, others in self.places:
            part = self.values[base + others]
            found[base + others] = np.nan_to_num(part - np.nanmean(part, axis=0))
        most = 5 * np.median(np.abs(found), axis=0)
        return np.where(most > 0, np.clip(found, -most, most), found)

    def _own(self) -> Values:
        """Which runs are the candidate's."""
        own = np.zeros((1, len(self.values)))
        own[0, self.rows(1)] = 1.0
        return own

    def _deals(self) -> Values:
        """Which runs could be the candidate's: a row for each way, the true one among them."""
        count = math.prod(math.comb(len(base) + len(others), len(others)) for base, others in self.places)
        if count <= DEALS:
            found = np.zeros((count, len(self.values)))
            ways = product(*(combinations(base + others, len(others)) for base, others in self.places))
            for row, chosen in zip(found, ways, strict=True):
                row[[place for each in chosen for place in each]] = 1.0
            return found
        found, chance = np.zeros((DEALS, len(self.values))), np.random.default_rng(0)
        for base, others in self.places:
            every = np.array(base + others)
            order = chance.random((DEALS, len(every))).argsort(axis=1)[:, : len(others)]
            np.put_along_axis(found, every[order], 1.0, axis=1)
        return np.vstack([self._own(), found])


def _scores(centred: Values, deals: Values, places: Sequence[tuple[list[int], list[int]]]) -> Values:
    """By deal and column: the difference of both arms in units of its error."""
    for base, others in places:
        deals[:, base + others] -= len(others) / (len(base) + len(others))
    sizes = (centred * centred).sum(axis=0) * (deals[0] @ deals[0])
    alike = deals @ centred / np.sqrt(np.where(sizes > 0, sizes, 1.0))
    return np.asarray(alike / np.sqrt(np.maximum(1 - alike * alike, 1e-12)))
