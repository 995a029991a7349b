from __future__ import annotations

from typing import Any

import pytest

from ml_metrics.config.regression import Condition
from ml_metrics.judge.wording import rule_of
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
    (condition({"change_point": {}}, "less"), "no rise of 3 % that lasts 3 runs"),
    (
        condition({"stddevs_from_mean": 2}, "less", min_change={"absolute": 0.5, "percent": 1}),
        "less than mean + 2 sd, or off by less than 0.5 and 1 %",
    ),
]


@pytest.mark.parametrize(("given", "text"), RULES)
def test_rules_as_text(given: dict[str, Any], text: str) -> None:
    assert rule_of(Condition.model_validate(given)) == text
