from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.judge import misfits, unfit
from unit.judge.cases import TEST, condition, config, history

VALUES = [100 + 2 * float(value) for value in np.random.default_rng(3).normal(size=80)]


def found(rule: dict[str, Any], values: list[float] = VALUES, **rest: Any) -> list[tuple[str, str]]:
    return unfit(config({"loss": rule}), history(values, None, **rest), test=TEST)


@pytest.mark.parametrize(
    "rule",
    [
        condition({"stddevs_from_mean": 4}, "less"),
        condition({"mads_from_median": 6}, "within"),
        condition({"percent_difference": 5}, "greater", against="best"),
        condition({"change_point": {}}, "less"),
        condition({"fixed_value": 120}, "less"),
        condition({"fixed_value": 80}, "less"),  # it fails, as it should
        condition({"within_bounds": {"lower": 80}}),
        condition({"fixed_value": 1}, "less", optional=True),
    ],
)
def test_a_condition_that_fits_has_no_finding(rule: dict[str, Any]) -> None:
    assert found(rule) == []


def test_a_margin_smaller_than_the_noise_is_found() -> None:
    ((key, what),) = found(condition({"percent_difference": 0.5}, "less"))
    assert key == "loss"
    assert re.fullmatch(
        r"fails [4-9]\d % of the past runs: its margin of 0\.4\d+ is smaller than the noise "
        r"\(the level is \d+\.\d+ with a standard deviation of [12]\.\d+\)",
        what,
    ), what


def test_a_slow_loss_is_no_finding() -> None:
    values = [value * (1 + max(0, day - 40) * 0.001) for day, value in enumerate([*VALUES, *VALUES])]
    assert found(condition({"percent_difference": 7}, "less", against="best"), values) == []


def test_a_threshold_that_is_out_of_reach_is_found() -> None:
    ((_, what),) = found(condition({"fixed_value": 1000}, "less"))
    assert what.startswith("can never fail: its bounds (-inf, 1000) are far from every value (the level is ")
    ((_, what),) = found(condition({"stddevs_from_mean": 60}, "less"))
    assert what.startswith("can never fail")


def test_a_metric_that_no_run_produced_is_found() -> None:
    rows = history(VALUES, None, metric="loss_final")
    rule = condition({"fixed_value": 120}, "less")
    assert unfit(config({"loss_fianl": rule}), rows, test=TEST) == [
        ("loss_fianl", "no past run produced a metric of this name; did you mean 'loss_final'?")
    ]
    assert unfit(config({"rare": {**rule, "optional": True}}), rows, test=TEST) == []


def test_rows_of_another_test_are_not_its_past() -> None:
    rule = condition({"fixed_value": 120}, "less")
    findings = [("loss", "no past run produced a metric of this name")]
    assert found(rule, test="") == []
    assert found(rule, test="another") == findings
    assert [what.split(":")[0] for _, what in found(condition({"fixed_value": 1000}, "less"), test="")] == [
        "can never fail"
    ]


@pytest.mark.parametrize(("test", "problems"), [("", 1), (TEST, 1), ("another", 0)])
def test_misfits_are_those_of_the_rows_of_the_test(test: str, problems: int) -> None:
    rule = condition({"fixed_value": 1000}, "less")
    assert len(misfits(config({"loss": rule}), history(VALUES, None, test=test), test=TEST)) == problems


def test_a_baseline_that_never_fills_is_found() -> None:
    weekly = [point for place, point in enumerate(history([1.0] * 400, None)) if place % 7 == 0]
    rule = condition({"percent_difference": 5}, "less", time_window="30d", wait_for_n_points_of_history=10)
    assert unfit(config({"loss": rule}), weekly, test=TEST) == [
        ("loss", "decides none of 58 past runs: the history has 4 of the 10 runs required")
    ]


def test_a_baseline_that_has_filled_once_is_no_finding() -> None:
    weekly = [point for place, point in enumerate(history([1.0] * 400, None)) if place % 7 == 0]
    daily = history([1.0] * 460, None)[400:]
    rule = condition({"percent_difference": 5}, "less", time_window="30d", wait_for_n_points_of_history=10)
    assert unfit(config({"loss": rule}), [*weekly, *daily], test=TEST) == []


def test_a_history_without_times_is_found() -> None:
    rows = [
        replace(row, timestamp=datetime.fromtimestamp(number, UTC)) for number, row in enumerate(history(VALUES, None))
    ]
    rule = condition({"stddevs_from_mean": 4}, "less", time_window="30d")
    assert unfit(config({"loss": rule}), rows, test=TEST) == [
        ("loss", "time_window cannot be applied: the history has no timestamps")
    ]


def test_another_test_without_runs_is_found() -> None:
    rule = condition({"percent_difference": 5}, "less", compare_to="tf-mnist-exmaple-cpu")
    ((_, what), *_) = found(rule)
    assert what == "compare_to: no past run of a test 'tf-mnist-exmaple-cpu'; did you mean 'tf-mnist-example-cpu'?"


def test_what_default_covers_names_the_metric() -> None:
    rows = [*history(VALUES, None), *history([value * 10 for value in VALUES], None, metric="time")]
    rules = {"default": condition({"fixed_value": 1300}, "less")}
    ((key, what),) = unfit(config(rules), rows, test=TEST)
    assert key == "default"
    assert what.startswith("loss: can never fail")


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 1e308, -1e308, 5e-324]), max_size=40
    ),
    st.sampled_from(
        [
            condition({"stddevs_from_mean": 4}, "less"),
            condition({"percent_difference": 5}, "within"),
            condition({"within_bounds": {"lower": -1e308, "upper": 1e308}}),
            condition({"change_point": {}}, "greater"),
        ]
    ),
)
def test_any_history_can_be_checked(values: list[float], rule: dict[str, Any]) -> None:
    assert all(what for _, what in found(rule, values))
