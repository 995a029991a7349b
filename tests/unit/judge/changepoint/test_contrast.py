"""How sharply the two sides of a place differ."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from ml_metrics.judge.changepoint.contrast import SHARPEST, WEIGHTS, certainty_of, features


def noise(count: int, seed: int = 0, memory: float = 0.0) -> np.ndarray:
    random, values = Random(seed), [0.0]
    for _ in range(count):
        values.append(memory * values[-1] + random.gauss(0, 1))
    return np.array(values[1:])


def step(count: int, size: float) -> np.ndarray:
    return size * (np.arange(count) >= count // 2)


def near_far_and_order(series: np.ndarray) -> tuple[float, float, float]:
    near, far, _, order, *_ = features(series, 0, len(series) // 2, len(series))
    return math.exp(near) - 0.1, math.exp(far) - 0.1, order


def certainty(series: np.ndarray) -> float:
    return certainty_of(features(series, 0, len(series) // 2, len(series)), WEIGHTS)


@pytest.mark.parametrize("size", [2, 3, -3, 5])
def test_the_contrast_is_the_difference_of_the_levels_in_standard_errors(size: float) -> None:
    near, far, _ = near_far_and_order(noise(200) + step(200, size))
    assert near == pytest.approx(abs(size) / math.sqrt(2 / 24), rel=0.5)
    assert far == pytest.approx(abs(size) / math.sqrt(2 / 60), rel=0.5)


def test_a_larger_step_is_more_certain_and_no_step_is_not() -> None:
    found = [certainty(noise(200) + step(200, size)) for size in (0, 1, 2, 4, 8)]
    assert found == sorted(found)
    assert found[0] < 0.05
    assert found[-1] > 0.95


def test_sides_that_do_not_overlap_are_ordered() -> None:
    ordered, mixed = (near_far_and_order(noise(200) + step(200, size))[2] for size in (20, 0))
    assert ordered == pytest.approx(math.log(101))
    assert abs(mixed) < 1


def test_a_slope_is_no_contrast_unless_there_is_a_step_on_it() -> None:
    slope = 0.5 * np.arange(200)
    assert certainty(noise(200) + slope) < 0.1
    assert certainty(noise(200) + slope + step(200, 15)) > 0.8


def test_noise_that_remembers_counts_as_fewer_values() -> None:
    remembering = [near_far_and_order(noise(200, seed, memory=0.7) + step(200, 5))[1] for seed in range(10)]
    plain = [near_far_and_order(noise(200, seed) * 1.4 + step(200, 5))[1] for seed in range(10)]
    assert sum(remembering) < sum(plain) / 1.5


def test_a_step_without_noise_has_the_sharpest_contrast() -> None:
    near, far, order = near_far_and_order(step(20, 1e-6))
    assert near == far == pytest.approx(SHARPEST)
    assert order == pytest.approx(math.log(101))


@pytest.mark.parametrize("total", [-700.0, -30.0, 0.0, 30.0, 700.0])
def test_a_certainty_lies_between_none_and_one(total: float) -> None:
    assert 0 <= certainty_of((total,), (0.0, 1.0)) <= 1
