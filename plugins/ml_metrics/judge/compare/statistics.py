"""Decides under noise whether one version is worse than another. `docs/compare.md` documents it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.judge.noise import P50_OF_NORMAL, border

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Ranks = NDArray[np.int64]
    Block = tuple[Sequence[float], Sequence[float]]
    """The values of base and candidate in one block, each in the order of time."""

NEGLIGIBLE = 1e-9
"""A level that is this small a share of the largest value counts as zero."""
CLEAR_SHARE = 0.75
"""Values of both signs have a level in percent of which a change can be stated if this share of them has one sign."""


@dataclass(frozen=True, slots=True, eq=False)
class Arms:
    """The values of base and candidate as columns, block by block."""

    values: Values
    is_candidate: NDArray[np.bool_]
    ends: tuple[int, ...]
    """Where each block ends."""
    scale: Scale

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
    """Return the finite values of the blocks. A block without one of both arms shows no difference and is left out."""
    finite = [tuple([value for value in arm if math.isfinite(value)] for arm in block) for block in blocks]
    whole = [(base, candidate) for base, candidate in finite if base and candidate]
    values = np.asarray([value for base, candidate in whole for value in (*base, *candidate)], dtype=np.float64)
    is_candidate = np.asarray([arm for block in whole for arm in (0, 1) for _ in block[arm]], dtype=bool)
    ends = tuple(np.cumsum([len(base) + len(candidate) for base, candidate in whole]).tolist())
    scale, scaled = _scaled(values, values[~is_candidate])
    return Arms(scaled, is_candidate, ends, scale)


def _scaled(values: Values, base: Values) -> tuple[Scale, Values]:
    for sign in (1, -1):
        if len(values) and (sign * values > 0).all():
            return Scale(sign), sign * np.log(sign * values)
    largest = float(np.max(np.abs(values), initial=0.0)) or 1.0
    values, base = values / largest, base / largest
    level = abs(float(np.median(base))) if len(base) else 0.0
    if not level or level < NEGLIGIBLE or max(np.mean(base > 0), np.mean(base < 0)) < CLEAR_SHARE:
        return Scale(0, largest, in_percent=False), values
    return Scale(0, largest * level), values / level


RUNS_PER_SQUARE = 24.0
"""Repeats in each arm that find a change as large as the noise in 90 of 100 comparisons: 2 * (1.96 + 1.28)^2 for
means of normal noise, and more for ranks."""
NORMAL_MEAN_DEVIATION = math.sqrt(2 / math.pi)
CLIP = 4.0
"""How many noises a distance counts at the most: one outlier is no reason for ten times the runs."""
MOST_REPEATS = 1_000_000


def noise_percent(arms: Arms) -> float | None:
    """Return the standard deviation of the values of one arm in percent of its level; None if the level is 0.

    It is computed from the mean distance from the median, which one outlier cannot make as large as it likes.
    """
    distance, freedom = 0.0, 0
    for arm in (arms.base, arms.candidate):
        distance += float(np.sum(np.abs(arm - np.median(arm))))
        freedom += len(arm) - 1
    if not arms.scale.in_percent or not freedom:
        return None
    return abs(arms.scale.percent(distance / freedom / NORMAL_MEAN_DEVIATION))


def block_noise(arms: Arms) -> float:
    """Return the same from the distances within blocks, on the scale of the arms.

    It does not depend on which runs of a block are the candidate's, so that a plan made from it favours no verdict.
    """
    distances = np.concatenate([np.abs(block - np.median(block)) for block, _ in arms.blocks])
    most = CLIP / P50_OF_NORMAL * float(np.median(distances)) or np.inf
    usual = np.minimum(distances, most)
    return float(np.sum(usual)) / max(1, len(distances) - len(arms.ends)) / NORMAL_MEAN_DEVIATION


def repeats_for(noise: float, effect: float) -> int:
    """Return the repeats in each arm that show a change of the effect, given the noise in the same unit."""
    if noise >= effect * 1e6:
        return MOST_REPEATS
    return min(MOST_REPEATS, math.ceil(RUNS_PER_SQUARE * (noise / effect) ** 2))


EXACT_RUNS = 24
"""With more runs in several blocks, sums of ranks are practically normal."""
EXACT_STEPS = 4_000_000
"""The same for a single block, as the steps that the exact distribution takes."""
FEWEST_FOR_MEMORY = 12
"""With fewer values, it cannot be seen that values resemble the ones before."""
NOTICED = 1.3
"""Correlations up to this many standard errors are taken for chance."""
MAX_MEMORY = 0.9
RANK_CLIP = 3.0
DIGITS = 10
"""Digits after the point on the scale of the arms, where 0.01 is a change of 1 %."""


def tail_probabilities(arms: Arms, shift: float, widening: float = 1.0) -> tuple[float, float]:
    """Return the probabilities of so high, and of so low values of the candidate, if it differs by the shift.

    `widening`: how much wider the noise of a level is than independent values show.
    """
    if not arms.ends:
        return 1.0, 1.0
    high, low = _tails(arms, _doubled_ranks(_aligned(arms, shift)))
    return (high, low) if widening == 1 else (_widened(high, widening), _widened(low, widening))


def widening_of(arms: Arms) -> float:
    """Return how much wider the noise of the levels is because values resemble the ones before.

    Blocks need none: their runs were measured in turns.
    """
    if len(arms.ends) > 1:
        return 1.0
    products = squares = 0.0
    pairs = 0
    for arm in (arms.base, arms.candidate):
        deviations = arm - np.median(arm)
        most = RANK_CLIP / P50_OF_NORMAL * float(np.median(np.abs(deviations)))
        deviations = np.clip(deviations, -most, most)
        products += float(np.sum(deviations[1:] * deviations[:-1]))
        squares += float(np.sum(np.square(deviations)))
        pairs += max(0, len(arm) - 1)
    if pairs < FEWEST_FOR_MEMORY or squares == 0:
        return 1.0
    memory = products / squares + 1 / pairs
    if memory <= NOTICED / math.sqrt(pairs):
        return 1.0
    memory = min(memory + 3 * memory / pairs + 0.5 / math.sqrt(pairs), MAX_MEMORY)
    return math.sqrt((1 + memory) / (1 - memory))


def _aligned(arms: Arms, shift: float) -> Values:
    """Return the values without the shift of the candidate, each block around its median."""
    values: Values = arms.values - shift * arms.is_candidate
    size = arms.ends[0]
    if len(arms.ends) == 1:
        return values
    if arms.ends == tuple(range(size, len(values) + 1, size)):  # the usual case: no run is missing
        rows = values.reshape(-1, size)
        return (rows - np.median(rows, axis=1, keepdims=True)).ravel()
    return np.concatenate([part - np.median(part) for part in np.split(values, arms.ends[:-1])])


def _doubled_ranks(values: Values) -> Ranks:
    """Return twice the rank of each value, so that the ranks of ties are whole numbers, too."""
    values = np.round(values, DIGITS)  # a shift must not tell equal values apart
    ordered = np.sort(values)
    first, last = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
    ranks: Ranks = first + last + 1
    return ranks


def _tails(arms: Arms, ranks: Ranks) -> tuple[float, float]:
    total = int(ranks[arms.is_candidate].sum())
    if _is_exact(arms):
        least, shares = 0, np.ones(1)
        for first, end in pairwise((0, *arms.ends)):
            chosen = int(arms.is_candidate[first:end].sum())
            lowest, one = _sums(tuple(sorted(ranks[first:end].tolist())), chosen)
            least, shares = least + lowest, np.convolve(shares, one)
        place = total - least
        return min(1.0, float(shares[place:].sum())), min(1.0, float(shares[: place + 1].sum()))
    mean = variance = 0.0
    for first, end in pairwise((0, *arms.ends)):
        block, size = ranks[first:end], end - first
        chosen = int(arms.is_candidate[first:end].sum())
        mean += chosen * float(block.mean())
        variance += chosen * (size - chosen) / size * float(block.var(ddof=1))
    if variance == 0:
        return 1.0, 1.0
    normal, deviation = NormalDist(), math.sqrt(variance)
    return normal.cdf((mean + 1 - total) / deviation), normal.cdf((total + 1 - mean) / deviation)


def _is_exact(arms: Arms) -> bool:
    count = len(arms.values)
    if len(arms.ends) > 1:
        return count <= EXACT_RUNS
    smaller = min(int(arms.is_candidate.sum()), int((~arms.is_candidate).sum()))
    return smaller * count**3 <= EXACT_STEPS


@lru_cache(maxsize=4096)
def _sums(ranks: tuple[int, ...], chosen: int) -> tuple[int, Values]:
    """Return the least sum of so many of the ranks, and the probability of each sum from it on."""
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


def _widened(probability: float, widening: float) -> float:
    if not 0 < probability < 0.5:  # noqa: PLR2004  (a tail)
        return probability
    return NormalDist().cdf(NormalDist().inv_cdf(probability) / widening)


LEVEL = 0.05
FIRST_LEVEL = 0.01
"""What the first look spends: enough for a change that is large compared with the noise, whatever the plan."""
LOOKS = 8
"""Looks at the most: more would cost level and save few runs."""
FIRST = 3
"""Blocks before the first look: two blocks of four have 36 orders, too few for any level below 0.05."""
GRID = 401
WIDEST = 8.0


@lru_cache(maxsize=256)
def looks(horizon: int) -> dict[int, float]:
    """Return the numbers of blocks at which is looked, each with its two-sided level."""
    places = sorted({FIRST, *(max(FIRST, math.ceil(horizon * look / LOOKS)) for look in range(1, LOOKS + 1))})
    return dict(zip(places, _levels([place / places[-1] for place in places]), strict=True))


def _levels(shares: list[float]) -> list[float]:
    levels: list[float] = []
    grid, density = np.zeros(1), np.ones(1)
    before, spent = 0.0, 0.0
    for share in shares:
        deviation = math.sqrt(share - before)
        target = _spent(share, shares[0]) - spent
        bound = _bound(grid, density, deviation, target)
        levels.append(2 * NormalDist().cdf(-bound / math.sqrt(share)))
        spent += target
        following = np.linspace(-bound, bound, GRID)
        step = following[1] - following[0]
        steps = np.exp(-(((following[:, None] - grid) / deviation) ** 2) / 2) / (deviation * math.sqrt(2 * math.pi))
        density = steps @ density * step
        density[[0, -1]] /= 2  # the trapezoidal rule
        grid, before = following, share
    return levels


def _spent(share: float, first: float) -> float:
    if first == 1:
        return LEVEL
    start = max(FIRST_LEVEL, LEVEL * first)
    return start + (LEVEL - start) * (share - first) / (1 - first)


def _bound(grid: Values, density: Values, deviation: float, target: float) -> float:
    """Return the bound that the motion crosses on either side with a probability."""
    places = list(zip(grid.tolist(), density.tolist(), strict=True))
    width = deviation * math.sqrt(2)

    def is_rarer(bound: float) -> bool:
        crossing: float = sum(weight * math.erfc((bound - place) / width) for place, weight in places)
        return crossing <= target

    return sum(border(0.0, WIDEST, is_rarer, 50)) / 2


HALVINGS = 32
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
    """Return what the values show.

    An interval of the confidence 1 - `level` decides, without being computed: a shift that it excludes has a
    probability below `level` on one of both sides. `effect`: the smallest change that matters, in percent.
    """
    if not arms.ends:
        return Found(Shift.UNDECIDED)
    widening = widening_of(arms)
    high, low = tail_probabilities(arms, 0.0, widening)
    within = _within(arms, effect, widening)
    if within <= level:
        return Found(Shift.EQUIVALENT, 1 - within)
    if 2 * min(high, low) <= level:
        return Found(Shift.HIGHER if high < low else Shift.LOWER, 1 - 2 * min(high, low))
    return Found(Shift.UNDECIDED)


def interval(arms: Arms, level: float) -> tuple[float, float, float] | None:
    """Return the shift and the ends of its interval on the scale of the arms; None if the arms are too few for one."""
    if not arms.ends:
        return None
    widening = widening_of(arms)
    middle, reach = _middle(arms), float(np.ptp(arms.values))
    far = 2 * reach + abs(middle) + 1

    def is_excluded(shift: float) -> bool:
        return 2 * min(tail_probabilities(arms, shift, widening)) <= level

    ends = []
    for way in (-1, 1):
        if not is_excluded(middle + way * far):
            return None
        ends.append(border(middle, middle + way * far, is_excluded, HALVINGS)[0])
    return middle, ends[0], ends[1]


def _within(arms: Arms, effect: float, widening: float) -> float:
    """Return twice the greater of the probabilities of the values if the change were the effect up, or down."""
    if not arms.scale.in_percent:
        # a metric that is always 0, from which any other value differs
        return 1.0 if np.ptp(arms.values) else 2 * tail_probabilities(arms, 1.0)[1]
    upper, lower = arms.scale.shift(effect), arms.scale.shift(-effect)
    above = tail_probabilities(arms, upper, widening)[1] if math.isfinite(upper) else 0.0
    below = tail_probabilities(arms, lower, widening)[0] if math.isfinite(lower) else 0.0
    return 2 * max(above, below)


def _middle(arms: Arms) -> float:
    """Return the median difference between a value of the candidate and one of the base in the same block."""
    differences = [
        np.subtract.outer(_thinned(block[is_candidate]), _thinned(block[~is_candidate])).ravel()
        for block, is_candidate in arms.blocks
    ]
    return float(np.median(np.concatenate(differences)))


def _thinned(values: Values) -> Values:
    """Return the values, or as many of their quantiles as can be paired with as many others."""
    if len(values) <= MOST_PAIRED:
        return values
    thinned: Values = np.quantile(values, (np.arange(MOST_PAIRED) + 0.5) / MOST_PAIRED)
    return thinned
