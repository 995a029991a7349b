from __future__ import annotations

import math
from typing import Any

import pytest

from ml_metrics.config.conditions import Condition
from ml_metrics.core.model import Bounds
from ml_metrics.judge import rule_of, violation
from unit.judge.cases import condition

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
