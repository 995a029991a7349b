"""The level of a metric, run by run: the rule `change_point`.

A loss opens when the newest runs are a worse level than the accepted runs before them, and closes when the old level is
back. While it is open, no run is accepted. Greater is worse here; a rule for the other direction turns all signs.

1. The noise of the newest 100 accepted runs is described without the newest 15, which may be a new level already.
2. Of the newest m runs, j are beyond the floor of meaning and beyond k errors; such runs are rare in the baseline, and
   no m neighbours in it were there. A young baseline of five runs takes five.
3. Runs that are worse than any known one, but not in a row, are `flaky`. Of a metric with two modes they are both modes
   worse; and more runs at the worse mode than chance gives are a change of the mix.
4. A slow loss is the newest 15 runs beside the best 21 in a row.
5. An open loss closes by the likelihood ratio of the old level and the new one, each with its own noise. The runs since
   are a series of their own, in which a second worse level is told.
6. A level that wanders is not judged by level, except a jump far above the noise between neighbours.
7. A better level that lasts twelve runs is the one to keep.
8. Runs of one night share what is special in it, so they are fewer witnesses than runs of as many nights. How alike
   they are is learnt from nights with several runs; before, half of what moved one run is taken to move the others.

What is said of a run depends on no later one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from operator import attrgetter, ne
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ml_metrics.config.conditions import MIN_LEVEL_RUNS, ChangePoint
from ml_metrics.core.kinds import Measure
from ml_metrics.core.model import Watched
from ml_metrics.judge.changepoints import change_points
from ml_metrics.judge.history import Dated
from ml_metrics.judge.noise import (
    KNOWN_RUNS,
    MEDIAN_ERROR,
    RHYTHM_RUNS,
    WEEK,
    Day,
    Modes,
    Noise,
    describe,
    deviation_of,
    error_of_mean,
    floor_of,
    memory_of,
    middle,
    neighbour_noise,
    quantile_of,
    spread_of,
    steps_of,
    without_trend,
)
from ml_metrics.judge.siblings import FEWEST_RUNS, Siblings

Values = NDArray[np.float64]
BASELINE_RUNS, YOUNG_RUNS = 100, 5
"""How many accepted runs a baseline has at most, and how many a young one has at least."""
KNOWN_NOISE = 12
"""Of fewer runs the noise is not known well enough to leave runs out of a closer look."""
UNLEARNT_RUNS = 15
"""The newest runs are not yet part of the noise: a loss that is found late must not be learnt as noise."""
P_COUNT = 1e-4
"""The greatest probability that chance makes so many novel runs, or so many runs of the worse mode."""
FLAKY = ((4, 3), (6, 3), (8, 3), (10, 3), (15, 4), (20, 4), (30, 5))
"""Among how many newest runs how many novel ones, not all in a row, are flaky."""
FLAKY_CLOSES = 20
"""So many runs with at most two novel ones end it."""
PLATEAU, TAIL = 21, 15
"""The newest 15 runs are compared with the best 21 runs in a row."""
RECOVERED, CLEAR, LUCKY = 4.5, 4.0, 1.2
"""The logarithm of the likelihood ratio with which a loss closes, and how much of it a single run can bring; a run that
is far better than the old level brings less."""
LEVEL_RUNS, SUSPECTED_RUNS = 8, 6
"""The level of an open loss is the median of so many runs; among so many, those beyond the margin are counted."""
JUMP, WANDERS_FOR = 10.0, 60
"""The jump that is told where a level wanders, in the noise between neighbours; it wanders for so many runs."""
SEARCHED_RUNS, SEARCH_EVERY = 8, 2
TINY = float(np.finfo(np.float64).tiny)
LARGEST, SMALLEST = 1e300, 1e-290
"""Values beyond them are scaled, so that no sum overflows, and no change is below what a number can be."""


class LossKind(StrEnum):
    """What an open loss is."""

    LEVEL = "level"
    SLOW = "slow"
    JUMP = "jump"
    """A level that wanders has jumped."""
    FLAKY = "flaky"
    """Single runs are worse than any before, again and again."""
    MODES = "modes"
    """Both modes are worse."""
    MIX = "mix"
    """More runs than before are at the worse one of two modes."""


class Size(NamedTuple):
    """How many of the newest runs may be a new level."""

    runs: int
    needed: int
    """How many of them must be that far away. Two bad runs are never a level."""
    errors: float


SIZES = tuple(
    Size(*one) for one in ((3, 3, 3.25), (4, 3, 3.25), (5, 3, 3.25), (6, 4, 4), (8, 5, 4), (10, 6, 4), (15, 8, 4))
)
YOUNG = Size(5, 5, 3.25)
BETTER = Size(12, 10, 4.5)
"""A better level is the one to keep after ten runs: a week of lucky runs is not."""
FEW = 5
"""Up to this size runs must also be rare: standard errors alone are not enough for noise that is not normal."""
USUAL = ChangePoint()


@dataclass(frozen=True)
class LevelRule:
    """Which change of a level is a loss."""

    worse: int
    """1 if greater values are worse, -1 if smaller values are, 0 if both are."""
    measure: Measure | None = None
    """What is measured, if that is known."""
    percent: float | None = None
    """The smallest change in percent of the level, if it is stated."""
    absolute: float | None = None
    """The smallest change in the unit of the metric, if it is stated."""
    min_runs: int = USUAL.min_runs
    p_value: float = USUAL.p_value
    """The greatest probability that chance draws so few runs, as bad as these, from the baseline."""
    siblings: Siblings | None = None
    """Whose noise counts until that of the metric is known."""

    @cached_property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes that a new level may have, the smallest first."""
        if self.min_runs == SIZES[0].runs:
            return SIZES
        larger = (one._replace(needed=max(one.needed, self.min_runs)) for one in SIZES if one.runs > self.min_runs)
        errors = float(np.interp(self.min_runs, [one.runs for one in SIZES], [one.errors for one in SIZES]))
        return Size(self.min_runs, self.min_runs, errors), *larger


