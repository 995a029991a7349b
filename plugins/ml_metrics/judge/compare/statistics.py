"""Decides under noise whether one version is worse than another. `docs/compare.md` documents it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ml_metrics.judge.noise import (
    NOTICED_MEMORY,
    P50_OF_NORMAL,
    SMALL_BASELINE,
    border,
    error_of_mean,
    memory_of,
    spread_of_distances,
)

Values = NDArray[np.float64]
Ranks = NDArray[np.int64]
Block = tuple[Sequence[float], Sequence[float]]
"""The values of base and candidate in one block, each in the order of time."""
FEWEST_FOR_MEMORY, SHOWS_MEMORY = 14, 40
"""From so many values on, the interval allows for values that resemble the ones before if that is seen in them, and
from so many on, it is."""


@dataclass(frozen=True, eq=False)
class Arms:
    """The values of base and candidate as columns, block by block."""

    values: Values
    is_candidate: NDArray[np.bool_]
    ends: tuple[int, ...]
    """Where each block ends."""
    scale: Scale
    memory: float
    """The correlation of each value with the one before. In several blocks, runs were in turns, and it is 0."""

    @property
    def widening(self) -> float:
        """How much wider the noise of the levels is than independent values show."""
        return self.error_of_levels(self.memory) / self.error_of_levels(0.0) if self.memory else 1.0

    def error_of_levels(self, memory: float) -> float:
        """That of the difference of both means, in units of the noise."""
        return math.hypot(error_of_mean(len(self.base), memory), error_of_mean(len(self.candidate), memory))

    @cached_property
    def noise(self) -> float:
        """The standard deviation of one arm. Few values that resemble the ones before hide a part of it."""
        seen, count = _noise([self.base, self.candidate]), len(self.values)
        if not self.memory:
            return seen
        hidden = error_of_mean(count // 2, self.memory) ** 2
        return seen * (1 + SMALL_BASELINE / (count - 4)) / math.sqrt(1 - hidden)

    @cached_property
    def middle(self) -> float:
        """The median difference between a value of the candidate and one of the base in the same block."""
        differences = [
            np.subtract.outer(_thinned(block[is_candidate]), _thinned(block[~is_candidate])).ravel()
            for block, is_candidate in self.blocks
        ]
        return float(np.median(np.concatenate(differences)))

    @property
    def blocks(self) -> list[tuple[Values, NDArray[np.bool_]]]:
        """The values of each block, and which of them are the candidate's."""
        parts = pairwise((0, *self.ends))
        return [(self.values[first:end], self.is_candidate[first:end]) for first, end in parts]

    @property
    def base(self) -> Values:
        return self.values[~self.is_candidate]

    @property
    def candidate(self) -> Values:
        return self.values[self.is_candidate]


@dataclass(frozen=True, slots=True)
class Scale:
    """How values were scaled: by their logarithm if all have one sign, else by the level of the base."""

    sign: int
    """1 or -1: logarithms of values of that sign; 0: values divided by `unit`."""
    unit: float = 1.0
    in_percent: bool = True
    """Whether a shift can be stated in percent: not if the level of the base is 0."""

    def percent(self, shift: float) -> float:
        if not self.sign:
            return 100 * shift
        try:
            return 100 * self.sign * math.expm1(self.sign * shift)
        except OverflowError:
            return self.sign * math.inf

    def shift(self, percent: float) -> float:
        if not self.sign:
            return percent / 100
        share = 1 + self.sign * percent / 100
        return self.sign * math.log(share) if share > 0 else -self.sign * math.inf


