"""Whether a candidate is worse than its base, better, equivalent, or whether that is undecided."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.compare.ranks import tail_probabilities, widening_of

if TYPE_CHECKING:
    from ml_metrics.compare.arms import Arms, Values

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
    probability below `level` on one of both sides.

    Args:
        arms: the values.
        effect: the smallest change that matters, in percent.
        level: the share of comparisons of equal arms in which a difference may be found.
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
    ends = []
    for way in (-1, 1):
        outside, inside = middle + way * far, middle
        if not _is_excluded(arms, outside, level, widening):
            return None
        for _ in range(HALVINGS):
            between = (outside + inside) / 2
            if _is_excluded(arms, between, level, widening):
                outside = between
            else:
                inside = between
        ends.append(inside)
    return middle, ends[0], ends[1]


def _within(arms: Arms, effect: float, widening: float) -> float:
    """Return twice the greater of the probabilities of the values if the change were the effect up, or down."""
    if not arms.scale.in_percent:
        return 1.0 if np.ptp(arms.values) else _of_constant(arms)
    upper, lower = arms.scale.shift(effect), arms.scale.shift(-effect)
    above = tail_probabilities(arms, upper, widening)[1] if math.isfinite(upper) else 0.0
    below = tail_probabilities(arms, lower, widening)[0] if math.isfinite(lower) else 0.0
    return 2 * max(above, below)


def _of_constant(arms: Arms) -> float:
    """Return the same for a metric that is always 0, from which any other value differs."""
    return 2 * tail_probabilities(arms, 1.0)[1]


def _is_excluded(arms: Arms, shift: float, level: float, widening: float) -> bool:
    return 2 * min(tail_probabilities(arms, shift, widening)) <= level


def _middle(arms: Arms) -> float:
    """Return the median difference between a value of the candidate and one of the base in the same block."""
    first, differences = 0, []
    for end in arms.ends:
        block, is_candidate = arms.values[first:end], arms.is_candidate[first:end]
        candidate, base = _thinned(block[is_candidate]), _thinned(block[~is_candidate])
        differences.append(np.subtract.outer(candidate, base).ravel())
        first = end
    return float(np.median(np.concatenate(differences)))


def _thinned(values: Values) -> Values:
    """Return the values, or as many of their quantiles as can be paired with as many others."""
    if len(values) <= MOST_PAIRED:
        return values
    thinned: Values = np.quantile(values, (np.arange(MOST_PAIRED) + 0.5) / MOST_PAIRED)
    return thinned