@dataclass(frozen=True, slots=True)
class LevelState:
    """The level of a metric as one run leaves it, in the unit of the metric."""

    kind: LossKind | None
    """What the open loss is; None if none is open."""
    reference: float
    """The level to keep."""
    level: float
    """The level of the newest runs."""
    margin: float
    """The distance from the reference from which on `min_runs` runs are a new level."""
    offset: float
    """What the rhythm of a week adds to the reference in this run."""
    first: int | None
    """The index of the first run of the open loss."""
    again: int | None
    """The index of the first run of a second worse level while the loss is open."""
    false_alarm_rate: float | None
    """The probability that chance draws the first runs of the loss from the baseline."""
    suspected: int
    """How many of the newest `SUSPECTED_RUNS` runs are beyond the margin although no loss is open."""
    one_run: bool
    """Whether this run alone is far worse than any before: no loss yet."""
    watched: Watched
    """What the rule can see of the metric."""

    @property
    def failing(self) -> bool:
        return self.kind is not None


class Levels:
    """The level of a metric at each of its runs."""

    def __init__(self, rule: LevelRule, scale: float) -> None:
        self.rule, self.scale = rule, scale
        """What values are multiplied by, so that no sum overflows."""
        self.runs: list[_Run] = []
        self._followers = [_Follower(rule, sign) for sign in ((rule.worse,) if rule.worse else (1, -1))]
        self._said: list[_Said] = []

    def goes_on(self, values: Sequence[Dated], known: int) -> bool:
        """Go on to the newest of some values, of which so many are followed; false if that takes a new beginning."""
        place = len(values) - 1
        if place < known:
            return True
        value, weekday, origin = values[place]
        keys = len(self.runs[-1].day)
        is_new_rhythm = keys == 1 and place >= WEEK and values[place - WEEK][1] != weekday
        if place > known or is_new_rhythm or self.scale != 1 or abs(value) > LARGEST:
            return False
        night = self.runs[-1].night if origin and values[place - 1][2] in {"", origin} else place
        self.add(_Run(place, (self.rule.worse or 1) * value, (place % WEEK, weekday)[:keys], night))
        return True

    def add(self, run: _Run) -> None:
        self.runs.append(run)
        self._said.append(_follow_one(self._followers, run))

    @property
    def failing(self) -> NDArray[np.bool_]:
        return np.array([said.kind is not None for said in self._said], dtype=np.bool_)

    def at(self, run: int) -> LevelState:
        """The state at the run with this index; -1 is the newest."""
        index = run + len(self._said) if run < 0 else run
        said, turn = self._said[index], self.rule.worse or 1
        loss, first = said.loss, index + 1 - SUSPECTED_RUNS
        watch = said.watch or _Watch(describe([said.sign * turn * self.runs[0].value]), self.rule, None)
        if loss is not None:
            first = max(loss.first if said.again is None else said.again, index + 1 - LEVEL_RUNS)
        runs = self.runs[max(0, first) : index + 1]
        rhythm, reference = watch.noise.rhythm, watch.noise.level if loss is None else loss.before
        offsets = [rhythm.of(each.day) if rhythm else 0.0 for each in runs]
        recent = [said.sign * turn * each.value - offset for each, offset in zip(runs, offsets, strict=True)]
        above, below = (sum(sign * (each - reference) > watch.margin for each in recent) for sign in (1, -1))
        beyond = above if self.rule.worse else max(above, below)
        size = 1 / self.scale
        unit = said.sign * size
        return LevelState(
            kind=said.kind,
            reference=unit * reference,
            level=unit * middle(recent),
            margin=size * watch.margin,
            offset=unit * offsets[-1],
            first=None if loss is None else loss.first,
            again=said.again,
            false_alarm_rate=None if loss is None else loss.rate,
            suspected=0 if loss or said.watch is None else beyond,
            one_run=said.one_run,
            watched=Watched(
                noise=size * watch.noise.spread,
                floor=size * watch.floor.size,
                floor_is=watch.floor.why,
                found_in_3=size * watch.found_within(SIZES[0].runs),
                found_in_15=size * watch.found_within(SIZES[-1].runs),
                by_level=watch.judgeable,
                loss=str(said.kind or ""),
                beyond=said.beyond,
                borrowed=self.rule.siblings.names if self.rule.siblings and watch.noise.lent else "",
            ),
        )


