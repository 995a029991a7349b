"""What a condition may say, and what it may not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from ml_metrics.config.regression import Condition
from ml_metrics.judge import history_needs
from ml_metrics.judge.wording import rule_of
from unit.judge.cases import condition, config

MEANINGLESS = [
    (condition({"fixed_value": 1}), "needs a comparison"),
    (condition({"within_bounds": {"lower": 1}}, "greater"), "omit lower or upper"),
    (condition({"within_bounds": {}}), "lower, upper or both"),
    (condition({"within_bounds": {"lower": 2, "upper": 1}}), "no value could pass"),
    (condition({"stddevs_from_mean": 1}, "equal"), "does not work with the comparison `equal`"),
    (condition({"stddevs_from_mean": -1}, "less"), "greater than or equal to 0"),
    (condition({"percent_difference": -20}, "less"), "greater than or equal to 0"),
    (condition({"fixed_value": None}, "less"), "exactly one threshold, not none"),
    (condition({"fixed_value": 1, "stddevs_from_mean": 2}, "less"), "not fixed_value and stddevs_from_mean"),
    (condition({"stddevs_from_mean": 2}, "within", against="best"), "needs a comparison with a direction"),
    (condition({"fixed_value": 2}, "less", against="best"), "not relative to the history"),
    (condition({"change_point": {}}, "less", compare_to="nightly"), "remove compare_to"),
    (condition({"change_point": {}}, "less", window=5_000), "2000 runs at most"),
    (
        condition({"stddevs_from_mean": 2}, "less", window=5, wait_for_n_points_of_history=6),
        "can never be reached with a window of 5",
    ),
    (condition({"stddevs_from_mean": float("nan")}, "less"), "finite"),
    (condition({"stddevs_from_mean": 2}, "less", time_window="soon"), "not a duration"),
]


@pytest.mark.parametrize(("given", "message"), MEANINGLESS)
def test_what_cannot_be_meant_is_an_error(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Condition.model_validate(given)


def test_the_older_way_to_say_no_wait() -> None:
    assert Condition.model_validate(condition({"fixed_value": 1}, "less", wait_for_n_points_of_history=-1))


def test_times_and_windows() -> None:
    read = Condition.model_validate(condition({"fixed_value": 1}, "less", since="2026-03-01", time_window="30d"))
    assert read.since == datetime(2026, 3, 1, tzinfo=UTC)
    assert read.time_window == timedelta(days=30)


WORDS = [
    (condition({"fixed_value": 0.96}, "greater"), "greater than 0.96"),
    (condition({"fixed_value": 3}, "equal"), "equal to 3"),
    (condition({"stddevs_from_mean": 4.0}, "less"), "less than mean + 4 sd"),
    (condition({"stddevs_from_mean": 2}, "within"), "within mean ± 2 sd"),
    (condition({"mads_from_median": 3}, "greater_or_equal"), "greater than or equal to median - 3 MAD"),
    (condition({"percent_difference": 20}, "less", compare_to="nightly"), "less than mean + 20 % of test nightly"),
    (condition({"percent_difference": {"percent": 5, "value": -2}}), "within -2 ± 5 %"),
    (condition({"percent_difference": 5}, "less", against="best"), "less than best level + 5 %"),
    (condition({"within_bounds": {"upper": 2}}), "within (-inf, 2)"),
    (condition({"change_point": {}}, "less"), "no rise of 5 % that lasts 3 runs"),
    (
        condition({"stddevs_from_mean": 2}, "less", min_change={"absolute": 0.5, "percent": 1}),
        "less than mean + 2 sd, or off by less than 0.5 and 1 %",
    ),
]


@pytest.mark.parametrize(("given", "words"), WORDS)
def test_a_rule_reads_as_it_is(given: dict[str, Any], words: str) -> None:
    assert rule_of(Condition.model_validate(given)) == words


def test_a_rule_on_fixed_numbers_needs_no_baseline() -> None:
    needs = history_needs(config({"loss": condition({"fixed_value": 1}, "less")}), "a")
    assert (needs.tests, needs.window, needs.earliest) == (("a",), 0, None)
    assert needs.recent > 0


def test_the_needs_of_all_conditions_are_one_query() -> None:
    since = {"since": "2026-03-01"}
    rules = {
        "loss": condition({"stddevs_from_mean": 4}, "less", window=20, **since),
        "acc": condition({"percent_difference": 4}, "greater", window=300, since="2026-02-01", compare_to="nightly"),
    }
    needs = history_needs(config(rules), "a")
    assert (needs.tests, needs.window, needs.recent) == (("a", "nightly"), 300, 300)
    assert needs.earliest == datetime(2026, 2, 1, tzinfo=UTC)
    assert history_needs(config({**rules, "x": condition({"percent_difference": 4}, "less")}), "a").earliest is None
