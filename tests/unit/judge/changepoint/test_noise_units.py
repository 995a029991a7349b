"""Series in units of their own noise."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from ml_metrics.judge.changepoints import CLIP, WIDE, in_noise_units, noise_of


def normal(count: int, seed: int = 0) -> list[float]:
    random = Random(seed)
    return [random.gauss(0, 1) for _ in range(count)]


def units(values: list[float]) -> np.ndarray:
    found = in_noise_units(np.array(values))
    assert found is not None
    return found


@pytest.mark.parametrize("values", [[], [1.0] * 9, [2.0] * 50, [float(run) for run in range(50)]])
def test_too_few_values_a_constant_and_a_line_have_no_noise(values: list[float]) -> None:
    assert in_noise_units(np.array(values)) is None


def test_the_noise_is_that_of_neighbours() -> None:
    values = np.array(normal(1000))
    assert noise_of(values) == pytest.approx(1, rel=0.1)
    assert noise_of(values + 50 * (np.arange(1000) > 300)) == pytest.approx(1, rel=0.1)
    assert noise_of(values + np.arange(1000)) == pytest.approx(1, rel=0.1)


def test_where_most_neighbours_are_equal_the_smaller_changes_are_the_noise() -> None:
    quantised = np.array([float(draw > 0.9) for draw in map(abs, normal(1000))])
    assert 0.2 < noise_of(quantised) < 1
    steps = np.array([0.0] * 30 + [1.0] * 30 + [1e9] * 30)
    assert 0.05 < noise_of(steps) < 0.5


def test_outliers_are_clipped() -> None:
    values = normal(100)
    values[0], values[50], values[51] = 1e300, -1e9, -1e9
    found = units(values)
    assert np.max(np.abs(found)) < 3 + CLIP


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1.0, 1e200, 1e306])
def test_values_of_any_magnitude_have_the_same_units(scale: float) -> None:
    assert units([value * scale for value in normal(100)]) == pytest.approx(units(normal(100)), abs=1e-6)


def test_a_level_that_wanders_has_its_wandering_as_noise() -> None:
    random_walk = list(np.cumsum(normal(500)))
    assert np.std(units(random_walk)) < np.std(random_walk) / noise_of(np.array(random_walk)) / 3
    waves = [20 * math.sin(run / 8) + value for run, value in enumerate(normal(500))]
    assert np.max(np.abs(units(waves))) < 2


def test_wide_gaps_are_narrowed_so_that_sums_stay_exact() -> None:
    found = units([value + 1e12 * (run >= 50) for run, value in enumerate(normal(100))])
    assert WIDE < found.max() - found.min() < WIDE + 20