def follow(
    values: Sequence[float] | Values,
    rule: LevelRule,
    weekdays: Sequence[int] | None = None,
    nights: Sequence[int] | None = None,
) -> Levels:
    """Follow the level through finite values, oldest first.

    `weekdays`: that of each run, from 0 to 6. `nights`: the index of the first run of its night. Default: its own.
    """
    series = [float(value) for value in values]
    greatest = max(map(abs, series), default=0.0)
    scale = 2.0**-20 if greatest > LARGEST else 2.0**200 if 0 < greatest < SMALLEST else 1.0
    if scale != 1:
        series, rule = (
            [value * scale for value in series],
            replace(rule, absolute=rule.absolute and rule.absolute * scale),
        )
    places = [place % WEEK for place in range(len(series))]
    keys = [places] if weekdays is None or len(set(zip(places, weekdays, strict=True))) <= WEEK else [places, weekdays]
    turned = [-value for value in series] if rule.worse < 0 else series
    runs = list(map(_Run, range(len(turned)), turned, zip(*keys, strict=True), nights or range(len(turned))))
    levels = Levels(rule, scale)
    for run in runs:
        levels.add(run)
    return levels


class _Watch:
    """What the noise of a baseline means for the runs after it."""

    def __init__(self, noise: Noise, rule: LevelRule, measure: Measure | None, *, judgeable: bool = True) -> None:
        self.noise, self.judgeable, self._rule = noise, judgeable, rule
        self.is_young = noise.count < MIN_LEVEL_RUNS and not noise.lent
        self.floor = floor_of(noise, measure, rule.percent, rule.absolute)
        self.smallest = max(self.floor.size * (1 - 1e-9), TINY) * (3 if self.is_young else 1)
        """What a loss is greater than: one of the size of the floor counts, as do the first events."""
        self.quiet = 0.5 * self.smallest if noise.modes is None else -math.inf
        """Where levels are judged, a run that is at most so far away is no part of a loss, unless of a slow one."""
        self.suspicious = max(self.smallest, 3 * noise.spread * noise.young)
        self.novel = max(self.smallest, 4.5 * (noise.modes or noise).spread * noise.young)

    @property
    def sizes(self) -> tuple[Size, ...]:
        return (YOUNG._replace(runs=max(YOUNG.runs, self._rule.min_runs)),) if self.is_young else self._rule.sizes

    @cached_property
    def bounds(self) -> dict[Size, float]:
        """How far from the level each size has to be. Most watches never need to know."""
        return {size: max(self.smallest, size.errors * self.noise.error(size.runs)) for size in self.sizes}

    @property
    def margin(self) -> float:
        return self.bounds[self.sizes[0]]

    def found_within(self, runs: int) -> float:
        """The smallest loss that is found within so many runs in eight of ten cases.

        The noise is taken to grow with the level, so a loss may have to be far larger where it is most of the level.
        """
        size = next((size for size in reversed(self.sizes) if size.runs <= runs), self.sizes[0])
        noise, loss = self.noise, self.smallest
        spares = (size.runs - size.needed) / size.runs
        for _ in range(6):  # each is computed from the other
            grown = noise.spread * (1 + loss / abs(noise.level)) if noise.level else noise.spread
            loss = max(self.smallest, size.errors * noise.error(size.runs, grown)) + (1.47 - 2.4 * spares) * grown
        return loss

    def spreads(self, beyond: float, least: float) -> float:
        """By how many spreads a run is worse, if it and all runs of its night before may be a new level; else 0."""
        if least <= self.smallest or self.is_young or not self.judgeable or least <= self.margin:
            return 0.0
        return min(1000.0, beyond / max(self.noise.spread * self.noise.young, TINY))

    def is_novel(self, rest: float) -> bool:
        """Whether a run is worse than any that is known: above all, or between two modes."""
        modes = self.noise.modes
        if modes is None:
            return rest - self.noise.level > self.novel
        return rest > modes.high + self.novel or modes.low + self.novel < rest < modes.high - self.novel