def arms_of(blocks: Sequence[Block]) -> Arms:
    """The finite values of the blocks. A block without one of both arms shows no difference and is left out."""
    finite = [tuple([value for value in arm if math.isfinite(value)] for arm in block) for block in blocks]
    whole = [(base, candidate) for base, candidate in finite if base and candidate]
    values = np.asarray([value for base, candidate in whole for value in (*base, *candidate)], dtype=np.float64)
    is_candidate = np.asarray([arm for block in whole for arm in (0, 1) for _ in block[arm]], dtype=bool)
    ends = tuple(np.cumsum([len(base) + len(candidate) for base, candidate in whole]).tolist())
    scale, scaled = _scaled(values, values[~is_candidate])
    memory = 0.0
    if len(ends) == 1 and len(values) >= FEWEST_FOR_MEMORY:
        base, candidate = ((arm - np.median(arm)).tolist() for arm in (scaled[~is_candidate], scaled[is_candidate]))
        # between the arms, where no value is the one before of another, a value at the level says nothing
        deviations = [*base, 0.0, *candidate]
        memory = memory_of(deviations, spread_of_distances(sorted(map(abs, deviations))), most=0.95)
    return Arms(scaled, is_candidate, ends, scale, memory)


def _scaled(values: Values, base: Values) -> tuple[Scale, Values]:
    for sign in (1, -1):
        if len(values) and (sign * values > 0).all():
            return Scale(sign), sign * np.log(sign * values)
    largest = float(np.max(np.abs(values), initial=0.0)) or 1.0
    values, base = values / largest, base / largest
    level = abs(float(np.median(base))) if len(base) else 0.0
    # values of both signs have a level, in percent of which a change can be stated, if three in four have one sign
    if not level or level < 1e-9 or max(np.mean(base > 0), np.mean(base < 0)) < 0.75:
        return Scale(0, largest, in_percent=False), values
    return Scale(0, largest * level), values / level


RUNS_PER_SQUARE = 24.0
"""Repeats in each arm that find a change as large as the noise in 90 of 100 comparisons: 2 * (1.96 + 1.28)^2 for
means of normal noise, and more for ranks."""
MOST_REPEATS = 1_000_000


def noise_percent(arms: Arms) -> float | None:
    """The standard deviation of the values of one arm in percent of its level; None if it is unknown."""
    if not arms.scale.in_percent or len(arms.values) <= 2:
        return None
    return abs(arms.scale.percent(arms.noise))


def block_noise(arms: Arms) -> float:
    """On the scale of the arms. It does not tell the arms apart, so that a plan made from it favours no verdict."""
    return _noise([block for block, _ in arms.blocks])


def _noise(parts: Sequence[Values]) -> float:
    """From the mean distance from the median of each part, which needs fewer values than a percentile.

    A distance counts four noises at the most: one outlier is no reason for ten times the runs.
    """
    distances = np.concatenate([np.abs(part - np.median(part)) for part in parts])
    most = 4 / P50_OF_NORMAL * float(np.median(distances)) or np.inf
    return float(np.sum(np.minimum(distances, most))) / max(1, len(distances) - len(parts)) * math.sqrt(math.pi / 2)


def repeats_for(noise: float, effect: float) -> int:
    """The repeats in each arm that show a change of the effect, given the noise in the same unit."""
    if noise >= effect * 1e6:
        return MOST_REPEATS
    return min(MOST_REPEATS, math.ceil(RUNS_PER_SQUARE * (noise / effect) ** 2))


def needed_repeats(arms: Arms, effect: float) -> int:
    """The repeats in each arm that show a change of the effect, in percent, one arm after the other."""
    widening = math.sqrt((1 + arms.memory) / (1 - arms.memory))
    return repeats_for((noise_percent(arms) or 0.0) * widening, effect)


EXACT_STEPS = 4_000_000
"""The most steps that an exact distribution of a single block takes. Sums of more ranks are practically normal, as are
those of more than 24 runs in several blocks."""


def tail_probabilities(arms: Arms, shift: float) -> tuple[float, float]:
    """The probabilities of so high, and of so low values of the candidate, if it differs by the shift.

    Ranks do not say how far apart two arms are, so that levels are compared if values resemble the ones before.
    """
    if not arms.ends:
        return 1.0, 1.0
    if arms.memory > NOTICED_MEMORY:
        distance = (arms.middle - shift) / (arms.noise * arms.error_of_levels(arms.memory))
        return NormalDist().cdf(-distance), NormalDist().cdf(distance)
    return _tails(arms, _doubled_ranks(_aligned(arms, shift)))


