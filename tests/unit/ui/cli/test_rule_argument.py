"""Rules in words and as mappings."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.conditions import Condition
from ml_metrics.ui.cli.arguments import UsageError
from ml_metrics.ui.cli.replay import rule
from unit.judge.cases import condition

FOUR_SD = condition({"stddevs_from_mean": 4.0}, "less")
RULES = {
    "less": {"comparison": "less"},
    "less 4 sd": FOUR_SD,
    "LESS  4sd": FOUR_SD,
    "less 4 sigma": FOUR_SD,
    "less 4 sd of the mean": FOUR_SD,
    "less 4 sd wait 10 window 50": {**FOUR_SD, "wait_for_n_points_of_history": 10, "window": 50},
    "less 4 sd window 50 wait 10": {**FOUR_SD, "wait_for_n_points_of_history": 10, "window": 50},
    "within 5 MAD": condition({"mads_from_median": 5.0}),
    "within 5.5 MAD and 3 %": {**condition({"mads_from_median": 5.5}), "min_change": {"percent": 3.0}},
    "greater 5 %": condition({"percent_difference": 5.0}, "greater"),
    "less .5 percent of best": {**condition({"percent_difference": 0.5}, "less"), "against": "best"},
    "less 5% of the best level": {**condition({"percent_difference": 5.0}, "less"), "against": "best"},
    "less change_point": condition({"change_point": {}}, "less"),
    "greater change point": condition({"change_point": {}}, "greater"),
    "greater than 0.96": condition({"fixed_value": 0.96}, "greater"),
    "less than -1e3": condition({"fixed_value": -1000.0}, "less"),
    "{comparison: less, success_threshold: {stddevs_from_mean: 4}}": FOUR_SD,
    '{"comparison": "less", "success_threshold": {"stddevs_from_mean": 4}}': FOUR_SD,
}


@pytest.mark.parametrize("text", RULES)
def test_a_rule_is_a_condition(text: str) -> None:
    assert rule(text).condition(None) == Condition.model_validate(RULES[text])
    named = rule(f" nightly = {text}")
    assert (named.name, named.content) == ("nightly", rule(text).content)


def test_the_name_of_a_rule_in_words_is_its_text() -> None:
    assert rule(" less  4 sd ").name == "less 4 sd"


@pytest.mark.parametrize(
    ("own", "comparison"),
    [
        (condition({"fixed_value": 1}, "greater_or_equal"), "greater"),
        (condition({"stddevs_from_mean": 1}, "less"), "less"),
        (condition({"fixed_value": 1}, "equal"), "within"),
        (None, "within"),
    ],
)
def test_a_rule_without_a_direction_has_that_of_the_metric(own: dict[str, Any] | None, comparison: str) -> None:
    given = None if own is None else Condition.model_validate(own)
    assert rule("4 sd").condition(given).comparison == comparison
    assert rule("less 4 sd").condition(given).comparison == "less"


def test_the_best_level_needs_a_direction() -> None:
    with pytest.raises(UsageError, match="begin it with `less` or `greater`"):
        rule("5 % of best").condition(None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lesser 4 sd", "is not a rule; write one like 'less 4 sd'"),
        ("less 4", "is not a rule"),
        ("", "is not a rule"),
        ("=", "is not a rule"),
        ("4 sd of median", "is not a rule"),
        ("within 5 % of best", "needs a comparison with a direction"),
        ("less than 1..2", "is not a rule"),
        ("{comparison: les}", "did you mean 'less'?"),
        ("a={comparison: less, success_treshold: {}}", "did you mean 'success_threshold'?"),
        ("{a: [", "is not YAML"),
        ("less 4 sd wait 10 window 5", "can never be reached"),
    ],
)
def test_a_wrong_rule_is_an_error_that_shows_a_right_one(text: str, message: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as error:
        rule(text)
    assert message in str(error.value)


PARTS = "less greater within than 4 10 sd % of best and wait window change_point = { } : mad a"
WORDS = st.sampled_from(PARTS.split())


@given(st.lists(WORDS, max_size=8).map(" ".join) | st.text())
def test_any_text_is_a_rule_or_an_error(text: str) -> None:
    try:
        found = rule(text)
    except argparse.ArgumentTypeError:
        return
    assert found.condition(Condition.model_validate(FOUR_SD))
