"""A slow loss is found at the run that reveals it, and not before."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from ml_metrics.judge.level import LevelRule, slow_loss

LESS = LevelRule(worse=1)
LEVEL_RUNS = 30


def drifting(seed: int, a_run: float, noise: float, memory: float = 0.0) -> np.ndarray:
    """A level of 100 that gets worse from its 30th run on."""
    random, values, last = Random(seed), [], 0.0
    for run in range(100):
        last = memory * last + math.sqrt(1 - memory**2) * random.gauss(0, 1)
        values.append(100 + noise * last + a_run * max(0, run - LEVEL_RUNS))
    return np.array(values)


def found(values: np.ndarray, rule: LevelRule = LESS) -> int | None:
    loss, _ = slow_loss(values, 0, len(values), math.inf, rule)
    return loss and loss.found


@pytest.mark.parametrize(
    ("a_run", "noise", "memory", "runs"),
    [
        (0.0, 2.0, 0.0, [None] * 6),
        (0.0, 2.0, 0.8, [None] * 6),
        (0.1, 0.5, 0.0, [80, 80, 80, 76, 80, 77]),
        (0.1, 1.0, 0.0, [80, 82, 80, 74, 73, 75]),
        (0.1, 2.0, 0.0, [None, None, 94, 87, 74, 85]),
        (0.2, 2.0, 0.0, [74, 65, 66, 66, 65, 67]),
        (0.2, 2.0, 0.6, [64, 65, 75, 75, 62, 58]),
        (0.3, 2.0, 0.0, [57, 64, 61, 66, 59, 57]),
    ],
)
def test_a_slope_is_found_once_it_stands_out_from_the_noise(
    a_run: float, noise: float, memory: float, runs: list[int | None]
) -> None:
    """Sooner would be a guess, and later would hide the loss. A slope is no memory, which would hide it."""
    assert [found(drifting(seed, a_run, noise, memory)) for seed in range(6)] == runs


@pytest.mark.parametrize(
    ("size", "least", "is_found"),
    [(4.24, 0, False), (4.25, 0, True), (4.3, 0, True), (4.3, 4.4, False), (4.4, 4.4, True)],
)
def test_a_loss_without_noise_has_a_least_size(size: float, least: float, is_found: bool) -> None:
    values = np.array([100.0] * 40 + [100 + size] * 40)
    assert (found(values, LevelRule(worse=1, min_change=least)) is not None) is is_found


def test_the_newest_runs_are_compared_with_the_best_plateau_until_then() -> None:
    """The 15 newest with the best 21 in a row. While three of the 15 are of the old level, they scatter too much."""
    values = np.array([110.0] * 30 + [100.0] * 21 + [120.0] * 20)
    loss, best = slow_loss(values, 0, len(values), math.inf, LESS)
    assert loss is not None
    assert (loss.found, loss.size, loss.before, loss.after, loss.slow) == (51 + 12, 15, 100, 120, True)
    assert best == 100
    assert slow_loss(values, 0, 51, math.inf, LESS) == (None, 100)
    assert slow_loss(values, 0, 50, 90.0, LESS)[1] == 90, "the best plateau may be that of earlier runs"


def test_two_runs_more_than_a_plateau_are_needed() -> None:
    values = np.array([100.0] * 23)
    assert slow_loss(values, 0, 23, math.inf, LESS) == (None, math.inf)
    assert slow_loss(np.append(values, 100.0), 0, 24, math.inf, LESS) == (None, 100)
