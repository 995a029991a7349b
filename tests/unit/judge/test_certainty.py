"""How sure a verdict is, in numbers and in words."""

from __future__ import annotations

import math
import warnings
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ml_metrics.config.conditions import Comparison, Condition
from ml_metrics.core.model import Bounds, Outcome
from ml_metrics.judge import rule_of, violation
from ml_metrics.judge.noise import LEAST_RATE, false_alarm_rate, independent_runs
from ml_metrics.judge.verdict import healthy_values
from ml_metrics.judge.wording import certainty_of
from unit.judge.cases import condition, history, point, verdict

LESS, GREATER, WITHIN = Comparison.LESS, Comparison.GREATER, Comparison.WITHIN
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
POWERS = st.integers(-60, 60) | st.sampled_from([-1000, -900, 900, 1000])
HISTORIES = st.lists(NUMBERS, min_size=5, max_size=30)
SPREAD = condition({"stddevs_from_mean": 4}, "less")


def noise(runs: int = 100, seed: int = 1) -> list[float]:
    random = Random(seed)
    return [100 + random.gauss(0, 1) for _ in range(runs)]


def rate(value: float, healthy: list[float], comparison: Comparison = LESS) -> float:
    found = false_alarm_rate(value, healthy, comparison)
    assert found is not None
    return found


def test_a_value_beyond_all_runs_is_rarer_the_farther_it_is() -> None:
    healthy = noise()
    rates = [rate(value, healthy) for value in (104, 110, 130, 200)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] < 0.01
    assert rates[2] < 0.0001


@pytest.mark.parametrize("runs", [2, 5, 100])
@pytest.mark.parametrize(
    "rule",
    [
        condition({"percent_difference": 1}, "less"),
        condition({"stddevs_from_mean": 4}, "within"),
        condition({"mads_from_median": 4}, "less"),
    ],
)
def test_the_reason_says_that_a_history_is_constant_and_not_how_probable_noise_is(
    runs: int, rule: dict[str, Any]
) -> None:
    found = verdict(rule, 3.1, history([3.0] * runs))
    assert found.outcome is Outcome.FAIL
    assert f"each of the {runs} runs before it has exactly 3" in found.reason
    assert "noise" not in found.reason
    assert found.false_alarm_rate is None
    assert "each of" not in verdict(rule, 9.0, history([3.0] * (runs - 1) + [3.001])).reason


@pytest.mark.parametrize(
    ("value", "comparison", "expected"),
    [
        (100.5, LESS, 1.1 * 51 / 101),  # one of 101 is the run itself
        (101, LESS, 1.1 * 51 / 101),
        (99, GREATER, 1.1 * 51 / 101),
        (99, LESS, 1),
        (99, WITHIN, 1),
        (101.04, LESS, 1.1 / 101),  # the noise may be wider than 100 runs show, by 4 %
        (102.08, LESS, 1.1 / 101 / 2**2.5),
        (97.92, GREATER, 1.1 / 101 / 2**2.5),
        (97.92, WITHIN, 1.1 / 101 / 2**2.5),
        (1e9, LESS, LEAST_RATE),
    ],
)
def test_the_rate_is_the_share_of_runs_and_falls_beyond_them(
    value: float, comparison: Comparison, expected: float
) -> None:
    assert rate(value, [99.0, 101.0] * 50, comparison) == pytest.approx(expected)


def test_no_rate_without_a_history() -> None:
    assert false_alarm_rate(5, [1.0] * 4, LESS) is None
    assert false_alarm_rate(5, [1.0, 2.0, 3.0, 2.0], LESS) is None
    assert false_alarm_rate(5, [1.0, 2.0, 3.0, 2.0, 1.0], LESS) is not None


@given(HISTORIES, NUMBERS, st.sampled_from([LESS, GREATER, WITHIN]))
def test_any_history_gives_a_rate(healthy: list[float], value: float, comparison: Comparison) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = false_alarm_rate(value, healthy, comparison)
    assert LEAST_RATE <= found <= 1 if found is not None else len(set(healthy)) == 1


@given(HISTORIES, NUMBERS, NUMBERS)
def test_a_worse_value_is_never_less_sure(healthy: list[float], one: float, other: float) -> None:
    assume(len(set(healthy)) > 1)
    assert rate(max(one, other), healthy) <= rate(min(one, other), healthy)