@dataclass(slots=True)
class _Loss:
    """An open loss."""

    kind: LossKind
    first: int
    told: int
    """The place of the run that revealed it."""
    before: float
    watch: _Watch
    taken: list[_Run]
    runs: list[float]
    """The values since it began, without the rhythm."""
    rate: float | None = None
    size: float = 0.0
    again: int | None = None
    searched: int = 0
    ratio: float = 0.0
    quiet: int = 0
    """How many of the newest runs speak for the old level."""
    novel: list[bool] = field(default_factory=list)
    """Which runs of a flaky metric were novel."""

    @property
    def margin(self) -> float:
        """The distance from the old level from which on runs are not back."""
        return self.watch.smallest if self.kind is LossKind.SLOW else self.watch.margin

    def add(self, run: _Run, rest: float) -> bool:
        """Add a run; return whether the old level is back."""
        self.taken.append(run)
        self.runs.append(rest)
        if self.kind in {LossKind.MODES, LossKind.MIX}:
            return self._modes_are_back()
        recent = sorted(self.runs[-LEVEL_RUNS:])
        new = max(recent[len(recent) // 2], self.before + self.margin)
        old_spread = max(self.watch.noise.spread, self.watch.smallest / 4)
        known = self.runs[-24:]
        level = middle(known)
        plain = deviation_of([abs(each - level) for each in known]) if len(known) <= YOUNG_RUNS else 0.0
        new_spread = max(old_spread, plain, spread_of(known, coarse=True, level=level))
        worse, away = max(0.0, rest - self.before) / old_spread, (rest - new) / new_spread
        ratio = -CLEAR
        if worse < 1e3:
            ratio = math.log(new_spread / old_spread) + 0.5 * min(abs(away), 1e3) ** 2 - 0.5 * worse * worse
        if rest < self.before:  # far better runs are rather lucky than back
            ratio = CLEAR if rest > self.before - self.margin else LUCKY
        self.ratio = max(0.0, self.ratio + min(CLEAR, max(-CLEAR, ratio)))
        self.quiet = self.quiet + 1 if self.ratio > 0 else 0
        if self.ratio >= RECOVERED:
            return True
        # noise drifts back, a slow loss never
        least = 0.85 * self.size if self.kind is LossKind.SLOW else self.margin / 2
        return len(self.runs) >= 2 * TAIL and middle(self.runs[-TAIL:]) - self.before < least

    def returned(self) -> list[_Run]:
        count = min(self.quiet, 5) if self.ratio >= RECOVERED else min(TAIL, len(self.runs))
        newest = zip(self.taken[-count:], self.runs[-count:], strict=True) if count else ()
        last = self.taken[-1]
        return [run for run, rest in newest if rest - self.before < self.margin * (1 if run is last else 0.5)]

    def is_interleaved(self) -> bool:
        """Whether good runs lie between bad ones, far above the noise: flaky, not recovered."""
        noise = self.watch.noise
        if self.margin < 2 * self.watch.suspicious and middle(self.runs) - self.before < 6 * noise.spread:
            return False
        bad = [rest - self.before > self.margin for rest in self.runs[-20:] if rest > self.before - self.margin]
        last = max((place for place, each in enumerate(bad) if each), default=0)
        return bad[:last].count(False) >= 2 and bad.count(True) >= SIZES[0].needed

    def _modes_are_back(self) -> bool:
        known = [not self.watch.is_novel(rest) for rest in self.runs[-6:]]
        modes, newest = self.watch.noise.modes, self.runs[-10:]
        if self.kind is LossKind.MODES or modes is None:
            return len(known) == 6 and sum(known) >= 5 and known[-1]
        return len(newest) == 10 and sum(rest < modes.between for rest in newest) >= 4


class _Run(NamedTuple):
    """A run as it was measured."""

    place: int
    value: float
    day: Day
    night: int
    """The place of the first run of its night."""


class _Said(NamedTuple):
    """What is said of a run, of which `LevelState` is made when it is asked for."""

    sign: int
    kind: LossKind | None
    loss: _Loss | None
    watch: _Watch | None
    day: Day
    again: int | None = None
    one_run: bool = False
    beyond: float = 0.0


class _Follower:
    """Follows a metric in one direction, in which greater is worse."""

    def __init__(self, rule: LevelRule, sign: int) -> None:
        self.rule, self.sign = rule, sign
        self.counts = rule.measure is Measure.COUNT
        self.fewest = FEWEST_RUNS if rule.siblings else YOUNG_RUNS
        self.runs: list[_Run] = []
        """The accepted runs."""
        self.rest: list[float] = []
        """Their values without the rhythm."""
        self.novel: list[bool] = []
        self.watch: _Watch | None = None
        self.watches: dict[int, _Watch] = {}
        """What was found before so many accepted runs, as long as these stay as they are."""
        self.described = 0
        """How many runs were accepted when the noise was described."""
        self.loss: _Loss | None = None
        self.best = math.inf
        self.slow_floors = 2.125 if rule.percent is None and rule.absolute is None else 1.0
        self.slow_place = max(0, min(TAIL // 2, TAIL - rule.min_runs))
        self.since_better = 0
        self.excursion = 0.0
        self.wandered = -WANDERS_FOR
        self.closed = -WANDERS_FOR
        self.searched = -SEARCH_EVERY
        self.night: list[float] = []
        """How far the runs of the newest night are from the level."""
        self.alike, self.known = 16.0, 32.0
        """The sum of the products of the distances of two runs of a night, and that of the squares of the first's, in
        spreads. In the beginning, half is shared, and as much is known as two nights at 4 spreads teach."""

    @property
    def shared(self) -> float:
        """The share of a run's distance from the level that other runs of its night have."""
        return min(max(self.alike / self.known, 0.0), 0.95)

    def learn(self, run: _Run, distance: float, spread: float) -> None:
        """Learn how alike runs of a night are. A night whose next one is as bad may be a loss, and tells nothing."""
        if run.place > run.night:
            self.night.append(distance)
            return
        before, self.night = self.night, [distance]
        if len(before) > 1 and spread > 0 and not before[0] / 2 < distance > spread:
            first, *others = [max(-JUMP, min(JUMP, each / spread)) for each in before]
            self.alike += first * sum(others) / len(others)
            self.known += first**2

    @property
    def holds(self) -> _Loss | None:
        """The open loss because of which no run is accepted."""
        return None if self.loss is None or self.loss.kind is LossKind.FLAKY else self.loss

    def without_rhythm(self, run: _Run) -> float:
        rhythm = None if self.watch is None else self.watch.noise.rhythm
        return run.value - rhythm.of(run.day) if rhythm else run.value

    def accept(self, run: _Run, rest: float | None = None, *, novel: bool = False) -> None:
        self.runs.append(run)
        self.rest.append(self.without_rhythm(run) if rest is None else rest)
        self.novel.append(novel)

    def forget(self, first: int) -> None:
        """Take the accepted runs from a place on away, because they are a loss in the other direction."""
        self._take(sum(run.place >= first for run in self.runs))
        self.loss = None

    def _take(self, count: int) -> None:
        if count:
            del self.runs[-count:], self.rest[-count:], self.novel[-count:]
            self.watches.clear()
            self.described = min(self.described, len(self.runs))

    def add(self, run: _Run) -> _Said:
        """Follow the level to the next run, which no loss holds."""
        n = len(self.runs)
        if n < self.fewest:
            self.accept(run)
            return _Said(self.sign, None, None, None, run.day)
        watch = self.watch or self._describe(run.place)
        age, usual = n - self.described, max(1, n // 6) if n < 60 else 12
        if age >= usual:
            beyond = abs(self.without_rhythm(run) - watch.noise.level)
            if beyond > 1.2 * watch.noise.spread or n < 20 or age >= 2 * usual:
                watch = self._describe(run.place)
        rest = self.without_rhythm(run)
        beyond = rest - watch.noise.level
        is_quiet = -watch.smallest <= beyond <= watch.quiet and watch.judgeable and n > 20 and self.loss is None
        novel = not is_quiet and run.night == run.place and watch.is_novel(rest)
        self.learn(run, beyond, watch.noise.spread)
        self.accept(run, rest, novel=novel)
        if is_quiet and not self._slowly_worse(watch):  # most runs
            return _Said(self.sign, None, None, watch, run.day)
        if is_quiet or self._worse_in_some_way(watch, beyond, novel=novel):
            return self.said(run)
        if beyond < -watch.smallest and self._is_better(watch):
            self._improve()
        if self.loss is not None:  # flaky
            self.loss.novel.append(novel)
            if len(self.loss.novel) < FLAKY_CLOSES or sum(self.loss.novel[-FLAKY_CLOSES:]) > 2:
                return self.said(run)
            self.loss = None
        one_run = False
        if beyond > watch.suspicious:
            noise = max(watch.noise.spread, watch.noise.near) * watch.noise.young
            least = max(10 * noise, 2 * self.excursion, 2 * watch.smallest)
            one_run = beyond > least and n >= MIN_LEVEL_RUNS + SIZES[0].runs - 1
            self.excursion = max(self.excursion, beyond)
        return _Said(self.sign, None, None, watch, run.day, None, one_run, watch.spreads(beyond, min(self.night)))

    def hold(self, loss: _Loss, run: _Run) -> list[_Run]:
        """Follow an open loss to the next run; return the runs that are accepted because it closes."""
        rest = self.without_rhythm(run)
        self.learn(run, rest - loss.before, loss.watch.noise.spread)
        if loss.add(run, rest):
            if loss.kind in {LossKind.MODES, LossKind.MIX}:
                returned = [run]
            elif loss.is_interleaved() or (loss.kind is LossKind.LEVEL and loss.told - self.closed <= FLAKY_CLOSES):
                # another loss had just closed: the metric is rather flaky than back
                loss.kind = LossKind.FLAKY
                return []
            else:
                returned = loss.returned()
            self.loss, self.closed = None, run.place
            return returned
        if len(loss.runs) - loss.searched >= 3 and len(loss.runs) >= 11:
            self._worse_again(loss)
        return []

    def said(self, run: _Run) -> _Said:
        loss = self.loss
        if loss is None:
            return _Said(self.sign, None, None, self.watch, run.day)
        return _Said(self.sign, loss.kind, loss, loss.watch, run.day, loss.again)

    # the noise

    def _watch_before(self, end: int) -> tuple[_Watch, list[float]]:
        """The newest accepted runs before one, without the rhythm that is known, and what their noise means."""
        rest = self.rest[max(0, end - BASELINE_RUNS) : end]
        watch = self.watches.get(end)  # three runs now, and four in the next run, have the same ones before them
        if watch is None:
            watch = self.watches[end] = self._watch_of(describe(rest, counts=self.counts), rest)
        return watch, rest

    def _watch_of(self, noise: Noise, values: Sequence[float]) -> _Watch:
        """What a noise means. Values from 0 to 1 of which more is better are a ratio, if nothing else is known."""
        measure = self.rule.measure
        if self.rule.siblings:
            noise = self.rule.siblings.lend(noise)
        if measure is None and self.rule.worse < 0 and min(values) >= -1 and max(values) <= 0:
            measure = Measure.RATIO
        return _Watch(noise, self.rule, measure, judgeable=not noise.wanders)

    def _describe(self, place: int) -> _Watch:
        n = len(self.runs)
        end = n - min(UNLEARNT_RUNS, max(0, (n - MIN_LEVEL_RUNS) // 2))
        runs = self.runs[max(0, end - BASELINE_RUNS) : end]
        before = self.watch.noise.rhythm if self.watch else None
        values = [run.value for run in runs] if before else self.rest[max(0, end - BASELINE_RUNS) : end]
        days = [run.day for run in runs] if len(runs) >= RHYTHM_RUNS else None
        watch = self._watch_of(describe(values, days, counts=self.counts), values)
        if not watch.judgeable:
            self.wandered = place
        watch.judgeable = place - self.wandered > WANDERS_FOR
        self.watch, self.described = watch, n
        if watch.noise.rhythm != before:
            self.rest = [self.without_rhythm(run) for run in self.runs]
            self.watches.clear()
        return watch

    # what a loss is

    def _worse_in_some_way(self, watch: _Watch, beyond: float, *, novel: bool) -> bool:
        """Whether a run reveals a loss, which then is open."""
        n = len(self.rest)
        if not watch.judgeable and self.loss is None:
            if self._jumps(watch):
                return True
        else:
            screen = 0.7 if n > BASELINE_RUNS else 0.5  # the noise was described some runs ago
            young_are_worse = False
            if 2 * YOUNG_RUNS <= n <= 20:  # the newest of a few runs may have taken over the others
                old, new = sorted(self.rest[:-5]), sorted(self.rest[-5:])
                young_are_worse = new[1] > old[-1] and new[2] - old[len(old) // 2] > 3 * (old[-1] - old[0])
            is_near = beyond > watch.smallest * (screen if n > KNOWN_NOISE else 1 / 3)
            if (is_near or young_are_worse) and self._level_is_worse(watch, screen, beyond):
                return True
        return self.loss is None and (
            (novel and self._is_flaky(watch))
            or (not novel and watch.noise.modes is not None and self._mix_is_worse(watch, watch.noise.modes))
            or (beyond > watch.smallest and watch.judgeable and self._search_finds_a_change(watch))
            or self._slowly_worse(watch)
        )

    def _open(
        self, kind: LossKind, runs: int, watch: _Watch, before: float | None = None, *, rate: float | None = None
    ) -> bool:
        """Open a loss of the newest runs, which are not accepted."""
        before = watch.noise.level if before is None else before
        taken, rest = self.runs[-runs:], self.rest[-runs:]
        size = middle(rest) - before
        least = max(watch.smallest, size / 2)
        beyond = [run.place for run, each in zip(taken, rest, strict=True) if each - before > least]
        first = beyond[0] if beyond and kind is not LossKind.SLOW else taken[0].place
        self.loss = _Loss(kind, first, taken[-1].place, before, watch, taken, rest, rate, size, searched=runs)
        self._take(runs)
        return True

    def _level_is_worse(self, watch: _Watch, screen: float, beyond: float) -> bool:
        """Whether a group of the newest runs is worse. Only noise of so many runs that hold no loss screens them."""
        is_known = len(self.rest) > KNOWN_RUNS + UNLEARNT_RUNS
        sizes, usual = watch.sizes, watch.noise.level + screen * watch.smallest
        far = [rest > usual for rest in self.rest[-sizes[-1].runs :]]
        if sum(far) < SIZES[0].needed and len(self.rest) >= KNOWN_NOISE + sizes[-1].runs:
            return False
        for size in sizes:
            before = len(self.rest) - size.runs
            least = self.fewest if self.rule.siblings else YOUNG_RUNS if size.runs == YOUNG.runs else MIN_LEVEL_RUNS
            if before < (least if size.runs == YOUNG.runs else max(least, size.runs)):
                continue
            if before >= KNOWN_NOISE:
                found = sum(far[-size.runs :])
            else:
                found = self._beyond(middle(self.rest[:before]) + 0.9 * watch.floor.size, size.runs)
            if found < size.needed:
                continue
            if is_known:
                if beyond <= screen * min(watch.bounds.values()):
                    return False
                if self._beyond(watch.noise.level + screen * watch.bounds[size], size.runs) < size.needed:
                    continue
            old, baseline = self._watch_before(before)
            of = old.sizes[0] if old.is_young else size
            of_night = Counter(run.night for run in self.runs[-of.runs :])
            rate = self._rate(baseline, old, of, self.rest[-of.runs :], of_night)
            if rate is not None:
                old.noise = replace(old.noise, rhythm=watch.noise.rhythm)
                return self._open(LossKind.LEVEL, of.runs, old, rate=rate)
        return False

    def _beyond(self, least: float, runs: int) -> int:
        return sum([rest > least for rest in self.rest[-runs:]])

    def _rate(
        self, baseline: list[float], old: _Watch, size: Size, runs: list[float], of_night: Counter[int]
    ) -> float | None:
        """The probability that chance draws such runs from a baseline; None if they are no loss.

        `of_night`: how many of them are of each night.
        """
        new, noise = sorted(runs), old.noise
        # of runs that share a part of their distance, a mean has a greater variance than of independent ones
        shared = 1 + self.shared * (sum(count**2 for count in of_night.values()) / size.runs - 1)
        worst = new[size.runs - size.needed]
        local = 0.0
        if size.runs > SIZES[0].runs:
            local = max(neighbour_noise(self.rest[-12:]), spread_of(new, coarse=True))
        if worst - noise.level <= max(old.smallest, size.errors * noise.error(size.runs, local, shared)):
            return None
        if not old.judgeable and worst - middle(baseline[-5:]) <= JUMP * noise.near:
            return None
        alike = sum(worst - noise.spread <= each <= new[-1] + noise.spread for each in baseline)
        known = len(baseline) + noise.lent
        share = (alike + 0.5) / (known + 1)
        if len(of_night) < size.runs:
            # a night alone is never as rare as three: it has to be farther away than any run before
            needed = max(1, len(of_night) - (size.runs - size.needed))
            rate = _binomial_tail(needed, len(of_night), share)
            rate *= (self.shared + (1 - self.shared) * share) ** (size.needed - needed)
            return rate if worst - noise.level > (1 + self.shared) * (max(baseline) - noise.level) else None
        rate = _binomial_tail(size.needed, size.runs, share)
        young = max(1.0, BASELINE_RUNS / known)  # a small baseline cannot prove that such runs are rarer
        if (size.runs <= max(FEW, size.needed) or noise.modes) and rate > self.rule.p_value * young:
            return None
        return rate if _is_new(new, baseline, noise, size.runs) else None

    def _search_finds_a_change(self, watch: _Watch) -> bool:
        """Whether the search of whole series is certain of a worse level that the baseline has known before.

        Where levels follow each other for weeks, an older one widens the noise of the baseline, and no group is new.
        The newest 200 accepted runs are searched at most every second run, if six of the newest eight are worse. Levels
        change in fewer than .55 of the runs in which modes would.
        """
        place, near = self.runs[-1].place, watch.noise.near
        if place < self.searched + SEARCH_EVERY or len(self.rest) < SEARCHED_RUNS + MIN_LEVEL_RUNS:
            return False
        newest = sorted(self.rest[-SEARCHED_RUNS:])
        before = middle(self.rest[-3 * SEARCHED_RUNS : -SEARCHED_RUNS])
        if newest[2] - max(before, watch.noise.level) < max(watch.smallest, 1.5 * near):
            return False
        self.searched = place
        values = self.rest[-200:]
        steps = change_points(values, certainty=0.9)
        if not steps:
            return False
        step = steps[-1]
        runs = len(values) - step.index
        least = max(SEARCHED_RUNS - 2, self.rule.min_runs)
        if step.after - step.before <= watch.smallest or not least <= runs <= max(20, 2 * least):
            return False
        border = (step.before + step.after) / 2
        known = [value > border for value in values[: step.index]]
        worse = sum(rest > border for rest in newest)
        share = (sum(known) + 1) / (len(known) + 2)
        switches = sum(map(ne, known[1:], known)) / len(known)
        is_rare = _binomial_tail(worse, SEARCHED_RUNS, share) <= P_COUNT
        if not is_rare and switches > 0.55 * 2 * share * (1 - share):  # modes, not levels
            return False
        start = steps[-2].index if len(steps) > 1 else 0
        level = values[max(start, step.index - BASELINE_RUNS) : step.index]
        # what the search is certain of must not close by the noise that counts may have
        noise = replace(describe(level), rhythm=watch.noise.rhythm)
        return self._open(LossKind.LEVEL, runs, self._watch_of(noise, level))

    def _jumps(self, watch: _Watch) -> bool:
        """Whether three runs are far from the five before them, in the noise between neighbours."""
        runs = max(SIZES[0].runs, self.rule.min_runs)
        new, old = self.rest[-runs:], self.rest[-runs - 5 : -runs]
        if not old or len({run.night for run in self.runs[-runs:]}) < runs:
            return False
        before = middle(old)
        if min(new) - before <= max(JUMP * watch.noise.near, watch.smallest):
            return False
        near = replace(watch.noise, spread=2 * watch.noise.near)
        return self._open(LossKind.JUMP, runs, _Watch(near, self.rule, self.rule.measure), before)

    def _is_flaky(self, watch: _Watch) -> bool:
        """Whether novel runs come too often; of two modes, whether all runs have become worse."""
        for runs, needed in FLAKY:
            newest, before = self.novel[-runs:], len(self.novel) - runs
            if before < KNOWN_NOISE:
                return False
            found = sum(newest)
            if found < max(needed, self.rule.min_runs):
                continue
            old = zip(self.novel[:before][-300:], self.rest[:before][-300:], strict=True)
            known = sum(mark or watch.is_novel(each) for mark, each in old)
            if _binomial_tail(needed, runs, (known + 1) / (min(before, 300) + 1)) > P_COUNT:
                continue
            noise = watch.noise
            if noise.modes:
                worst = max(rest for rest, mark in zip(self.rest[-runs:], newest, strict=True) if mark)
                if worst > noise.modes.high + watch.novel or found >= 8:
                    return self._open(LossKind.MODES, runs, watch)
                continue
            episodes = sum(mark and not before for before, mark in zip([False, *newest], newest, strict=False))
            if watch.judgeable and episodes > 1 and episodes + 0.5 * (found - episodes) >= needed:
                first = self.runs[-runs:][newest.index(True)].place
                self.loss = _Loss(LossKind.FLAKY, first, self.runs[-1].place, noise.level, watch, [], [])
                return True
        return False

    def _mix_is_worse(self, watch: _Watch, modes: Modes) -> bool:
        """Whether more runs than chance gives are at the worse one of two modes."""
        if watch.noise.count < KNOWN_RUNS or self.rest[-1] < modes.between:
            return False
        worse = [rest > modes.between for rest in self.rest[-BASELINE_RUNS - 40 :]]
        for runs in (8, 10, 15, 20, 30, 40):
            old = worse[-BASELINE_RUNS - runs : -runs]
            if len(old) < KNOWN_RUNS or runs < self.rule.min_runs:
                continue
            usual = sum(old) / len(old)
            share = min(0.98, usual + 0.25 / math.sqrt(len(old)))
            found = sum(worse[-runs:])
            if (found / runs - share) * (modes.high - modes.low) < watch.smallest:
                continue
            memory = memory_of([each - usual for each in old], 1.0, errors=0.0)
            news = (1 - memory) / (1 + memory) if memory > 0.2 else 1.0
            if _binomial_tail(round(found * news), max(1, round(runs * news)), share) < P_COUNT:
                return self._open(LossKind.MIX, runs, watch)
        return False

    def _slowly_worse(self, watch: _Watch) -> bool:
        n = len(self.rest)
        if n < PLATEAU + 2 or n - self.since_better < PLATEAU or watch.noise.modes:
            return False
        self.best = min(self.best, sorted(self.rest[-PLATEAU:])[PLATEAU // 2])
        gap = sorted(self.rest[-TAIL:])[self.slow_place] - self.best
        if gap < watch.smallest * self.slow_floors:
            return False
        values = self.rest[-BASELINE_RUNS:]
        steps = steps_of(values)
        near = neighbour_noise(values) or deviation_of(list(map(abs, steps))) / math.sqrt(2)
        if gap <= 2.9 * near:
            return False
        slope = without_trend(values[-60:])
        spread = max(near, spread_of(values[-TAIL:], coarse=True))
        if n < PLATEAU + TAIL:  # both are of the same runs
            spread = max(spread, spread_of(slope, coarse=True))
        level = middle(slope)
        residual = [each - level for each in slope]  # a slope is no memory
        memory = max(memory_of(steps, neighbour_noise(steps) or spread), memory_of(residual, spread))
        error = MEDIAN_ERROR * spread * math.hypot(error_of_mean(TAIL, memory), error_of_mean(PLATEAU, memory))
        if gap <= 5.5 * error:
            return False
        watch = self._describe(self.runs[-1].place)
        return watch.judgeable and not watch.noise.modes and self._open(LossKind.SLOW, TAIL, watch, self.best)

    def _worse_again(self, loss: _Loss) -> None:
        runs = loss.runs[-60:]
        for size in (SIZES[0], Size(5, 4, SIZES[0].errors)):
            old, new = runs[: -size.runs], sorted(runs[-size.runs :])
            if len(old) < MIN_LEVEL_RUNS:
                return
            gap = new[-size.needed] - middle(old)
            if gap <= loss.watch.smallest or gap <= 3 * spread_of(old, coarse=True):
                continue
            noise = describe(old, counts=self.counts)
            noise = replace(noise, spread=max(noise.spread, loss.watch.noise.spread))
            of_night = Counter(run.night for run in loss.taken[-size.runs :])
            if self._rate(old, self._watch_of(noise, old), size._replace(errors=3.5), new, of_night) is not None:
                loss.again, loss.searched = loss.taken[-size.runs].place, size.runs
                loss.taken, loss.runs = loss.taken[-size.runs :], loss.runs[-size.runs :]
                return

    # a better level

    def _is_better(self, watch: _Watch) -> bool:
        n = len(self.rest) - BETTER.runs
        if n < MIN_LEVEL_RUNS or len(self.rest) - self.since_better < BETTER.runs:
            return False
        best = watch.noise.level - watch.smallest
        if sum(rest < best for rest in self.rest[-BETTER.runs :]) < BETTER.needed:
            return False
        old, baseline = self._watch_before(n)
        new = sorted(self.rest[-BETTER.runs :])
        gap = old.noise.level - new[BETTER.needed - 1]
        if gap <= max(old.smallest, BETTER.errors * old.noise.error(BETTER.runs, spread_of(new, coarse=True))):
            return False
        return _is_new([-each for each in new], [-each for each in baseline], old.noise, BETTER.runs)

    def _improve(self) -> None:
        """Keep the better level. The noise of the old one goes with it: so few runs show too little of it."""
        new = self.rest[-BETTER.runs :]
        after = middle(new)
        first = max(0, len(self.rest) - BETTER.runs - BASELINE_RUNS)
        before = middle(self.rest[first : -BETTER.runs])
        share = min(1.0, abs(after / before)) if before and after / before > 0 else 1.0
        for at in range(first, len(self.rest) - BETTER.runs):
            moved = after + (self.rest[at] - before) * share
            run = self.runs[at]
            self.runs[at] = run._replace(value=run.value + moved - self.rest[at])
            self.rest[at] = moved
        old = [at for at in range(len(self.rest) - BETTER.runs, len(self.rest)) if self.rest[at] > (before + after) / 2]
        for at in reversed(old):  # the last runs of the old level
            del self.runs[at], self.rest[at], self.novel[at]
        self.watches.clear()
        self.best, self.since_better = after, len(self.rest)
        self._describe(self.runs[-1].place)


def _follow_one(followers: list[_Follower], run: _Run) -> _Said:
    """What is said of a run. Where both directions are worse, a loss in one of them holds the other, too."""
    one = followers[0]
    if len(followers) == 1:
        if one.holds is None:
            return one.add(run)
        for each in one.hold(one.holds, run):
            one.accept(each)
        return one.said(run)
    turned = [run, run._replace(value=-run.value)]
    leading, loss = next(((place, each.holds) for place, each in enumerate(followers) if each.holds), (0, None))
    if loss is None:
        said = [follower.add(each) for follower, each in zip(followers, turned, strict=True)]
        for one, other in (followers, followers[::-1]):
            if one.holds is not None:
                other.forget(one.holds.taken[0].place)
        return next((each for each in said if each.kind), max(said, key=attrgetter("beyond")))
    for each in followers[leading].hold(loss, turned[leading]):
        for place, follower in enumerate(followers):
            follower.accept(each if place == leading else each._replace(value=-each.value))
    return followers[leading].said(turned[leading])


def _binomial_tail(least: int, count: int, share: float) -> float:
    return math.fsum(math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(least, count + 1))


def _is_new(new: Sequence[float], baseline: Sequence[float], noise: Noise, runs: int) -> bool:
    """Whether the baseline never was where a group is: a season or a bad week of the past is no new level."""
    if len(baseline) < 2 * runs + 6:
        return True
    groups = zip(*(baseline[start:] for start in range(runs)), strict=False)
    own = sorted(map(middle, groups))
    return middle(new) > quantile_of(own, 0.98) + 0.5 * noise.spread * error_of_mean(runs, noise.memory)
