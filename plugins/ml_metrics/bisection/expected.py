"""How many runs a search takes about, which is stated before any is started."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.bisection.search import CERTAIN
from ml_metrics.compare.arms import arms_of
from ml_metrics.compare.noise import block_noise
from ml_metrics.compare.plan import FEWEST_RUNS

if TYPE_CHECKING:
    from ml_metrics.bisection.search import Search

USUAL = 2.0
"""The change in noises that is assumed if nothing is known."""
LEAST, MOST = 0.05, 40.0
GRID = 2_001


def bits_of_a_run(change: float) -> float:
    """Return what one run tells in bits if the levels differ by `change` noises, and are equally likely."""
    places = np.linspace(-8.0, 8.0, GRID)
    weights = np.exp(-np.square(places) / 2)
    ratio = change**2 / 2 + change * places
    lost = np.logaddexp(0.0, -ratio) / math.log(2)
    return float(1 - np.sum(weights * lost) / np.sum(weights))


def expected_runs(candidates: int, change: float) -> int:
    """Return the runs that find one of the candidates, on average, after the ends are known to differ.

    A change that takes place needs log2(n) bits, and its certainty log2(1 / (1 - `CERTAIN`)) more, of which a run tells
    half the squared change, once one place is likely (Burnashev). Values of the levels are better known later on.
    """
    change = min(MOST, max(LEAST, change))
    certainty = -math.log(1 - CERTAIN) / (change**2 / 2)
    return math.ceil(math.log2(max(2, candidates - 1)) / bits_of_a_run(change) + max(1.0, certainty))


def expectation(search: Search) -> str:
    """Return a sentence about the runs that a search takes."""
    count = len(search.candidates)
    most = f"at most {search.max_runs} runs"
    if search.references_differ():
        change = change_in_noises(search)
        size = f"{change:.2g} times the noise" if change < MOST else "far larger than the noise"
        return f"about {expected_runs(count, change)} runs for {count:,} candidates, a change {size}; {most}"
    more = expected_runs(count, USUAL)
    return (
        f"{FEWEST_RUNS} runs or more of both ends, and about {more} for {count:,} candidates if the change is"
        f" {USUAL:g} times the noise; {most}"
    )


def change_in_noises(search: Search) -> float:
    """Return the change between the values of good and bad runs as a multiple of their noise."""
    arms = arms_of([(search.good, search.bad)])
    shift = abs(float(np.median(arms.candidate) - np.median(arms.base)))
    apart = [arms_of([(values, values)]) for values in (search.good, search.bad)]
    noise = max(block_noise(one) for one in apart)
    return min(MOST, shift / noise) if noise else MOST