def hides_memory(arms: Arms) -> bool:
    """Whether the values are too few to show how much they resemble the ones before, which makes differences."""
    return len(arms.ends) == 1 and len(arms.values) < SHOWS_MEMORY and arms.noise > 0


def _aligned(arms: Arms, shift: float) -> Values:
    """The values without the shift of the candidate, each block around its median."""
    values: Values = arms.values - shift * arms.is_candidate
    size = arms.ends[0]
    if len(arms.ends) == 1:
        return values
    if arms.ends == tuple(range(size, len(values) + 1, size)):  # the usual case: no run is missing
        rows = values.reshape(-1, size)
        return (rows - np.median(rows, axis=1, keepdims=True)).ravel()
    return np.concatenate([part - np.median(part) for part in np.split(values, arms.ends[:-1])])


def _doubled_ranks(values: Values) -> Ranks:
    """Twice the rank of each value, so that the ranks of ties are whole numbers, too."""
    values = np.round(values, 10)  # a shift must not tell equal values apart
    ordered = np.sort(values)
    first, last = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
    ranks: Ranks = first + last + 1
    return ranks


def _tails(arms: Arms, ranks: Ranks) -> tuple[float, float]:
    total = int(ranks[arms.is_candidate].sum())
    blocks = [(ranks[first:end], int(arms.is_candidate[first:end].sum())) for first, end in pairwise((0, *arms.ends))]
    count, candidates = len(arms.values), int(arms.is_candidate.sum())
    is_short = min(candidates, count - candidates) * count**3 <= EXACT_STEPS if len(blocks) == 1 else count <= 24
    if is_short:
        least, shares = 0, np.ones(1)
        for block, chosen in blocks:
            lowest, one = _sums(tuple(sorted(block.tolist())), chosen)
            least, shares = least + lowest, np.convolve(shares, one)
        place = total - least
        return min(1.0, float(shares[place:].sum())), min(1.0, float(shares[: place + 1].sum()))
    mean = sum(chosen * float(block.mean()) for block, chosen in blocks)
    variance = sum(chosen * (1 - chosen / len(block)) * float(block.var(ddof=1)) for block, chosen in blocks)
    if variance == 0:
        return 1.0, 1.0
    normal = NormalDist(mean, math.sqrt(variance))
    return normal.cdf(2 * mean - total + 1), normal.cdf(total + 1)


@lru_cache(maxsize=4096)
def _sums(ranks: tuple[int, ...], chosen: int) -> tuple[int, Values]:
    """The least sum of so many of the ranks, and the probability of each sum from it on."""
    if 2 * chosen > len(ranks):  # the sum of the others is what remains
        least, shares = _sums(ranks, len(ranks) - chosen)
        return sum(ranks) - least - (len(shares) - 1), shares[::-1]
    lowest, highest = sum(ranks[:chosen]), sum(ranks[len(ranks) - chosen :])
    ways = np.zeros((chosen + 1, highest + 1))
    ways[0, 0] = 1
    for rank in ranks:
        if rank <= highest:
            ways[1:, rank:] += ways[:-1, : highest + 1 - rank].copy()
    shares = ways[chosen, lowest:]
    return lowest, shares / shares.sum()


LEVEL = 0.05
FIRST = 3
"""Blocks before the first look: two blocks of four have 36 orders, too few for any level below 0.05."""


@lru_cache(maxsize=256)
def looks(horizon: int) -> dict[int, float]:
    """The numbers of blocks at which is looked, each with its two-sided level. More looks would save few runs."""
    places = sorted({FIRST, *(max(FIRST, math.ceil(horizon * look / 8)) for look in range(1, 9))})
    return dict(zip(places, _levels([place / places[-1] for place in places]), strict=True))


