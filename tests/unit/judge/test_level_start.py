"""Where the level of a baseline starts, and the quick test that spares most searches."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.judge.changepoints import level_starts, may_have_levels
from unit.judge.cases import noisy


@pytest.mark.parametrize("runs", [30, 100, 400])
def test_few_steady_series_are_searched(runs: int) -> None:
    """About one in twenty."""
    searched = sum(may_have_levels(noisy([(100, runs)], seed)) for seed in range(200))
    assert 2 <= searched <= 20


@pytest.mark.parametrize(("first", "second"), [(20, 20), (50, 9), (9, 50), (200, 12)])
def test_every_series_with_a_clear_change_is_searched(first: int, second: int) -> None:
    assert all(may_have_levels(noisy([(100, first), (105, second)], seed)) for seed in range(40))


def test_a_wild_value_is_no_reason_to_search() -> None:
    """It counts as three noises at most."""
    searched = 0
    for seed in range(100):
        values = noisy([(100, 60)], seed)
        values[30] = 1e6
        searched += may_have_levels(values)
    assert searched <= 12


def test_a_constant_has_no_levels_and_a_step_of_one_has() -> None:
    assert not may_have_levels([3.0] * 30)
    assert may_have_levels([3.0] * 20 + [4.0] * 20)


def test_levels_start_newest_first_with_enough_values_from_there_on() -> None:
    values = noisy([(100, 40), (110, 30), (120, 20)])
    assert level_starts(values, 9) == level_starts(values, 20) == [70, 40]
    assert level_starts(values, 21) == [40]
    assert level_starts(values[:49], 9) == [40]
    assert level_starts(values[:48], 9) == []


def test_twice_the_least_values_are_needed() -> None:
    values = noisy([(100, 20), (120, 20)])
    assert level_starts(values, 20) == [20]
    assert level_starts(values, 21) == []
    early = noisy([(100, 10), (120, 30)])
    assert level_starts(early, 20) == [10]
    assert level_starts(early, 21) == []


def test_an_uncertain_change_starts_no_level() -> None:
    values = noisy([(100, 30), (101.2, 30)], 1)
    assert may_have_levels(values)
    assert level_starts(values, 9) == []


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=60))
def test_any_values_are_searched_without_a_warning(values: list[float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(len(values) - start >= 9 for start in level_starts(values, 9))


@pytest.mark.parametrize(("first", "second", "step"), [(20, 20, 0.9243), (40, 10, 1.2663), (10, 40, 1.2663)])
def test_the_least_step_of_two_modes_that_is_searched(first: int, second: int, step: float) -> None:
    for part, searched in ((0.98, False), (1.02, True)):
        values = [index % 2 + (step * part if index >= first else 0.0) for index in range(first + second)]
        assert may_have_levels(values) is searched


@pytest.mark.parametrize(("first", "second", "step"), [(30, 20, 1.8224), (40, 10, 3.3907), (10, 40, 3.6072)])
def test_the_least_step_of_uneven_noise_that_is_searched(first: int, second: int, step: float) -> None:
    uneven = (0.0, 0.3, 1.1, -0.4, 0.8, -1.2, 0.5, -0.1, 0.9, -0.7)
    for part, searched in ((0.98, False), (1.02, True)):
        values = [uneven[run % 10] * (1 + run % 3) for count in (first, second) for run in range(count)]
        values[first:] = [value + step * part for value in values[first:]]
        assert may_have_levels(values) is searched
