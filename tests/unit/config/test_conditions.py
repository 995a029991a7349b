"""Conditions: what is valid, which condition counts for a metric, and what a condition implies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from ml_metrics import TestDefinition
from ml_metrics.config.conditions import Condition, RegressionTestConfig
from ml_metrics.config.loading import load_file
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.core.values import as_utc
from ml_metrics.judge import rule_of
from unit.judge.cases import condition


def offset(minutes: int) -> timezone:
    return timezone(timedelta(minutes=minutes))


CONTRADICTORY = [
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
    (condition({"fixed_value": 2}, "less", compare_to="nightly"), "remove `compare_to`"),
    (
        condition({"fixed_value": 2}, "less", window=5),
        "fixed_value is not relative to the history here: remove `window`",
    ),
    (condition({"within_bounds": {"lower": 1}}, since="2026-01-01"), "remove `since`"),
    (condition({"within_bounds": {"lower": 1}}, time_window="3d", against="mean"), "`time_window` and `against`"),
    (condition({"percent_difference": {"percent": 2, "value": 1}}, "less", window=5), "remove `window`"),
    (condition({"fixed_value": 2}, "less", wait_for_n_points_of_history=2, compare_to="x"), "remove `compare_to`"),
    (condition({"stddevs_from_mean": 2}, "less", min_change={}), "give percent, absolute or both"),
    (condition({"stddevs_from_mean": 2}, "less", since=1767225600), "did you mean 2026-01-01T00:00:00Z"),
    (condition({"stddevs_from_mean": 2}, "less", since="1767225600000"), "did you mean 2026-01-01T00:00:00Z"),
    (condition({"change_point": {}}, "less", window=5_000), "2000 runs at most"),
    (
        condition({"stddevs_from_mean": 2}, "less", window=5, wait_for_n_points_of_history=6),
        "can never be reached with a window of 5",
    ),
    (condition({"stddevs_from_mean": float("nan")}, "less"), "finite"),
    (condition({"stddevs_from_mean": 2}, "less", time_window="soon"), "not a duration"),
    (condition({"stddevs_from_mean": 2}, "less", window=1), "needs 2 earlier runs, so a window of 1 never suffices"),
    (condition({"mads_from_median": 2}, "less", window=1), "needs 2 earlier runs"),
    (condition({"change_point": {}}, "less", window=3), "so a window of 3 never suffices"),
    (condition({"stddevs_from_mean": 2}, "less", since="2999-01-01"), "since is in the future"),
    (condition({"percent_difference": 200}, "greater"), "no positive metric can fall by 200 %"),
    (condition({"percent_difference": {"percent": 100}}, "greater_or_equal"), "no positive metric can fall by 100 %"),
    ({"curve": {}, "window": 4}, "curve needs 5 earlier runs, so a window of 4 never suffices"),
    ({"curve": {"from_step": 100, "to_step": 100}}, r"to_step \(100\) must be after from_step \(100\)"),
    ({"curve": {}, "comparison": "less"}, "remove comparison"),
    ({"curve": {}, "success_threshold": {"stddevs_from_mean": 3}}, "remove success_threshold"),
    ({"curve": {}, "against": "best"}, "remove against"),
    ({"curve": {}, "min_change": {"percent": 3}}, "remove min_change"),
    ({"curve": {}, "max_non_finite": 0.1}, "remove max_non_finite"),
    ({"curve": {}, "relative_to": "loss"}, "remove relative_to"),
    *((condition({"stddevs_from_mean": 2}, "less", relative_to=name), "is a pattern") for name in ("loss*", "re:loss")),
    (condition({"stddevs_from_mean": 2}, "less", relative_to=""), "at least 1 character"),
    *(
        (condition({"stddevs_from_mean": 2}, "less", compare_to=other), "give the name of a test")
        for other in ("", [], 3)
    ),
    *(
        (condition({"stddevs_from_mean": 2}, "less", compare_to=none), "a deployment, or both")
        for none in ({}, {"test": None})
    ),
    (condition({"stddevs_from_mean": 2}, "less", compare_to={"deployment": ""}), "at least 1 character"),
]
POSSIBLE = [
    condition({"percent_difference": 200}, "less"),
    condition({"percent_difference": 200}, "within"),
    condition({"percent_difference": {"percent": 200, "value": -3}}, "greater"),
    condition({"percent_difference": 5}, "greater", window=1),
    condition({"fixed_value": 5}, "greater", window=3, since="2026-01-01", wait_for_n_points_of_history=3),
    condition({"within_bounds": {"lower": 5}}, time_window="30d", wait_for_n_points_of_history=1),
    condition({"fixed_value": 5}, "greater", compare_to=None, since=None, wait_for_n_points_of_history=0),
    condition({"stddevs_from_mean": 2}, "greater", window=2),
]


@pytest.mark.parametrize(("given", "message"), CONTRADICTORY)
def test_contradictory_conditions_are_errors(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Condition.model_validate(given)


@pytest.mark.parametrize("given", POSSIBLE)
def test_a_condition_that_can_decide_is_accepted(given: dict[str, Any]) -> None:
    assert Condition.model_validate(given)


def test_since_may_be_today_in_every_time_zone() -> None:
    soon = datetime.now(UTC) + timedelta(hours=14)
    assert Condition.model_validate(condition({"stddevs_from_mean": 2}, "less", since=soon.isoformat())).since == soon


def test_the_older_value_for_no_wait_is_accepted() -> None:
    assert Condition.model_validate(condition({"fixed_value": 1}, "less", wait_for_n_points_of_history=-1))


@given(st.datetimes(timezones=st.none() | st.integers(-1439, 1439).map(offset)))
@example(datetime.min.replace(tzinfo=offset(300)))
@example(datetime.max.replace(tzinfo=offset(-300)))
def test_any_time_is_a_since_or_is_rejected_as_one_in_the_future(moment: datetime) -> None:
    def since() -> datetime | None:
        return Condition.model_validate(condition({"stddevs_from_mean": 2}, "less", since=moment.isoformat())).since

    if moment.year > datetime.now(UTC).year + 1:
        with pytest.raises(ValidationError, match="since is in the future"):
            since()
    elif moment.year < datetime.now(UTC).year:
        assert since() == as_utc(moment)


def test_since_and_time_window_are_parsed() -> None:
    read = Condition.model_validate(condition({"stddevs_from_mean": 1}, "less", since="2026-03-01", time_window="30d"))
    assert read.since == datetime(2026, 3, 1, tzinfo=UTC)
    assert read.time_window == timedelta(days=30)


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


def test_the_other_keys_keep_their_meaning() -> None:
    rest = {"severity": "warn", "confirm": 2, "window": 20, "since": "2026-05-31T12:00:00Z", "optional": True}
    rest |= {"baseline": {"same": ["image"]}, "wait_for_n_points_of_history": 10, "time_window": "30d"}
    condition = Condition.model_validate({"curve": {}, "compare_to": "other", **rest})
    assert condition.baseline_runs == 20
    assert condition.fewest_runs == 10


def test_the_defaults_of_the_baseline_are_those_of_curves() -> None:
    condition = Condition.model_validate({"curve": {}})
    assert (condition.fewest_runs, condition.baseline_runs) == (5, 30)


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


RULE = {"comparison": "less", "success_threshold": {"percent_difference": 20}}


def comparing(compare_to: Any) -> Condition:
    return Condition.model_validate({**RULE, "compare_to": compare_to})


@pytest.mark.parametrize(
    ("given", "text", "series"),
    [
        ("nightly", "test nightly", "nightly"),
        ({"test": "nightly"}, "test nightly", "nightly"),
        ({"deployment": "prod"}, "deployment prod", "own of deployment prod"),
        ({"deployment": "prod", "test": "nightly"}, "test nightly of deployment prod", "nightly of deployment prod"),
    ],
)
def test_both_forms(given: Any, text: str, series: str) -> None:
    found = comparing(given)
    assert rule_of(found) == f"less than mean + 20 % of {text}"
    assert found.series_of("own") == series
    short = given["test"] if given == {"test": "nightly"} else given
    assert found.model_dump(mode="json", exclude_unset=True)["compare_to"] == short
    assert Condition.model_validate(found.model_dump(mode="json", exclude_unset=True)) == found


def test_a_misspelt_key_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(
        "regression_test_config:\n"
        "  metric_success_conditions:\n"
        "    loss:\n"
        "      comparison: less\n"
        "      success_threshold: {percent_difference: 20}\n"
        "      compare_to:\n"
        "        deploymnet: prod\n"
    )
    with pytest.raises(InvalidFileError, match=r"rules.yaml:7: .*did you mean '.*deployment"):
        load_file(file)


STRATEGIES = {"step_time": ["median"], "matmul_reference": ["median"], "size_*": ["max"]}


def definition(reference: str) -> TestDefinition:
    return TestDefinition(
        name="t",
        image="i",
        command=("c",),
        metric_collection_config={"metric_to_aggregation_strategy": STRATEGIES},
        regression_test_config={
            "metric_success_conditions": {
                "step_time_median": {"comparison": "less", "relative_to": reference},
                "warm_up": {"comparison": "less"},
            }
        },
    )


@pytest.mark.parametrize(
    "reference", ["matmul_reference_median", "warm_up", "goodput", "size_of_it_max", "total_wall_time", "another_final"]
)
def test_names_that_may_be_of_a_metric_are_accepted(reference: str) -> None:
    condition = definition(reference).regression_test_config.metric_success_conditions["step_time_median"]
    assert condition.relative_to == reference
    assert rule_of(condition) == f"no rise that lasts 3 runs, relative to {reference}"


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        ("matmul_reference", "matmul_reference_median"),
        ("matmul_reference_max", "matmul_reference_median"),
        ("matmul_refrence_median", "matmul_reference_median"),
        ("warm_upp", "warm_up"),
    ],
)
def test_a_mistaken_name_is_an_error_at_its_place(reference: str, meant: str) -> None:
    with pytest.raises(ValidationError) as error:
        definition(reference)
    (mistake,) = error.value.errors()
    conditions = ("regression_test_config", "metric_success_conditions", "step_time_median")
    assert mistake["loc"] == (*conditions, "relative_to")
    assert f"no metric is named {reference!r}; did you mean {meant!r}?" in mistake["msg"]


def test_a_metric_is_not_relative_to_itself() -> None:
    with pytest.raises(ValidationError, match="a metric cannot be relative to itself"):
        config(loss={"relative_to": "loss"})


def test_a_condition_survives_its_document() -> None:
    condition = Condition.model_validate({"comparison": "less", "relative_to": "matmul"})
    assert Condition.model_validate(condition.model_dump(mode="json")) == condition
    curve = Condition.model_validate({"curve": {}})
    assert Condition.model_validate(curve.model_dump(mode="json")) == curve


def test_a_fixed_threshold_does_not_inherit_it(tmp_path: Path) -> None:
    """A number that was written for the metric is none for its quotient."""
    shared = "regression_test_config: {metric_success_conditions: {loss: {comparison: less, relative_to: matmul}}}\n"
    (tmp_path / "_defaults.yaml").write_text(shared)
    for name, threshold in (("fixed", "{fixed_value: 3}"), ("spread", "{stddevs_from_mean: 4}")):
        own = f"regression_test_config: {{metric_success_conditions: {{loss: {{success_threshold: {threshold}}}}}}}\n"
        (tmp_path / f"{name}.yaml").write_text(f'name: {name}\nimage: "i:1"\ncommand: ["c"]\n{own}')
        (test,) = load_file(tmp_path / f"{name}.yaml").tests
        condition = test.regression_test_config.metric_success_conditions["loss"]
        assert condition.relative_to == (None if name == "fixed" else "matmul")


def test_the_reference_of_a_condition_is_named_too() -> None:
    """So it is made, as the judged metric is, from its tag and strategy."""
    relative = {"comparison": "less", "relative_to": "matmul_p95"}
    assert config(step_time_p95=relative).named_metrics == ("step_time_p95", "matmul_p95")