@given(st.lists(st.integers(-1000, 1000), min_size=5, max_size=30), st.integers(-3000, 3000), POWERS)
def test_the_unit_does_not_matter(healthy: list[int], value: int, power: int) -> None:
    assume(len(set(healthy)) > 1)
    scale = 2.0**power
    before = rate(value, [float(each) for each in healthy])
    assert rate(value * scale, [each * scale for each in healthy]) == pytest.approx(before)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.9, "quite possibly noise: many healthy runs look like this"),
        (0.41, "quite possibly noise: many healthy runs look like this"),
        (0.4, "quite possibly noise: about 1 in 2 healthy runs looks like this"),
        (0.2, "quite possibly noise: about 1 in 5 healthy runs looks like this"),
        (0.11, "quite possibly noise: about 1 in 9 healthy runs looks like this"),
        (0.1, "possibly noise: about 1 in 10 healthy runs looks like this"),
        (0.05, "possibly noise: about 1 in 20 healthy runs looks like this"),
        (0.011, "possibly noise: about 1 in 90 healthy runs looks like this"),
        (0.01, "unlikely to be noise: about 1 in 100 healthy runs looks like this"),
        (0.0048, "unlikely to be noise: about 1 in 200 healthy runs looks like this"),
        (0.0011, "unlikely to be noise: about 1 in 900 healthy runs looks like this"),
        (0.001, "very unlikely to be noise: about 1 in 1,000 healthy runs looks like this"),
        (0.00007, "very unlikely to be noise: about 1 in 14,000 healthy runs looks like this"),
        (0.000049, "very unlikely to be noise: about 1 in 20,000 healthy runs looks like this"),
        (LEAST_RATE * 1.01, "very unlikely to be noise: about 1 in 1,000,000 healthy runs looks like this"),
        (LEAST_RATE, "very unlikely to be noise: fewer than 1 in 1,000,000 healthy runs look like this"),
    ],
)
def test_the_words(number: float, text: str) -> None:
    assert certainty_of(number) == text


def test_a_broken_verdict_says_how_sure_it_is() -> None:
    found = verdict(SPREAD, 130, history(noise()))
    assert found.outcome == "fail"
    assert found.false_alarm_rate is not None
    assert found.reason.endswith("very unlikely to be noise: about 1 in 30,000 healthy runs looks like this")


def test_a_passed_verdict_has_the_number_alone() -> None:
    found = verdict(SPREAD, 100, history(noise()))
    assert found.outcome == "pass"
    assert found.false_alarm_rate is not None
    assert "healthy" not in found.reason


@pytest.mark.parametrize("value", [9.0, math.nan])
def test_a_fixed_bound_without_a_history_has_no_rate(value: float) -> None:
    found = verdict(condition({"fixed_value": 1}, "less"), value, history(noise()))
    assert found.outcome in {"fail", "non_finite"}
    assert found.false_alarm_rate is None


def test_failures_on_their_own_belong_to_the_noise() -> None:
    """A bound narrower than the noise fails healthy runs, and the next one of them is no surprise."""
    narrow = condition({"percent_difference": 0.5}, "less")
    past = [point(day, value, "fail" if value > 100.5 else "pass") for day, value in enumerate(noise(60))]
    found = verdict(narrow, 101.5, past)
    assert found.outcome == "fail"
    assert found.false_alarm_rate is not None
    assert found.false_alarm_rate > 0.03


@pytest.mark.parametrize(("failures", "counted"), [(1, 1), (2, 2), (3, 0), (9, 0)])
def test_three_failures_in_a_row_are_an_event_and_no_noise(failures: int, counted: int) -> None:
    after = history([1.0, 2.0])
    rows = [
        *history([1.0, 2.0]),
        *(point(10 + day, 50.0 + day, "fail") for day in range(failures)),
        *(point(30 + day, row.value) for day, row in enumerate(after)),
    ]
    baseline = [row for row in rows if row.outcome != "fail"]
    noise_of_all = [1.0, 2.0, *(50.0 + day for day in range(counted)), 1.0, 2.0]
    assert healthy_values(baseline, rows, len(rows)) == noise_of_all
    assert healthy_values(baseline, rows, 2) == [1, 2, 1, 2], "older failures are not read"
    assert healthy_values(baseline, rows, 3) == [
        1,
        2,
        *([50.0] if failures == 1 else [52.0 - (failures == 2)] if failures == 2 else [49.0 + failures]),
        1,
        2,
    ]