def _levels(shares: list[float]) -> list[float]:
    levels: list[float] = []
    first = shares[0]
    # the first look: enough for a change that is large compared with the noise, whatever the plan
    start = max(0.01, LEVEL * first)
    grid, density = np.zeros(1), np.ones(1)
    before, spent = 0.0, 0.0
    for share in shares:
        deviation = math.sqrt(share - before)
        target = start + (LEVEL - start) * ((share - first) / (1 - first) if first < 1 else 1.0) - spent
        bound = _bound(grid, density, deviation, target)
        levels.append(2 * NormalDist().cdf(-bound / math.sqrt(share)))
        spent += target
        following = np.linspace(-bound, bound, 401)
        step = following[1] - following[0]
        steps = np.exp(-(((following[:, None] - grid) / deviation) ** 2) / 2) / (deviation * math.sqrt(2 * math.pi))
        density = steps @ density * step
        density[[0, -1]] /= 2  # the trapezoidal rule
        grid, before = following, share
    return levels


def _bound(grid: Values, density: Values, deviation: float, target: float) -> float:
    """The bound that the motion crosses on either side with a probability."""
    places = list(zip(grid.tolist(), density.tolist(), strict=True))
    width = deviation * math.sqrt(2)

    def is_rarer(bound: float) -> bool:
        crossing: float = sum(weight * math.erfc((bound - place) / width) for place, weight in places)
        return crossing <= target

    return sum(border(0.0, 8.0, is_rarer, 50)) / 2


MOST_PAIRED = 1_000


class Shift(StrEnum):
    """What the values show, whichever direction is better."""

    HIGHER = "higher"
    LOWER = "lower"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Found:
    """What the values of both arms show at one level."""

    shift: Shift
    certainty: float | None = None
    """The greatest confidence at which the interval would still show it; None where it is undecided."""


def decide(arms: Arms, effect: float, level: float) -> Found:
    """What the values show.

    An interval of the confidence 1 - `level` decides, without being computed: a shift that it excludes has a
    probability below `level` on one of both sides. `effect`: the smallest change that matters, in percent.
    """
    if not arms.ends:
        return Found(Shift.UNDECIDED)
    high, low = tail_probabilities(arms, 0.0)
    within = _within(arms, effect)
    if within <= level:
        return Found(Shift.EQUIVALENT, 1 - within)
    if 2 * min(high, low) <= level:
        return Found(Shift.HIGHER if high < low else Shift.LOWER, 1 - 2 * min(high, low))
    return Found(Shift.UNDECIDED)


def interval(arms: Arms, level: float) -> tuple[float, float, float] | None:
    """The shift and the ends of its interval on the scale of the arms; None if the arms are too few for one."""
    if not arms.ends:
        return None
    middle, reach = arms.middle, float(np.ptp(arms.values))
    far = 2 * reach + abs(middle) + 1

    def is_excluded(shift: float) -> bool:
        return 2 * min(tail_probabilities(arms, shift)) <= level

    ends = []
    for way in (-1, 1):
        if not is_excluded(middle + way * far):
            return None
        ends.append(border(middle, middle + way * far, is_excluded, 32)[0])
    return middle, ends[0], ends[1]


def _within(arms: Arms, effect: float) -> float:
    """Twice the greater of the probabilities of the values if the change were the effect up, or down."""
    if not arms.scale.in_percent:
        # a metric that is always 0, from which any other value differs
        return 1.0 if np.ptp(arms.values) else 2 * tail_probabilities(arms, 1.0)[1]
    upper, lower = arms.scale.shift(effect), arms.scale.shift(-effect)
    above = tail_probabilities(arms, upper)[1] if math.isfinite(upper) else 0.0
    below = tail_probabilities(arms, lower)[0] if math.isfinite(lower) else 0.0
    return 2 * max(above, below)


def _thinned(values: Values) -> Values:
    """The values, or as many of their quantiles as can be paired with as many others."""
    if len(values) <= MOST_PAIRED:
        return values
    thinned: Values = np.quantile(values, (np.arange(MOST_PAIRED) + 0.5) / MOST_PAIRED)
    return thinned
