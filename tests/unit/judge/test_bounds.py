"""Each rule, compared with bounds computed by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ml_metrics.core.model import Outcome
from ml_metrics.judge import replay
from ml_metrics.judge.bounds import best_level
from unit.judge.cases import TEST, condition, config, history, verdict

INF = math.inf
FOUR = [10.0, 12.0, 14.0, 16.0]  # mean 13, population sd sqrt(5), median 13, MAD 2
SD = math.sqrt(5)

RULES = [
    ({"fixed_value": 0.96}, "greater", {}, (0.96, INF)),
    ({"fixed_value": 0.5}, "less", {}, (-INF, 0.5)),
    ({"fixed_value": 3}, "equal", {}, (3, 3)),
    ({"stddevs_from_mean": 2}, "less", {}, (-INF, 13 + 2 * SD)),
    ({"stddevs_from_mean": 2}, "greater", {}, (13 - 2 * SD, INF)),
    ({"stddevs_from_mean": 2.5}, "within", {}, (13 - 2.5 * SD, 13 + 2.5 * SD)),
    ({"stddevs_from_mean": 0}, "less_or_equal", {}, (-INF, 13)),
    ({"percent_difference": 20}, "less", {}, (-INF, 15.6)),
    ({"percent_difference": 20}, "greater_or_equal", {}, (10.4, INF)),
    ({"percent_difference": {"percent": 20, "value": -10}}, "within", {}, (-12, -8)),
    ({"percent_difference": {"percent": 20, "value": -10}}, "less", {}, (-INF, -8)),
    ({"percent_difference": {"percent": 20, "value": 0}}, "within", {}, (0, 0)),
    ({"within_bounds": {"lower": 1, "upper": 2}}, "within", {}, (1, 2)),
    ({"within_bounds": {"upper": 2}}, "within", {}, (-INF, 2)),
    ({"within_bounds": {"lower": 1}}, "within", {}, (1, INF)),
    ({"mads_from_median": 3}, "within", {}, (7, 19)),
    ({"mads_from_median": 3}, "less", {}, (-INF, 19)),
    ({"stddevs_from_mean": 1}, "less", {"min_change": {"absolute": 5}}, (-INF, 18)),
    ({"stddevs_from_mean": 4}, "less", {"min_change": {"absolute": 5}}, (-INF, 13 + 4 * SD)),
    ({"stddevs_from_mean": 1}, "within", {"min_change": {"percent": 50}}, (6.5, 19.5)),
    ({"stddevs_from_mean": 1}, "less", {"min_change": {"percent": 50, "absolute": 7}}, (-INF, 20)),
    ({"fixed_value": 10}, "less", {"min_change": {"percent": 10}}, (-INF, 11)),
    ({"within_bounds": {"lower": 10}}, "within", {"min_change": {"absolute": 1}}, (9, INF)),
]


@pytest.mark.parametrize(("threshold", "comparison", "rest", "bounds"), RULES)
def test_bounds_match_values_computed_by_hand(
    threshold: dict[str, Any], comparison: str, rest: dict[str, Any], bounds: tuple[float, float]
) -> None:
    found = verdict(condition(threshold, comparison, **rest), 13.0, history(FOUR)).bounds
    assert found is not None
    assert (found.lower, found.upper) == pytest.approx(bounds, rel=1e-12)


@pytest.mark.parametrize(
    ("comparison", "at_bound"),
    [("greater", "fail"), ("less", "fail"), ("greater_or_equal", "pass"), ("less_or_equal", "pass"), ("equal", "pass")],
)
def test_only_inclusive_comparisons_accept_the_bound(comparison: str, at_bound: str) -> None:
    assert verdict(condition({"fixed_value": 0.3}, comparison), 0.3).outcome == at_bound


def test_equal_tolerates_rounding_only() -> None:
    rule = condition({"fixed_value": 0.3}, "equal")
    assert verdict(rule, 0.1 + 0.2).outcome is Outcome.PASS
    assert verdict(rule, 0.300001).outcome is Outcome.FAIL


def test_a_zero_bound_needs_an_exact_zero() -> None:
    rule = condition({"fixed_value": 0}, "equal")
    assert verdict(rule, 0.0).outcome is Outcome.PASS
    assert verdict(rule, 1e-300).outcome is Outcome.FAIL


@pytest.mark.parametrize("threshold", [{"stddevs_from_mean": 4}, {"mads_from_median": 4}])
@pytest.mark.parametrize("constant", [5.0, 0.1, 0.0, -3.7, 1e308])
def test_an_unchanged_constant_passes_and_a_changed_one_fails(threshold: dict[str, Any], constant: float) -> None:
    rule = condition(threshold, "less")
    assert verdict(rule, constant, history([constant] * 7)).outcome is Outcome.PASS
    above = math.nextafter(constant, INF) + abs(constant) * 1e-6
    assert verdict(rule, above, history([constant] * 7)).outcome is Outcome.FAIL


def test_a_strict_rule_without_margin_fails_a_constant() -> None:
    assert verdict(condition({"stddevs_from_mean": 0}, "less"), 5.0, history([5.0] * 7)).outcome is Outcome.FAIL
    assert (
        verdict(condition({"stddevs_from_mean": 0}, "less_or_equal"), 5.0, history([5.0] * 7)).outcome is Outcome.PASS
    )


def test_a_percentage_of_zero_accepts_only_zero() -> None:
    rule = condition({"percent_difference": 20}, "less")
    assert verdict(rule, 0.0, history([0.0, 0.0])).outcome is Outcome.PASS
    failed = verdict(rule, 0.1, history([0.0, 0.0]))
    assert failed.outcome is Outcome.FAIL
    assert "min_change" in failed.reason
    roomy = condition({"percent_difference": 20}, "less", min_change={"absolute": 1})
    assert verdict(roomy, 0.1, history([0.0, 0.0])).outcome is Outcome.PASS


def test_a_negative_mean_keeps_the_order_of_its_bounds() -> None:
    rule = condition({"percent_difference": 10}, "greater")
    past = history([-100.0, -100.0])
    assert verdict(rule, -109.0, past).outcome is Outcome.PASS
    assert verdict(rule, -111.0, past).outcome is Outcome.FAIL
    assert verdict(rule, 50.0, past).outcome is Outcome.PASS


@pytest.mark.parametrize("values", [[1.7e308, -1.7e308], [1.7e308, 1.6e308]])
def test_values_too_large_for_bounds_fail_with_a_reason(values: list[float]) -> None:
    found = verdict(condition({"stddevs_from_mean": 4}, "within"), 1.0, history(values))
    assert found.outcome is Outcome.FAIL
    assert "could not be applied" in found.reason


@pytest.mark.parametrize(
    ("rule", "reference", "spread"),
    [
        (condition({"stddevs_from_mean": 2.0}), 3.0, 2.0),
        (condition({"mads_from_median": 2.0}), 3.0, 2.0),
        (condition({"mads_from_median": 2.0}, "greater", against="best"), 3.0, pytest.approx(4 / 2**0.5)),
        (condition({"percent_difference": 10}), 3.0, None),
        (condition({"percent_difference": {"percent": 10, "value": 3.0}}), None, None),
        (condition({"fixed_value": 3.0}, "equal"), None, None),
        (condition({"within_bounds": {"lower": 1.0}}), None, None),
    ],
)
def test_reference_and_spread_are_those_that_the_bounds_were_computed_from(
    rule: dict[str, Any], reference: float | None, spread: float | None
) -> None:
    found = verdict(rule, 3.0, history([1.0, 5.0, 1.0, 5.0]))
    assert found.bounds is not None
    assert (found.reference, found.spread) == (reference, spread)


def test_a_baseline_that_is_too_small_has_no_reference() -> None:
    found = verdict(condition({"stddevs_from_mean": 2.0}), 3.0, history([1.0]))
    assert (found.bounds, found.reference, found.spread) == (None, None, None)


BEST = condition({"percent_difference": 5}, "less", against="best", wait_for_n_points_of_history=9)
MEAN = condition({"percent_difference": 5}, "less", wait_for_n_points_of_history=9)


def failures(rule: dict[str, object], values: list[float]) -> list[int]:
    runs = replay(config({"step_time": rule}), history(values, metric="step_time", outcome=None), test=TEST).runs
    return [day for day, run in enumerate(runs) if run.judgement.verdicts[0].outcome is Outcome.FAIL]


@pytest.mark.parametrize("seed", range(5))
def test_one_percent_a_week_fails_against_the_best_level_and_not_the_mean(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 0.3, 140)
    values = [float(100 * 1.01 ** (day / 7) + noise[day]) for day in range(140)]
    narrow = {**MEAN, "window": 20}
    assert failures(narrow, values) == []
    caught = failures(BEST, values)
    assert 20 < caught[0] < 50
    assert len(caught) > 90


def test_one_lucky_run_does_not_set_the_level() -> None:
    values = [100.0, 101.0, 99.0] * 5
    assert verdict(BEST, 104.0, history([*values[:7], 50.0, *values[7:]])).outcome is Outcome.PASS
    assert verdict(BEST, 106.0, history(values)).outcome is Outcome.FAIL


def test_best_level_matches_values_computed_by_hand() -> None:
    values = [float(each) for each in (9, 9, 9, 9, 9, 1, 1, 1, 1, 5, 5, 5, 5, 5, 5)]
    # the medians of nine in a row: 9 (five 9s of nine), then 5, 5, 5, ...
    assert best_level(values, greater_is_better=True).value == 9
    assert best_level(values, greater_is_better=False).value == 5
    level = best_level([1.0, 2.0, 4.0], greater_is_better=True)
    assert (level.value, level.spread) == (2.0, pytest.approx(((1 + 4) / 2 / 2) ** 0.5))
    assert best_level([1.0, 2.0, 4.0], greater_is_better=True, robust=True).spread == pytest.approx(1.5 / 2**0.5)


@pytest.mark.parametrize("seed", range(5))
def test_the_spread_does_not_grow_with_a_slow_change(seed: int) -> None:
    random = np.random.default_rng(seed)
    steady = [float(each) for each in random.normal(100, 1, 100)]
    creeping = [value + day * 0.2 for day, value in enumerate(steady)]
    flat, sloped = (best_level(each, greater_is_better=False).spread for each in (steady, creeping))
    assert sloped == pytest.approx(flat, rel=0.1)
    assert flat == pytest.approx(1, rel=0.3)