@pytest.mark.parametrize(
    ("deviations", "memory"),
    [
        ([1.0, -1.0] * 10, 0.0),
        ([1.0, 1.0, -1.0, -1.0] * 5, 0.0),
        ([1.0, 1.0, 1.0, -1.0, -1.0, -1.0] * 3, 0.650681),
        ([1.0, 1.0, -1.0, -1.0, 1.0, -1.0, -1.0, -1.0, 1.0, 1.0] * 2, 0.356664),
        ([1.0] * 20 + [-1.0] * 20, 0.85),
        ([0.0] * 20, 0.0),
    ],
)
def test_the_memory_of_noise_is_as_great_as_it_can_be_with_so_few_runs(deviations: list[float], memory: float) -> None:
    share = independent_runs(deviations, sorted(map(abs, deviations))) / len(deviations)
    assert share == pytest.approx((1 - memory) / (1 + memory), abs=1e-4)


RULES = [
    (condition({"fixed_value": 0.96}, "greater"), "greater than 0.96"),
    (condition({"fixed_value": 3}, "equal"), "equal to 3"),
    (condition({"stddevs_from_mean": 4.0}, "less"), "less than mean + 4 sd"),
    (condition({"stddevs_from_mean": 2}, "within"), "within mean ± 2 sd"),
    (condition({"mads_from_median": 3}, "greater_or_equal"), "greater than or equal to median - 3 MAD"),
    (condition({"percent_difference": 20}, "less", compare_to="nightly"), "less than mean + 20 % of test nightly"),
    (condition({"percent_difference": {"percent": 5, "value": -2}}), "within -2 ± 5 %"),
    (condition({"percent_difference": 5}, "less", against="best"), "less than best level + 5 %"),
    (condition({"within_bounds": {"upper": 2}}), "within (-inf, 2)"),
    (condition({"percent_difference": 5}, "greater", against="best"), "greater than best level - 5 %"),
    (condition({"stddevs_from_mean": 5}, "less", against="best"), "less than best level + 5 sd"),
    (condition({"mads_from_median": 5}, "less", against="best"), "less than best level + 5 MAD"),
    (condition({"within_bounds": {"lower": 1.5}}), "within (1.5, inf)"),
    (condition({"change_point": {}}, "less"), "no rise that lasts 3 runs"),
    (condition({"change_point": {"min_runs": 8}}, "greater"), "no fall that lasts 8 runs"),
    (condition({"change_point": {"min_change_percent": 0.5}}), "no change of 0.5 % that lasts 3 runs"),
    (
        condition({"fixed_value": 2}, "less_or_equal", min_change={"percent": 1}),
        "less than or equal to 2, or off by less than 1 %",
    ),
    (
        condition({"stddevs_from_mean": 2}, "less", min_change={"absolute": 0.5, "percent": 1}),
        "less than mean + 2 sd, or off by less than 0.5 and 1 %",
    ),
]


@pytest.mark.parametrize(("given", "text"), RULES)
def test_rules_as_text(given: dict[str, Any], text: str) -> None:
    assert rule_of(Condition.model_validate(given)) == text


@pytest.mark.parametrize(
    ("value", "bounds", "text"),
    [
        (0.5, Bounds(1, 2), "0.5 is below 1"),
        (1.0, Bounds(1, 2), "1 is on its lower bound"),
        (1.0, Bounds(1, math.inf), "1 is on its lower bound"),
        (2.0, Bounds(1, 2), "2 is on its upper bound"),
        (2.5, Bounds(-math.inf, 2), "2.5 is above 2"),
        (2.0000001, Bounds(1, 2), "2.0000001 is above 2"),
    ],
)
def test_a_violation_names_the_bound_and_the_side(value: float, bounds: Bounds, text: str) -> None:
    assert violation(value, bounds) == text


def test_the_bad_side_is_that_of_the_comparison() -> None:
    healthy = noise()
    assert rate(90, healthy, LESS) == 1
    assert rate(90, healthy, GREATER) < 0.01
    assert rate(90, healthy, WITHIN) == pytest.approx(rate(110, healthy, WITHIN), rel=0.5)


def test_only_failures_among_the_runs_of_the_baseline_are_noise() -> None:
    """Not those before it, nor those just before the judged run, nor a run of a failed job."""
    rows = [
        point(0, 9.0, "fail"),
        point(1, 1.0),
        point(2, 8.0, "fail"),
        point(3, 7.0, "fail", status="failure"),
        point(4, 6.0, "skipped"),
        point(5, 2.0),
        point(6, 9.0, "fail"),
    ]
    assert healthy_values([rows[1], rows[5]], rows, len(rows)) == [1, 8, 2]
    assert healthy_values([], rows, len(rows)) == []
    assert healthy_values([rows[5]], rows[:6], 6) == [2]
