"""How sharply the two sides of a place differ."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from ml_metrics.judge.changepoints import SHARPEST, WEIGHTS, certainty_of, features


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


@pytest.mark.parametrize(
    ("series", "whole", "part"),
    [
        (
            noise(200) + step(200, 3),
            (2.3956, 2.9567, 4.0943, 3.358, 5.2983, 3.1458),
            (0.9631, 2.7681, 3.8501, 1.0997, 5.2983, 2.8609),
        ),
        (
            noise(30) + step(30, -2),
            (1.6662, 1.6662, 2.7081, 1.6094, 5.247, 1.6662),
            (-0.0561, -0.0561, 1.9459, 0.4605, 5.247, 0.5458),
        ),
        (
            noise(200) + 0.5 * np.arange(200) + step(200, 15),
            (3.9428, 4.096, 4.0943, 4.6151, 5.2983, 1.7391),
            (1.9326, 3.2283, 3.8501, 1.8803, 5.2983, 1.64),
        ),
        (
            noise(200) + 0.5 * np.arange(200),
            (0.2467, 1.2897, 4.0943, 0.2671, 5.2983, 1.4788),
            (0.6082, 0.2165, 3.8501, 0.4787, 5.2983, 1.3085),
        ),
        (
            noise(300, memory=0.99),
            (0.1245, -0.0942, 4.0943, 1.5278, 5.7038, -0.7357),
            (-1.0691, 0.304, 4.0943, 0.5661, 5.7038, 0.6187),
        ),
        (
            noise(1000) + step(1000, 1.5),
            (2.2345, 2.4415, 4.0943, 2.4714, 6.9078, 3.1094),
            (2.0574, 2.4276, 4.0943, 1.8803, 6.9078, 2.9699),
        ),
        (
            np.round(noise(200) / 2) + step(200, 1),
            (2.9444, 3.4844, 4.0943, 1.6677, 5.2983, 3.7645),
            (1.3875, 3.3899, 3.8501, 0.6633, 5.2983, 3.5352),
        ),
    ],
    ids=["a step", "a short series", "a step on a slope", "a slope", "a wandering level", "a long series", "ticks"],
)
def test_the_features_are_those_that_the_weights_were_fitted_on(
    series: np.ndarray, whole: tuple[float, ...], part: tuple[float, ...]
) -> None:
    """A changed feature needs new weights: these were fitted on the values below."""
    count = len(series)
    assert features(series, 0, count // 2, count) == pytest.approx(whole, abs=2e-4)
    left = 5 if count < 100 else count // 4
    assert features(series, left, count // 2 - 3, count - 5) == pytest.approx(part, abs=2e-4)
