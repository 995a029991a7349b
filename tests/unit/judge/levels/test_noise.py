"""The noise around a level, by hand and by brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ml_metrics.judge.level import (
    baselines_before,
    error_of_mean,
    errors_of_shifts,
    levels_before,
    memory_of,
    neighbour_noise,
    spreads,
)

RANDOM = np.random.default_rng(11)
LONG = 100 + RANDOM.normal(size=130)


@pytest.mark.parametrize("count", [1, 2, 3, 15, 100])
@pytest.mark.parametrize("memory", [0.0, 0.3, 0.85])
def test_the_error_of_a_mean_is_that_of_neighbours_that_remember(count: int, memory: float) -> None:
    """The mean of n values has the variance of all pairs of them."""
    pairs = memory ** np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    assert float(error_of_mean(count, memory)) == pytest.approx(math.sqrt(pairs.sum()) / count)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([5.0] * 10, 0),
        ([0.0, 10.0], 5 / 0.9945),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 2 / 1.2816),
        ([0.0] * 8 + [9.0] * 2, 1.8 / 1.2816),  # a second mode of a fifth
        ([0.0] * 9 + [9.0], 0),  # an outlier
        ([0.0] * 4 + [1.0] * 3 + [-1.0] * 3, 1 / 0.9945),  # a rounding unit makes the median as large as the rest
    ],
)
def test_the_spread_is_robust(row: list[float], expected: float) -> None:
    assert spreads(np.array([row])).tolist() == [pytest.approx(expected)]


def test_the_spread_of_normal_noise_is_its_deviation() -> None:
    rows = np.random.default_rng(3).normal(size=(200, 400))
    assert float(np.median(spreads(rows))) == pytest.approx(1.02, abs=0.02)


@pytest.mark.parametrize("end", [1, 2, 7, 100, 101, 130])
def test_a_baseline_is_made_of_the_newest_hundred_values_before_an_index(end: int) -> None:
    old = baselines_before(LONG, np.array([end]))
    values = LONG[max(0, end - 100) : end]
    assert old.count.tolist() == [len(values)]
    assert old.level.tolist() == [pytest.approx(float(np.median(values)))]
    assert old.spread.tolist() == [pytest.approx(float(spreads(values[None])[0]))]
    assert levels_before(LONG, end, end + 1)[end] == pytest.approx(float(np.median(values)))


def test_levels_are_known_at_the_asked_indexes_only() -> None:
    assert np.flatnonzero(~np.isnan(levels_before(LONG, 5, 9))).tolist() == [5, 6, 7, 8]


def test_each_baseline_is_that_of_its_index_alone() -> None:
    many = baselines_before(LONG, np.array([3, 40, 130]))
    for index, end in enumerate((3, 40, 130)):
        one, alone = many.one(index), baselines_before(LONG, np.array([end]))
        for name in ("count", "level", "spread", "memory"):
            assert getattr(one, name).tolist() == pytest.approx(getattr(alone, name).tolist())


@pytest.mark.parametrize(
    ("residuals", "spread", "memory"),
    [
        ([1.0, -1.0] * 20, 1.0, 0.0),
        ([1.0, 1.0, -1.0, -1.0] * 10, 1.0, 0.051875),
        ([1.0, 1.0, 1.0, -1.0, -1.0, -1.0] * 6, 1.0, 0.585648),
        ([1.0, 1.0, 1.0, -1.0, -1.0, -1.0], 1.0, 0.85),
        ([1.0, 1.0, 1.0, -1.0, -1.0], 1.0, 0.0),  # of fewer than six, nothing is known
        ([1.0] * 20 + [-1.0] * 20, 1.0, 0.85),
        ([1.0, 1.0, 1.0, -1.0, -1.0, -1.0] * 6, 0.0, 0.0),
        ([0.1, 0.1, 0.1, -0.1, -0.1, -0.1] * 3 + [1e9, -1e9] + [0.1, 0.1, 0.1, -0.1, -0.1, -0.1] * 3, 0.1, 0.0875),
    ],
)
def test_the_memory_is_at_its_upper_end(residuals: list[float], spread: float, memory: float) -> None:
    assert memory_of(np.array(residuals), spread) == pytest.approx(memory, abs=1e-3)


def test_the_noise_between_neighbours_is_that_of_the_newest_twelve() -> None:
    """A step is one difference of many; fewer than four runs have no noise between them."""
    values = np.array([0.0, 9.0] * 10 + [100.0 + index % 2 for index in range(12)])
    runs = np.arange(len(values))
    found = neighbour_noise(values, runs)
    assert found[:3].tolist() == [0, 0, 0]
    assert found[3:20].tolist() == [pytest.approx(9 / 0.954)] * 17
    assert found[25] == pytest.approx(9 / 0.954)
    assert found[26:].tolist() == [pytest.approx(1 / 0.954)] * 6
    assert neighbour_noise(values, runs, 100)[31] == pytest.approx(9 / 0.954)
    assert neighbour_noise(np.array([1.0]), np.array([0, 0])).tolist() == [0, 0]


@pytest.mark.parametrize(("count", "factor"), [(4, 4), (5, 4), (7, 2), (34, 1.1), (100, 1 + 3 / 96)])
def test_the_error_of_a_distance_is_that_of_both_medians(count: int, factor: float) -> None:
    """In a small baseline it is larger, since few runs hide their noise."""
    old = baselines_before(np.array([0.0, 10.0] * 50), np.array([count]))
    spread = float(old.spread[0])
    memory = float(old.memory[0])
    for local in (0.0, 3 * spread):
        new = max(spread, local) * float(error_of_mean(5, memory))
        both = math.hypot(new, spread * float(error_of_mean(count, memory)))
        assert errors_of_shifts(old, np.array([local]), 5).tolist() == [pytest.approx(1.25 * factor * both)]
