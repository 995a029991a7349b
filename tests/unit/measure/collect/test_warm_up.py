"""The warm-up of a series: found in many kinds of noise, and not where there is none."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.signal import lfilter

from ml_metrics.measure.windows import MIN_POINTS, Absence, WarmUp, find_warm_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Noise = Callable[[np.random.Generator, int], NDArray[np.float64]]
    Shape = Callable[[int], NDArray[np.float64]]

SERIES, SERIES_OF_TWO_LEVELS = 50, 100
"""Noise of two levels resembles a warm-up, so its rates are near their limits: 50 series may exceed one by chance."""
finite = st.floats(allow_nan=False, allow_infinity=False)


def _autoregressive(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    noise = rng.normal(size=count + 100)
    return 0.0044 * lfilter([1.0], [1.0, -0.9], noise)[100:]


NOISE: dict[str, Noise] = {
    "normal": lambda rng, count: 0.01 * rng.normal(size=count),
    "heavy tails": lambda rng, count: 0.01 * rng.standard_t(3, size=count),
    "outliers": lambda rng, count: 0.01 * rng.normal(size=count) * np.where(rng.random(count) < 0.05, 10, 1),
    "stalls": lambda rng, count: (
        0.01 * rng.normal(size=count) + (rng.random(count) < 0.02) * rng.exponential(size=count)
    ),
    "a checkpoint each 50 steps": lambda rng, count: (
        0.01 * rng.normal(size=count) + 0.5 * ((np.arange(count) + rng.integers(50)) % 50 == 0)
    ),
    "skewed": lambda rng, count: 0.02 * rng.exponential(size=count),
    "autoregressive": _autoregressive,
    "rounded": lambda rng, count: np.round(0.01 * rng.normal(size=count), 2),
    "two levels": lambda rng, count: 0.01 * rng.normal(size=count) + 0.1 * (rng.random(count) < 0.3),
    "constant": lambda _, count: np.zeros(count),
}


def _first(*values: float) -> Shape:
    return lambda count: np.concatenate((values, np.zeros(count - len(values))))


WARM: dict[str, tuple[Shape, int]] = {
    "one slow step": (_first(20), 1),
    "two slow steps": (_first(20, 5), 2),
    "a slow loader": (_first(20, *[0.25] * 9), 10),
    "half as fast": (_first(*[0.5] * 14), 14),
    "faster at first": (_first(*[-0.3] * 14), 14),
    "one slow step before a change in the middle": (
        lambda count: np.concatenate(([20], np.zeros(count // 2 - 1), np.full(count - count // 2, 0.2))),
        1,
    ),
    "one slow step before a slow rise": (lambda count: np.concatenate(([20], np.linspace(0, 0.05, count - 1))), 1),
}
COLD: dict[str, Shape] = {
    "steady": np.zeros,
    "a change in the middle": lambda count: np.where(np.arange(count) < count // 2, 0.0, 0.3),
    "falling by a power": lambda count: 5 * (np.arange(count) + 1.0) ** -0.5,
    "falling slowly": lambda count: 5 * (np.arange(count) + 1.0) ** -0.2,
    "falling to a floor": lambda count: 5 * np.exp(-np.arange(count) * 5 / count),
    "rising to a ceiling": lambda count: -np.exp(-np.arange(count) * 4 / count),
    "straight": lambda count: np.linspace(0, 0.5, count),
}
SIMULATED = [(noise, count) for noise in NOISE for count in (50, 200, 1000)]


def found(noise: str, shape: Shape, count: int) -> list[int]:
    rng = np.random.default_rng(len(noise) * 1000 + count)
    series = SERIES_OF_TWO_LEVELS if noise == "two levels" else SERIES
    results = [find_warm_up(0.5 + shape(count) + NOISE[noise](rng, count)) for _ in range(series)]
    return [one.points if isinstance(one, WarmUp) else 0 for one in results]


@pytest.mark.parametrize(("noise", "count"), SIMULATED)
def test_a_warm_up_is_found(noise: str, count: int) -> None:
    for name, (shape, length) in WARM.items():
        lengths = np.array(found(noise, shape, count))
        missed = float(np.mean(lengths == 0))
        assert missed <= (0.2 if noise == "two levels" else 0.05), (name, missed)
        assert abs(float(np.median(lengths)) - length) <= 1, name


@pytest.mark.parametrize(("noise", "count"), SIMULATED)
def test_no_warm_up_is_found_where_there_is_none(noise: str, count: int) -> None:
    for name, shape in COLD.items():
        false = float(np.mean(np.array(found(noise, shape, count)) > 0))
        assert false <= 0.08, (name, false)


def test_an_outlier_among_the_first_points_is_no_warm_up() -> None:
    assert np.mean(np.array(found("normal", _first(0, 0, 0, 20), 200)) > 0) <= 0.02


def test_a_level_of_nearly_zero() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_warm_up(np.array([5.0, 0.0, *[0.0] * 20])) == WarmUp(1, 5.0, 0.0)
        assert find_warm_up(np.array([1e305, *[5e-324, 0.0] * 10])) == WarmUp(1, 1e305, 0.0)


def test_the_levels_are_medians() -> None:
    assert find_warm_up(np.array([9.0, 3.0, 2.0, *[1.0] * 20])) == WarmUp(3, 3.0, 1.0)


@pytest.mark.parametrize(
    ("values", "absence"),
    [
        ([20.0, *[1.0] * (MIN_POINTS - 2)], Absence.SHORT),
        ([1.0] * 20, Absence.STEADY),
        ([0.0] * 20, Absence.STEADY),
        ([float(20 - index) for index in range(20)], Absence.CHANGING),
    ],
)
def test_why_there_is_none(values: list[float], absence: Absence) -> None:
    assert find_warm_up(np.array(values)) is absence


@given(st.lists(finite | st.sampled_from([1e-308, -1e308, 1e308, 5e-324, 0.0]), max_size=60))
def test_any_finite_numbers(values: list[float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = find_warm_up(np.array(values))
    assert isinstance(result, Absence) or 0 < result.points <= len(values) / 3


@given(st.integers(-1000, 1000))
@example(-1060)  # the greatest value has no normal inverse
def test_the_unit_does_not_matter(power: int) -> None:
    values = np.array([20.0, 2.0, *[1.0, 1.01, 0.99] * 10])
    result = find_warm_up(np.ldexp(values, power))
    assert isinstance(result, WarmUp)
    assert result.points == 2


@given(st.lists(st.floats(0.5, 2), min_size=MIN_POINTS, max_size=40))
def test_the_sign_does_not_matter(values: list[float]) -> None:
    upright, mirrored = find_warm_up(np.array(values)), find_warm_up(-np.array(values))
    assert (upright if isinstance(upright, Absence) else upright.points) == (
        mirrored if isinstance(mirrored, Absence) else mirrored.points
    )
