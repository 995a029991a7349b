"""The noise of a comparison, and the repeats that it needs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ml_metrics.compare.arms import Arms, Values

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
    parts: list[Values] = []
    first = 0
    for end in arms.ends:
        block = arms.values[first:end]
        parts.append(np.abs(block - np.median(block)))
        first = end
    distances = np.concatenate(parts)
    usual = np.minimum(distances, CLIP * 1.4826 * float(np.median(distances))) if np.median(distances) else distances
    return float(np.sum(usual)) / max(1, len(distances) - len(arms.ends)) / NORMAL_MEAN_DEVIATION


def repeats_for(noise: float, effect: float) -> int:
    """Return the repeats in each arm that show a change of the effect, given the noise in the same unit."""
    return (
        min(MOST_REPEATS, math.ceil(RUNS_PER_SQUARE * (noise / effect) ** 2)) if noise < effect * 1e6 else MOST_REPEATS
    )
