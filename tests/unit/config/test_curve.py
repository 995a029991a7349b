"""The key `curve` of a condition."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ml_metrics.config.conditions import Condition, RegressionTestConfig


def config(**conditions: Any) -> RegressionTestConfig:
    return RegressionTestConfig.model_validate({"metric_success_conditions": conditions})


@pytest.mark.parametrize("within", [3, 3.0, "3 sd", " 3sd", "3.0 sd"])
def test_a_distance_is_a_number_of_standard_deviations(within: Any) -> None:
    condition = Condition.model_validate({"curve": {"within": within}})
    assert condition.curve is not None
    assert condition.curve.within == 3.0
    assert condition.success_threshold.fixed_value == 3.0
    assert condition.comparison == "less_or_equal"


@pytest.mark.parametrize("within", ["3 %", "3", "", "sd", 0, -1, "0 sd", "nan sd", "inf", None, [3], {"sd": 3}, True])
def test_any_other_distance_is_an_error(within: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        Condition.model_validate({"curve": {"within": within}})
    assert all(each["loc"] == ("curve", "within") for each in caught.value.errors())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("comparison", "less"),
        ("success_threshold", {"stddevs_from_mean": 3}),
        ("against", "best"),
        ("min_change", {"percent": 3}),
        ("max_non_finite", 0.1),
    ],
)
def test_a_key_that_curve_stands_for_is_an_error(key: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=f"remove {key}"):
        Condition.model_validate({"curve": {}, key: value})


def test_the_other_keys_keep_their_meaning() -> None:
    rest = {"severity": "warn", "confirm": 2, "window": 20, "since": "2026-05-31T12:00:00Z", "optional": True}
    rest |= {"baseline": {"same": ["image"]}, "wait_for_n_points_of_history": 10, "time_window": "30d"}
    condition = Condition.model_validate({"curve": {}, "compare_to": "other", **rest})
    assert condition.baseline_runs == 20
    assert condition.fewest_runs == 10


def test_the_defaults_of_the_baseline_are_those_of_curves() -> None:
    condition = Condition.model_validate({"curve": {}})
    assert (condition.fewest_runs, condition.baseline_runs) == (5, 30)


def test_a_window_that_never_suffices_is_an_error() -> None:
    with pytest.raises(ValidationError, match="curve needs 5 earlier runs, so a window of 4 never suffices"):
        Condition.model_validate({"curve": {}, "window": 4})


def test_a_range_without_steps_is_an_error() -> None:
    with pytest.raises(ValidationError, match=r"to_step \(100\) must be after from_step \(100\)"):
        Condition.model_validate({"curve": {"from_step": 100, "to_step": 100}})


@pytest.mark.parametrize("options", [{}, {"exclude_unset": True}])
def test_a_condition_is_the_same_after_it_was_stored(options: dict[str, bool]) -> None:
    given = config(loss_curve={"curve": {"within": "4 sd"}, "severity": "warn"})
    stored = given.model_dump(mode="json", **options)
    assert RegressionTestConfig.model_validate(stored) == given


@pytest.mark.parametrize(
    ("name", "proposed"),
    [
        ("loss", "loss_curve"),
        ("default", "*_curve"),
        ("loss*", "loss_curve"),
        ("*", "*_curve"),
        ("train/", "train/_curve"),
    ],
)
def test_a_condition_under_another_name_is_an_error(name: str, proposed: str) -> None:
    with pytest.raises(ValidationError) as caught:
        config(**{name: {"curve": {}}})
    assert f"name it {proposed!r}" in str(caught.value)


def test_only_tags_with_a_condition_are_judged_over_their_steps() -> None:
    given = config(**{"loss_curve": {"curve": {}}, "eval/*_curve": {"curve": {}}, "default": {"comparison": "less"}})
    assert [tag for tag in ("loss", "eval/loss", "accuracy", "loss_curve") if given.judges_curve(tag)] == [
        "loss",
        "eval/loss",
    ]
