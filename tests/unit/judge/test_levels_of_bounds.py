"""The level and the spread of a baseline, which bounds are made of, and the least change that counts."""

from __future__ import annotations

import math

import pytest

from ml_metrics.config.conditions import Condition, MinChange
from ml_metrics.core.model import Bounds
from ml_metrics.judge.bounds import Span, best_level, mean, mean_level, median_level, minimum_change, span_of
from unit.judge.cases import condition

TEN_DAYS = [9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0, 0.0]


@pytest.mark.parametrize(("runs", "least", "greatest"), [(1, 9, 9), (8, 5, 5), (9, 5, 5), (10, 4, 5)])
def test_a_plateau_is_the_median_of_nine_runs_in_a_row_or_of_all_if_there_are_fewer(
    runs: int, least: float, greatest: float
) -> None:
    assert best_level(TEN_DAYS[:runs], greater_is_better=False).value == least
    assert best_level(TEN_DAYS[:runs], greater_is_better=True).value == greatest


def test_a_single_run_has_a_level_without_a_spread() -> None:
    level = best_level([3.0], greater_is_better=True)
    assert (level.value, level.spread, level.name) == (3, 0, "best level")
    assert (mean_level([3.0]).spread, median_level([3.0]).spread) == (0, 0)


def test_the_spread_is_that_of_the_population_or_the_median_of_the_deviations() -> None:
    values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]
    found = mean_level(values), median_level(values)
    assert [(level.value, level.spread, level.name) for level in found] == [(5, 2, "mean"), (4.5, 0.5, "median")]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.1] * 3, 0.1), ([1.0, 2.0], 1.5), ([1e16, 1.0, -1e16], 1 / 3), ([5e-324, 5e-324, 0.0], 5e-324)],
)
def test_a_mean_is_exact_and_within_its_values(values: list[float], expected: float) -> None:
    assert mean(values) == expected


@pytest.mark.parametrize("power", [-1060, -1010, -990, 0, 990, 1010, 1019])
@pytest.mark.parametrize(
    "rule",
    [
        condition({"stddevs_from_mean": 3}),
        condition({"mads_from_median": 3}),
        condition({"stddevs_from_mean": 3}, "less", against="best"),
        condition({"mads_from_median": 3}, "less", against="best"),
        condition({"percent_difference": 10}),
    ],
)
def test_bounds_of_any_magnitude_are_those_of_ordinary_values(power: int, rule: dict[str, object]) -> None:
    given = Condition.model_validate(rule)
    plain, scaled = (span_of(given, [math.ldexp(each, by) for each in TEN_DAYS]) for by in (0, power))
    for name in ("lower", "upper"):
        expected = math.ldexp(getattr(plain.bounds, name), power)
        assert getattr(scaled.bounds, name) == pytest.approx(expected, rel=1e-4)
    assert scaled.reference == pytest.approx(math.ldexp(plain.reference or 0.0, power), rel=1e-4)


@pytest.mark.parametrize(
    ("given", "reference", "expected"),
    [
        (None, 50.0, 0),
        (MinChange(absolute=2), 50.0, 2),
        (MinChange(percent=10), 50.0, 5),
        (MinChange(percent=10), -50.0, 5),
        (MinChange(absolute=2, percent=10), 50.0, 5),
        (MinChange(absolute=7, percent=10), 50.0, 7),
        (MinChange(absolute=7, percent=10), 0.0, 7),
        (MinChange(percent=10), 1.7e308, 1.7e307),
    ],
)
def test_the_least_change_is_the_larger_of_both_sizes(
    given: MinChange | None, reference: float, expected: float
) -> None:
    assert minimum_change(given, reference) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rule", "bounds"),
    [
        (
            condition({"within_bounds": {"lower": -10, "upper": 20}}, min_change={"percent": 10}),
            Bounds(-11, 22, inclusive=True),
        ),
        (
            condition({"within_bounds": {"lower": -10}}, min_change={"absolute": 3}),
            Bounds(-13, math.inf, inclusive=True),
        ),
        (condition({"fixed_value": 10}, "less", min_change={"absolute": 3}), Bounds(-math.inf, 13)),
        (condition({"fixed_value": 10}, "greater_or_equal"), Bounds(10, math.inf, inclusive=True)),
        (condition({"percent_difference": {"percent": 10, "value": 50}}, "greater"), Bounds(45, math.inf)),
        (condition({"percent_difference": {"percent": 0, "value": 50}}, "less"), Bounds(-math.inf, 50)),
        (condition({"percent_difference": {"percent": 10, "value": 0}}, "less"), Bounds(-math.inf, 0, inclusive=True)),
    ],
)
def test_bounds_without_a_history(rule: dict[str, object], bounds: Bounds) -> None:
    assert span_of(Condition.model_validate(rule), []).bounds == bounds


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"stddevs_from_mean": 3}, "mean 3 ms, sd 2 ms"),
        ({"mads_from_median": 3}, "median 3 ms, MAD 2 ms"),
        ({"percent_difference": 10}, "mean 3 ms"),
    ],
)
def test_a_span_states_its_level_and_spread(rule: dict[str, object], text: str) -> None:
    assert span_of(Condition.model_validate(condition(rule)), [1.0, 5.0, 1.0, 5.0]).text("ms") == text


def test_a_level_of_nothing_says_why_no_difference_is_allowed() -> None:
    rule = condition({"percent_difference": 10})
    note = ", of which every percentage is 0: set min_change to allow a difference"
    assert span_of(Condition.model_validate(rule), [0.0, 0.0]).text("") == f"mean 0{note}"
    rule = {**rule, "min_change": {"absolute": 1}}
    assert span_of(Condition.model_validate(rule), [0.0, 0.0]).text("") == "mean 0"
    assert not Span(Bounds()).text("ms")
