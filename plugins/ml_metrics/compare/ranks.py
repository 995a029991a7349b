"""The rank test behind every comparison: how likely the arms are, if the candidate only differs by a given shift.

The values of each block are aligned at their median and ranked together. If the candidate differs by the shift alone,
every order of a block's runs was equally likely, whatever the noise: the probability is the share of orders in which
the candidate has ranks at least as high. It is exact for few runs, ties included, and uses the normal distribution with
the exact variance for many. With a single block it is the test of Mann and Whitney.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ml_metrics.compare.arms import Arms, Values

    Ranks = NDArray[np.int64]

EXACT_RUNS = 24
"""With more runs in several blocks, sums of ranks are practically normal."""
EXACT_STEPS = 4_000_000
"""The same for a single block, as the steps that the exact distribution takes."""
FEWEST_FOR_MEMORY = 12
"""With fewer values, it cannot be seen that values resemble the ones before."""
NOTICED = 1.3
"""Correlations up to this many standard errors are taken for chance."""
MAX_MEMORY = 0.9
CLIP = 3.0
DIGITS = 10
"""Digits after the point on the scale of the arms, where 0.01 is a change of 1 %."""


def tail_probabilities(arms: Arms, shift: float, widening: float = 1.0) -> tuple[float, float]:
    """Return the probabilities of so high, and of so low values of the candidate, if it differs by the shift.

    `widening`: how much wider the noise of a level is than independent values show.
    """
    if not arms.ends:
        return 1.0, 1.0
    ranks = _doubled_ranks(_aligned(arms, shift))
    high, low = _tails(arms, ranks)
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
        most = CLIP * 1.4826 * float(np.median(np.abs(deviations)))
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
    return np.concatenate(
        [values[first:end] - np.median(values[first:end]) for first, end in pairwise((0, *arms.ends))]
    )


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
