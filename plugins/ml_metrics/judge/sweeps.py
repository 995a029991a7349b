"""Judges a curve over a load, a size or another setting as a whole, by the curves of the runs before.

A run is described by a few numbers: how far its curve is from the reference over all of x, over the part before, at and
behind the knee, and how far the curve has moved along x. Each is a mean of the points, in which a point counts by how
well it repeats and one that is far off counts no more than three spreads. The newest three runs, and the newest eight,
are then compared with the runs before: how much these differ from run to run, and how much a run is like the one
before it, is learnt from them. The curve has one verdict and one error for all numbers together.

A worse curve stays one until two runs are back at the old level. A better one that lasts is the level to keep. Where a
run has another grid, its curve is interpolated inside its ends and never beyond; how far a bent curve may be from the
line between two points counts as nothing found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ml_metrics.config.conditions import Condition
from ml_metrics.core.kinds import HIGHER, LOWER
from ml_metrics.core.model import FAILED, SWEEP, Bounds, Outcome, Sweep, SweepPoint, Verdict, Watched, knee_of
from ml_metrics.judge.changes import change_sentence, differences
from ml_metrics.judge.history import EarlierRuns, nights_of, series_of, worse_side
from ml_metrics.judge.judgement import run_again
from ml_metrics.judge.level import PLATEAU, TAIL, LevelRule, LevelState, follow
from ml_metrics.judge.noise import P50_OF_NORMAL
from ml_metrics.judge.verdict import loss_of_level

Values = NDArray[np.float64]
REFERENCE_RUNS = 20
"""How many of the oldest runs are the reference."""
TINY = 1e-140
"""The least noise whose weight is a number."""
COVERED = 0.5
"""The share of a range, by weight, without which a run says nothing about it."""
ALL, MOVED = "everywhere", "moved along x"
WINDOWS = (3, 8)
"""How many of the newest runs are compared with those before."""
BASE = 8
"""The fewest runs before them."""
FLOOR = 0.02
"""The smallest change that counts."""
FEWEST_FLAKY = 3
"""Fewer bad runs are not flaky."""
BETTER_RUNS = 12
"""How long a better curve lasts that is the one to keep."""
RECENT = 8
"""Of so many newest runs of a worse curve its level is the mean."""


class Part(NamedTuple):
    """A part of a curve as the newest run leaves it."""

    where: str
    value: float
    """The newest run in percent of the runs before."""
    change: float
    """Of the newest run, or of those since a loss opened, beside the runs before: a share; of what moved, of x."""
    margin: float
    """The change from which on three runs are worse."""
    found_later: float
    """That of eight."""
    noise: float
    """The standard deviation of a run."""


@dataclass(frozen=True, slots=True)
class CurveState:
    """A curve as the newest run leaves it."""

    parts: tuple[Part, ...]
    """All of the curve and what is beside its knee; if a loss is open, the part that shows it best."""
    first: int | None
    """The index of the first run of an open loss."""
    beyond: float
    """By how many standard deviations the newest run is worse, if it is beyond the margin of a part; else 0."""
    x: Values
    """Where it was compared."""
    moved: float
    """How far the newest run has moved along a frontier, as a share of both of its curves."""
    lasting: LevelState | None = None
    """A loss of all of the curve that no few runs in a row show: slow, or in single runs again and again."""

    @property
    def failing(self) -> bool:
        return self.first is not None or self.lasting is not None


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """The curves of some runs at the x of the newest: rows are runs, columns are points."""

    x: Values
    place: Values
    """Where distances along x are measured."""
    distances: Values
    """From the reference, in its logarithm where all values are positive; NaN where a run has no curve."""
    reference: Values
    noise: Values
    bends: Values | None
    """By how much a value may be wrong because it is interpolated."""
    is_share: bool = True
    """Whether distances are logarithms of quotients."""
    moved: float = 0.0
    """How far the newest run has moved along a frontier, as a share of both of its curves."""

    def at(self, points: NDArray[np.bool_]) -> Aligned:
        """These points alone."""
        return replace(
            self,
            x=self.x[points],
            place=self.place[points],
            distances=self.distances[:, points],
            reference=self.reference[points],
            noise=self.noise[points],
            bends=None if self.bends is None else self.bends[:, points],
        )


def points_of(curve: Sweep, known: tuple[float, ...] | None = None) -> Line:
    """The x and y of a curve, each x once. `known`: an x of which that is known."""
    if not curve.points:
        return (), ()
    x, y, _, _, marks = zip(*curve.points, strict=False)
    try:
        is_plain = math.isfinite(sum(y)) and not (any(marks) and FAILED in marks)
    except TypeError:  # one has no number
        is_plain = False
    if is_plain and x == known:
        return known, y
    if is_plain and len(set(x)) == len(x):
        return x, y
    found = curve.measured
    return tuple(found), tuple(found.values())


Line = tuple[tuple[float, ...], tuple[float, ...]]


def trade_of(first: Sweep, second: Sweep) -> tuple[Line, Line]:
    """Two curves that trade against each other: by x how far along their frontier it is, and how good both are.

    5 % less good is 5 % worse in both.
    """
    good, other = _good(first), _good(second)
    x = tuple(each for each in good if each in other)
    return (x, tuple(good[at] / other[at] for at in x)), (x, tuple(math.sqrt(good[at] * other[at]) for at in x))


def _good(curve: Sweep) -> dict[float, float]:
    """By x: y, or its inverse if less is better."""
    points = zip(*points_of(curve), strict=True)
    return {x: 1 / y if curve.better == LOWER else y for x, y in points if y > 0}


def frontier(trades: Sequence[tuple[Line, Line]]) -> Aligned | None:
    """Align the frontiers of some runs at the x of the newest.

    Over the logarithms of both, a frontier that is turned by 45 degrees is a curve however steep it is. The distance of
    a setting is from that curve, at the place where the setting is along it.
    """
    along, good = (aligned(lines) for lines in zip(*trades, strict=True))
    if along is None or good is None:
        return None
    order = np.argsort(along.reference)
    place, height = along.reference[order], good.reference[order]
    if len(place) > 1:  # half a step beyond the ends, by the slopes there
        first, last = place[:2] - place[0], place[-2:] - place[-1]
        place = np.concatenate([[place[0] - first[1] / 2], place, [place[-1] - last[0] / 2]])
        height = np.concatenate([[1.5 * height[0] - height[1] / 2], height, [1.5 * height[-1] - height[-2] / 2]])
    places = along.reference + along.distances
    expected = np.interp(places, place, height, np.nan, np.nan)
    bends = _error(np.nan_to_num(places.ravel()), place, height).reshape(places.shape)
    if good.bends is not None and along.bends is not None:
        bends = bends + good.bends + along.bends
    found = _with_noise(good.x, good.place, good.reference + good.distances - expected, bends)
    return replace(found, reference=good.reference, moved=float(np.expm1(np.nanmedian(along.distances[-1]) / 2)))


def aligned(curves: Sequence[Line]) -> Aligned | None:
    """Align curves, oldest first, at the x of the last; None if too few of the others reach any of its points."""
    own = curves[-1][0]
    x = np.array(own)
    has_one_grid = all(at == own for at, _ in curves)
    ys = [y for _, y in curves]
    heights = np.fromiter(chain.from_iterable(ys), np.float64)
    is_share = bool(heights.min() > 0)
    lowest = own[0] if has_one_grid else min(at[0] for at, _ in curves)
    smallest = next((each for each in own if each > 0), 1.0)
    is_log = lowest >= 0 and own[-1] / smallest >= 8
    offset = 0.0 if lowest > 0 else smallest
    place = np.log(x + offset) if is_log else x
    bends = None
    if has_one_grid:
        heights = (np.log(heights) if is_share else heights).reshape(len(ys), -1)
    else:
        found, errors = [], []
        for at, y in curves:
            points, height = np.array(at), np.log(y) if is_share else np.array(y)
            if is_log:
                points = np.log(points + offset)
            found.append(np.interp(place, points, height, np.nan, np.nan))
            errors.append(_error(place, points, height))
        heights, bends = np.array(found), np.array(errors)
        known = np.isfinite(heights[:-1][:REFERENCE_RUNS]).sum(axis=0) >= min(len(curves) - 1, 6)
        if not known.any():
            return None
        x, place, heights, bends = x[known], place[known], heights[:, known], bends[:, known]
    reference = _medians(heights[:-1][:REFERENCE_RUNS])
    if not is_share:
        heights = heights / (max(float(np.abs(reference).mean()), 1e-9 * float(np.nanmax(np.abs(heights)))) or 1.0)
        reference = _medians(heights[:-1][:REFERENCE_RUNS])
    return replace(_with_noise(x, place, heights - reference, bends), reference=reference, is_share=is_share)


def _with_noise(x: Values, place: Values, distances: Values, bends: Values | None) -> Aligned:
    """Learn how well each point repeats, by itself and by its neighbours."""
    spread = _medians(np.abs(distances[:-1])) / P50_OF_NORMAL
    around = np.concatenate([spread[:1], spread, spread[-1:]])
    around = (around[:-2] + around[1:-1] + around[2:]) / 3
    # the least noise keeps a point that never moved from counting alone
    noise = np.sqrt((spread**2 + around**2) / 2 + 0.002**2)
    if bends is not None:
        noise = np.hypot(noise, _medians(bends))
    return Aligned(x, place, distances, np.zeros(len(x)), np.maximum(noise, TINY), bends)


def _error(wanted: Values, place: Values, height: Values) -> Values:
    """How far a curve may be from the line between two of its points, by the slopes beside it; 0 at its points."""
    differs = np.concatenate([[True], np.diff(place) > 0])  # neighbours may have the same logarithm
    place, height = place[differs], height[differs]
    if len(place) < 3:
        return np.zeros(len(wanted))
    slopes = np.diff(height) / np.diff(place)
    bends = np.abs(np.diff(slopes))
    worst = np.maximum(np.concatenate([[0.0], bends]), np.concatenate([bends, [0.0]]))
    segment = np.clip(np.searchsorted(place, wanted, side="right") - 1, 0, len(slopes) - 1)
    left, right = place[segment], place[segment + 1]
    width = right - left
    share = np.clip((wanted - left) / width, 0.0, 1.0)
    return np.asarray(worst[segment] * width * share * (1 - share) / 2)


def ranges_of(found: Aligned) -> list[tuple[str, slice]]:
    """All of a curve; the parts before, at and behind its knee; and those on either side of the ends of its eighths."""
    count = len(found.x)
    knee = knee_of(found.place.tolist(), (np.exp(found.reference) if found.is_share else found.reference).tolist())
    middle = count // 2 if knee is None else knee
    ends = [(0, count), (0, middle - 1), (max(middle - 1, 0), min(middle + 2, count)), (middle + 2, count)]
    borders = dict.fromkeys(count * each // 8 for each in range(1, 8))
    ends += [end for border in borders for end in ((0, border), (border, count))]
    ends = [(begin, end) for begin, end in dict.fromkeys(ends) if end - begin >= 2 or end - begin == count]
    names = []
    for begin, end in ends:
        first, last = found.x[begin], found.x[end - 1]
        name = f"from {first:g} on" if end == count else f"from {first:g} to {last:g}" if begin else f"up to {last:g}"
        names.append(ALL if end - begin == count else name)
    return [(name, slice(*end)) for name, end in zip(names, ends, strict=True)]


class Numbers(NamedTuple):
    """What describes the runs: rows are runs, columns are parts. Positive is worse."""

    where: list[str]
    values: Values
    bends: Values | None
    distances: Values
    """Those of the points, of which none is cut."""
    weights: Values
    """Those of the points by part, with the sign of what is worse."""
    shares: Values
    """Of a part, how much of what is known of it is known from each point."""
    certainty: Values
    """By part: one by the error of a change that is the same everywhere in it."""


def numbers_of(found: Aligned, worse: int) -> Numbers:
    ranges = ranges_of(found)
    weight = 1 / found.noise**2
    weights = np.zeros((len(ranges), len(weight)))
    for at, (_, part) in enumerate(ranges):
        weights[at, part] = weight[part]
    sizes = weights.sum(axis=1)
    where = [name for name, _ in ranges]
    if len(ranges) > 1:
        slope = np.gradient(found.reference, found.place)
        moved = slope * weight
        size = float(moved @ slope)
        # a curve that rises less than 5 % of its height while x grows 2.7-fold is not followed along x
        if size > 0.05**2 * float(weight.sum()):
            weights, sizes = np.concatenate([weights, moved[None]]), np.concatenate([sizes, [size]])
            where.append(MOVED)
    weights /= sizes[:, None]
    shares = np.abs(weights)
    if where[-1] == MOVED:
        shares[-1] = weights[-1] * slope
    most = 5 * found.noise
    distances = np.minimum(np.maximum(found.distances, -most), most)
    bends = None if found.bends is None else np.nan_to_num(found.bends) @ np.abs(weights).T
    if found.bends is None:
        values = distances @ weights.T
    else:
        present = np.isfinite(distances)
        covered = present @ np.abs(weights).T / np.abs(weights).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.where(covered >= COVERED, np.where(present, distances, 0.0) @ weights.T / covered, np.nan)
    signed = [worse * weights] if worse else [weights, -weights]
    return Numbers(
        where * len(signed),
        worse * values if worse else np.concatenate([values, -values], axis=1),
        None if bends is None else np.concatenate([bends] * len(signed), axis=1),
        found.distances,
        np.concatenate(signed),
        np.concatenate([shares] * len(signed)),
        np.sqrt(np.concatenate([sizes] * len(signed))),
    )


def _medians(rows: Values) -> Values:
    """Of each column, without NaN; NaN where it has nothing else."""
    ordered = np.sort(rows, axis=0)  # NaN last
    count = len(rows)
    if not np.isnan(ordered[-1]).any():
        return np.asarray((ordered[(count - 1) // 2] + ordered[count // 2]) / 2)
    counts, columns = np.isfinite(rows).sum(axis=0), np.arange(rows.shape[1])
    return np.asarray((ordered[np.maximum(counts - 1, 0) // 2, columns] + ordered[counts // 2, columns]) / 2)


class _Past:
    """What the runs before each run teach: of every part the mean, the noise, and how much a run is like the last.

    `rows`: the runs that count, by their place among all; those of losses that closed again are left out.
    """

    def __init__(self, numbers: Numbers, rows: NDArray[np.int64], nights: NDArray[np.int64] | None) -> None:
        self.numbers, self.rows = numbers, rows
        self._nights = None if nights is None else nights[rows]
        values = numbers.values[rows]
        count = np.arange(BASE, len(rows) + 1)
        n: Values = count[:, None].astype(np.float64)
        if numbers.bends is not None:
            present = np.isfinite(values)
            values = np.where(present, values, _medians(values))  # says nothing
            n = present.cumsum(axis=0, dtype=np.float64)[BASE - 1 :]
        known, n = n >= BASE, np.maximum(n, BASE)
        self.values, self._totals, centre = values, values.cumsum(axis=0), values[:REFERENCE_RUNS].mean(axis=0)
        away = values - centre
        most = 5 * np.abs(away).mean(axis=0)
        away = np.minimum(np.maximum(away, -most), most)
        mean = away.cumsum(axis=0)[BASE - 1 :] / n
        variance = np.maximum((away * away).cumsum(axis=0)[BASE - 1 :] / n - mean * mean, TINY)
        alike = (away[1:] * away[:-1]).cumsum(axis=0)[BASE - 2 :] / (n - 1) - mean * mean
        like = np.minimum(np.maximum(alike / variance * n / (n + 10), 0.0), 0.9)
        free = n - 1
        # the noise of machines has wide tails: many runs tell as much about its size as half as many normal values
        tells = np.minimum(free, np.maximum(10, n / 2))
        # Wallace's quantile of Student's distribution: chance does not make 4.2 standard errors
        student = np.sqrt(tells * np.expm1((4.2 * (8 * tells + 3) / (8 * tells + 1)) ** 2 / tells))
        self.means = mean + centre
        self.noise = np.where(known, np.sqrt(variance * (n / free)), np.inf)
        self._limits: dict[int, Values] = {}
        self._far, self._like, self._of_mean = self.noise * student, like, (1 + like) / (1 - like) / n

    def limits(self, runs: int) -> Values:
        """By the number of runs before, from `BASE` on: how far away chance does not bring so many further ones."""
        if runs in self._limits:
            return self._limits[runs]
        like = self._like[: max(0, len(self._like) - runs)]
        first, second, third = (2 * max(0.0, 1 - lag / runs) for lag in (1, 2, 3))
        own = (1 + like * (first + like * (second + like * third))) / runs
        if self._nights is not None:  # reruns are like the run that they run again
            windows = sliding_window_view(self._nights[BASE:], runs)
            same = (windows[:, :, None] == windows[:, None, :]).sum(axis=(1, 2)) / runs
            own = own * (1 + 0.5 * (same[:, None] - 1))
        self._limits[runs] = self._far[: len(like)] * np.sqrt(own + self._of_mean[: len(like)])
        return self._limits[runs]

    def crossing(self, runs: int, floor: float, first: int, sign: int = 1) -> tuple[int, int, int] | None:
        """The first run with which so many are worse, how many they are, and the part."""
        skipped = max(BASE, first) - BASE
        limit = self.limits(runs)[skipped:]
        means = self.means[skipped : skipped + len(limit)]
        sums = self._totals[BASE + skipped + runs - 1 :] - self._totals[BASE + skipped - 1 : len(self.values) - runs]
        far = sign * (sums - runs * means) > runs * limit
        if not far.any():
            return None
        cap = 1.2 * limit  # two bad runs are never a level
        capped = np.zeros_like(limit)
        for each in range(runs):
            away = self.values[BASE + skipped + each : BASE + skipped + each + len(limit)] - means
            capped += np.minimum(sign * away, cap)
        far = capped > runs * limit
        for at in np.flatnonzero(far.any(axis=1)):
            base = BASE + skipped + int(at)
            effect, bends = sign * self.effects(base, base + runs, base).sum(axis=1), self.numbers.bends
            least: float | Values = floor
            if bends is not None:
                bent = bends[self.rows]
                least = floor + bent[:base].mean(axis=0) + bent[base : base + runs].mean(axis=0)
            is_new = far[at] & (effect > least)
            if runs == WINDOWS[0] and is_new.any():
                is_new &= self._is_wide(base, runs, sign, limit[at])
            effect = np.where(is_new, effect * self.numbers.certainty, 0.0)
            if effect.any():
                return base + runs - 1, runs, int(effect.argmax())
        return None

    def _is_wide(self, base: int, runs: int, sign: int, limit: Values) -> NDArray[np.bool_]:
        """By part: whether runs are worse, by .6 of the margin, without the point that is farthest off in each.

        The other points are to tell a fifth of the part.
        """
        distances = np.nan_to_num(self.numbers.distances[self.rows[base : base + runs]])
        points = sign * distances[:, None, :] * self.numbers.weights
        farthest = points.argmax(axis=2)[:, :, None]
        others = 1 - np.take_along_axis(np.broadcast_to(self.numbers.shares, points.shape), farthest, axis=2)[:, :, 0]
        rest = points.sum(axis=2) - np.take_along_axis(points, farthest, axis=2)[:, :, 0]
        away = rest / np.maximum(others, TINY) - sign * self.means[base - BASE]
        return np.asarray((others > 0.2).all(axis=0) & (np.minimum(away, limit).mean(axis=0) > 0.6 * limit))

    def effects(self, begin: int, end: int, base: int) -> Values:
        """By part and point: how far some runs are from those before a base, by the median of every point."""
        points = self.numbers.distances[self.rows[begin:end]]
        before = self.numbers.distances[self.rows[max(0, base - REFERENCE_RUNS) : base]]
        away = _medians(points) - _medians(before)
        return np.asarray(self.numbers.weights * (away if self.numbers.bends is None else np.nan_to_num(away)))

    def begun(self, base: int, part: int) -> int:
        """The first of some runs that is nearer to their middle than to the runs before."""
        away = self.values[base:, part] - self.values[:base, part].mean()
        middle = np.median(away[:BETTER_RUNS])
        return base + int((away * np.sign(middle) > abs(middle) / 2).argmax())

    def back(self, base: int, end: int, part: int) -> int | None:
        """The first of two runs that together are less than a quarter of a loss away."""
        away = self.values[base:, part] - self.means[base - BASE, part]
        size = away[: end + 1 - base].mean()
        pairs = (away[end - base : -1] + away[end - base + 1 :]) / 2 < 0.25 * size
        return end + int(pairs.argmax()) if pairs.any() else None


class _Followed(NamedTuple):
    past: _Past
    base: int
    """The newest runs begin here; those before are what they are compared with."""
    worse: int | None
    """The part that opened a loss; None if none is open."""
    better: int | None = None
    """The run from which on a better curve has lasted."""


def _follow(numbers: Numbers, nights: NDArray[np.int64] | None, floor: float, *, is_sided: bool) -> _Followed:
    rows, first = np.arange(len(numbers.values)), 0
    while True:
        past = _Past(numbers, rows, nights)
        hits = (past.crossing(runs, floor, first) for runs in WINDOWS)
        hit = min((one for one in hits if one is not None), default=None)
        if is_sided and len(rows) >= BASE + BETTER_RUNS:
            found = past.crossing(BETTER_RUNS, floor, 0, -1)
            if found is not None and (hit is None or found[0] < hit[0]):
                return _Followed(past, len(rows) - 1, None, int(rows[past.begun(found[0] + 1 - BETTER_RUNS, 0)]))
        if hit is None:
            return _Followed(past, len(rows) - 1, None)
        end, runs, part = hit
        base = end + 1 - runs
        back = past.back(base, end, part)
        if back is None and past.effects(max(base, len(rows) - RECENT), len(rows), base)[part].sum() > floor / 2:
            return _Followed(past, base, part)
        if back is None:  # too small to be told from what came after it
            first = end + 1
        else:
            rows, first = np.concatenate([rows[:base], rows[back:]]), base


def curve_state(
    curves: Sequence[Sweep],
    worse: int,
    *,
    traded_for: Sequence[Sweep] = (),
    floor: float = FLOOR,
    fewest: int = 10,
    nights: Sequence[int] | None = None,
) -> CurveState | None:
    """The state of a curve, oldest run first, of which greater values are worse (1), smaller ones (-1) or both (0).

    None if the runs before do not reach it. `traded_for`: curves with which these are a frontier. `nights`: by run, the
    index of the first run of its night.
    """
    own = points_of(curves[-1])
    lines = [points_of(one, own[0]) for one in curves]
    trades = [trade_of(*both) for both in zip(curves, traded_for, strict=True)] if traded_for else []
    worse = -1 if traded_for else worse
    night = None if nights is None or len(set(nights)) == len(nights) else np.array(nights)
    start = 0
    while True:
        found = frontier(trades[start:]) if traded_for else aligned(lines[start:])
        if found is None:
            return None
        numbers = numbers_of(found, worse)
        followed = _follow(numbers, None if night is None else night[start:], floor, is_sided=worse != 0)
        if followed.better is None or len(lines) - start - followed.better <= fewest:
            state = _state(found, numbers, followed, worse, floor=floor, start=start)
            if state is not None and state.first is None:
                return replace(state, lasting=_lasting(numbers.values[:, 0], worse, floor=floor, start=start))
            return state
        start += followed.better


def _lasting(values: Values, worse: int, *, floor: float, start: int) -> LevelState | None:
    """What the detector of levels finds: most curves need no look, as neither their newest runs are worse nor some are.

    `values`: of all of a curve, positive if worse.
    """
    known = np.flatnonzero(np.isfinite(values))
    values = values[known]
    if len(values) < PLATEAU + TAIL:
        return None
    sums = np.concatenate([[0.0], values.cumsum()])
    best = (sums[PLATEAU:] - sums[:-PLATEAU]).min() / PLATEAU
    if worse and max(values[-TAIL:].mean(), np.sort(values[-2 * TAIL :])[-FEWEST_FLAKY] / 2) < best + floor:
        return None
    percent = 100 * np.exp((worse or 1) * np.clip(values, -20, 20))
    state = follow(percent, LevelRule(worse, percent=100 * floor)).at(-1)
    first = None if state.first is None else start + int(known[state.first])
    return replace(state, first=first) if state.failing else None


def _state(
    found: Aligned, numbers: Numbers, followed: _Followed, worse: int, *, floor: float, start: int
) -> CurveState | None:
    past, base, opened = followed.past, followed.base, followed.worse
    newest = len(past.rows) - 1
    before = (base if opened is not None else max(base + 1 - WINDOWS[0], BASE)) - BASE
    soon, later = (np.maximum(floor, past.limits(runs)[: before + 1][-1:]) for runs in WINDOWS)
    soon, later = soon[0], later[0] if len(later) else soon[0]  # eight runs are not known of a young test
    noise = past.noise[before]
    now = past.effects(newest, newest + 1, base).sum(axis=1)
    since = now if opened is None else past.effects(max(base, newest + 1 - RECENT), newest + 1, base).sum(axis=1)
    known = np.isfinite(numbers.values[-1])
    if not known.any():
        return None
    away = past.values[-1] - past.means[before]
    beyond = np.where(known & (away > soon), away / noise, 0.0)
    worst = int(np.argmax(np.where(known, since * numbers.certainty, -np.inf)))
    shown = [worst] if opened is not None else np.flatnonzero(known)[:4].tolist()
    parts = []
    for column in shown:
        where = numbers.where[column]
        moves = (worse or (1 if column < len(numbers.where) // 2 else -1)) * (-1 if where == MOVED else 1)
        value, change = (
            float(np.expm1(min(moves * each[column], 20)) if found.is_share else moves * each[column])
            for each in (now, since)
        )
        sizes = (float(each[column]) for each in (soon, later, noise))
        parts.append(Part(where, 100 * (1 + value), change, *sizes))
    first = None if opened is None else start + int(past.rows[past.begun(base, opened)])
    return CurveState(tuple(parts), first, float(beyond.max()), found.x, found.moved)


def sweep_verdict(verdict: Verdict, condition: Condition, earlier: EarlierRuns) -> Verdict:
    """Judge the curve of a run by those of the runs before."""
    rows = series_of(verdict.metric, condition, earlier)
    earlier.curves.read([row.run_key for row in rows])
    verdict, traded_for = replace(verdict, baseline_points=len(rows)), condition.traded_for
    (own,) = _curves([earlier.run_key], earlier, verdict.metric, condition)
    if own is None:
        what = f" and that of {traded_for!r}" if traded_for else ""
        return replace(verdict, reason=f"the curve of the run{what} is not known here")
    if not points_of(own[0])[0]:
        return replace(verdict, outcome=Outcome.NON_FINITE, value=None, reason="no point of the curve was measured")
    found = _curves([row.run_key for row in rows], earlier, verdict.metric, condition)
    axes = _axes(own)
    past = [
        (row, each)
        for row, each in zip(rows, found, strict=True)
        if each is not None and _axes(each) == axes and any(map(SweepPoint.is_measured, each[0].points))
    ]
    needed = condition.fewest_runs
    verdict = replace(verdict, value=100.0, baseline_points=len(past))
    if len(past) < needed:
        return replace(verdict, reason=f"the history has {len(past)} of the {needed} curves required")
    threshold = condition.success_threshold.change_point
    stated = None if threshold is None else threshold.min_change_percent
    floor = FLOOR if stated is None else stated / 100
    origins = [*(run_again(row.rerun) for row, _ in past), run_again(earlier.run_id)]
    curves = [*(each for _, each in past), own]
    state = curve_state(
        [each[0] for each in curves],
        worse_side(condition),
        traded_for=[each[1] for each in curves] if traded_for else (),
        floor=floor,
        fewest=needed,
        nights=nights_of(origins),
    )
    if state is None:
        return replace(verdict, reason="no earlier curve reaches any point of this one")
    worst = state.parts[0]
    verdict = replace(
        verdict,
        value=worst.value,
        bounds=Bounds(
            100 * (1 - worst.margin) if traded_for or condition.comparison.bounds_below else -math.inf,
            100 * (1 + worst.margin) if condition.comparison.bounds_above and not traded_for else math.inf,
            inclusive=True,
        ),
        reference=100.0,
        watched=Watched(
            noise=100 * worst.noise,
            floor=100 * floor,
            floor_is=f"{100 * floor:g} %{', as stated' if stated is not None else ''}",
            found_in_3=100 * worst.margin,
            found_in_15=100 * worst.found_later,
            loss=str(state.lasting.kind) if state.lasting else "level" if state.failing else "",
            beyond=0.0 if state.failing else state.beyond,
        ),
    )
    curve, name = own[0], verdict.metric.removeprefix(SWEEP)
    axis = f" ({curve.x_name}{f' in {curve.x_unit}' if curve.x_unit else ''})"
    if len(points_of(curve)[0]) > len(state.x):
        axis += f"; compared from {state.x[0]:g} to {state.x[-1]:g}: earlier curves do not reach the rest"
    if traded_for:
        name += f" against {traded_for}"
        if abs(state.moved) > 0.05:
            axis += f"; a setting is {100 * state.moved:+.2g} % farther along the frontier than before"
    if state.first is None:
        what = "; ".join(f"{part.where} {part.value - 100:+.2g} %" for part in state.parts)
        outcome, reason = Outcome.PASS, f"beside the runs before: {what}{axis}"
        if state.lasting is not None:
            loss = loss_of_level(state.lasting, [row for row, _ in past], earlier, "%")
            outcome, reason = Outcome.FAIL, f"{name} everywhere{axis}: {loss}"
        return replace(verdict, outcome=outcome, reason=reason)
    keys = [*(row.run_key for row, _ in past), earlier.run_key]
    times = [*(row.timestamp for row, _ in past), earlier.now]
    differs = differences(earlier.attributes, keys[state.first - 1], keys[state.first])
    after = 100 * (1 + worst.change)
    since = change_sentence(100.0, after, keys[state.first], times[state.first], differs, unit=verdict.unit)
    reason = f"{name} is worse {worst.where} by {100 * worst.change:+.2g} %{axis}; there {since}"
    return replace(verdict, outcome=Outcome.FAIL, reason=reason)


def _curves(
    run_keys: Sequence[str], earlier: EarlierRuns, metric: str, condition: Condition
) -> list[tuple[Sweep, ...] | None]:
    """What is judged of runs: a curve of each, or two that have points at the same x."""
    curves, traded_for = [earlier.curves.of(key, metric) for key in run_keys], condition.traded_for
    if not traded_for:
        return [(one,) if isinstance(one, Sweep) else None for one in curves]
    found: list[tuple[Sweep, ...] | None] = []
    better = LOWER if condition.comparison.bounds_above else HIGHER
    for key, curve in zip(run_keys, curves, strict=True):
        other = earlier.curves.of(key, f"{SWEEP}{traded_for}")
        if isinstance(curve, Sweep) and isinstance(other, Sweep):
            both = replace(curve, better=better), other if other.better else replace(other, better=better)
            found.append(both if trade_of(*both)[0][0] else None)
        else:
            found.append(None)
    return found


def _axes(curves: tuple[Sweep, ...]) -> list[tuple[str, str]]:
    """Curves with other ones are not compared."""
    return [(one.x_name, one.unit) for one in curves]
