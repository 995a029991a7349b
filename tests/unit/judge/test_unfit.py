"""Conditions that do not fit the past runs of their test."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.judge import Undecided, runs_to_read, undecided, unfit
from unit.judge.cases import TEST, condition, config, history, point

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


def test_a_condition_that_fails_one_healthy_run_in_fourteen_is_found() -> None:
    chance = np.random.default_rng(3)
    values = [104.0 if run % 14 == 6 else min(101.0, 100 + 2.5 * float(chance.normal())) for run in range(84)]
    ((_, what),) = found(condition({"fixed_value": 101.5}, "less"), values)
    assert what.startswith("fails 7 % of the past runs: its margin of 1.44 is smaller than the noise")
    assert found(condition({"fixed_value": 101.5}, "less"), values[:19]) == []


def test_a_loss_after_healthy_runs_is_no_condition_that_does_not_fit() -> None:
    chance = np.random.default_rng(3)
    quiet, loud = ([100 + spread * float(value) for value in chance.normal(size=40)] for spread in (0.1, 4))
    assert found(condition({"fixed_value": 101}, "less"), quiet + loud) == []
    ((_, what),) = found(condition({"fixed_value": 101}, "less"), loud + loud)
    assert what.startswith("fails ")


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


def test_a_baseline_that_never_fills_is_found() -> None:
    weekly = [point for place, point in enumerate(history([1.0] * 400, None)) if place % 7 == 0]
    rule = condition({"percent_difference": 5}, "less", time_window="30d", wait_for_n_points_of_history=10)
    assert unfit(config({"loss": rule}), weekly, test=TEST) == [
        ("loss", "decides none of 58 past runs: the history has 4 of the 10 runs required")
    ]
    assert unfit(config({"loss": rule}), weekly[:20], test=TEST) == []
    assert len(unfit(config({"loss": rule}), weekly[:21], test=TEST)) == 1


@pytest.mark.parametrize(
    ("limit", "text", "more"),
    [
        ("time_window", "30d", []),
        ("since", "2026-01-01", ["decides none of 80 past runs: the history has 0 of the 2 runs required"]),
    ],
)
def test_a_history_without_times_is_found(limit: str, text: str, more: list[str]) -> None:
    rows = [
        replace(row, timestamp=datetime.fromtimestamp(number, UTC)) for number, row in enumerate(history(VALUES, None))
    ]
    rule = condition({"stddevs_from_mean": 4}, "less", **{limit: text})
    assert unfit(config({"loss": rule}), rows, test=TEST) == [
        ("loss", what) for what in [f"{limit} cannot be applied: the history has no timestamps", *more]
    ]


def test_a_reference_that_no_run_produced_is_found() -> None:
    rows = [*history(VALUES, None), *history(VALUES, None, metric="speed")]
    rule = condition({"percent_difference": 50}, "less")
    assert unfit(config({"loss": {**rule, "relative_to": "speed"}}), rows, test=TEST) == []
    assert unfit(config({"loss": {**rule, "relative_to": "sped"}}), rows, test=TEST) == [
        ("loss", "relative_to: no past run produced a metric 'sped'; did you mean 'speed'?")
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


WAITS = condition({"stddevs_from_mean": 4}, "less", wait_for_n_points_of_history=15)
FIXED = condition({"fixed_value": 1}, "less")
OPTIONAL = {**FIXED, "optional": True}


def silent_in(rows: list, rule: dict | None = None, **more: dict) -> list[Undecided]:
    return undecided(config({"loss": rule or WAITS, **more}), rows, TEST)


def test_a_condition_gets_the_runs_that_it_needs_first() -> None:
    assert silent_in(history([1.0] * 15, "insufficient_data")) == []
    assert silent_in(history([1.0] * 16, "insufficient_data")) == [
        Undecided("loss", 16, "stddevs_from_mean needs 15 earlier runs")
    ]
    short = condition({"stddevs_from_mean": 4}, "less")
    assert silent_in(history([1.0] * 9, "insufficient_data"), short) == []
    assert [one.runs for one in silent_in(history([1.0] * 10, "insufficient_data"), short)] == [10]


def test_one_decision_starts_the_count_anew_and_runs_whose_job_failed_do_not() -> None:
    rows = history([1.0] * 40, "insufficient_data")
    assert silent_in([*rows, point(40, 1.0, "pass")]) == []
    assert silent_in([*rows, point(40, None, "missing")]) == [], "it decided that the metric is missing"
    assert silent_in([*rows, point(41, 1.0, None, status="failure")])[0].runs == 40
    assert silent_in([point(-1, 1.0, "fail"), *rows])[0].runs == 40


def test_an_optional_metric_that_no_run_produces_is_reported() -> None:
    (one,) = silent_in(history([None] * 14, "skipped"), OPTIONAL)
    assert one.sentence == "loss: skipped in the last 14 runs: optional, and the run did not produce it"
    mixed = [*history([None] * 8, "skipped"), *[point(day, 1.0, "insufficient_data") for day in range(10, 30)]]
    (one,) = silent_in(mixed, {**WAITS, "optional": True})
    assert (one.runs, one.state) == (28, "insufficient_data or skipped")


def test_a_condition_without_any_row_is_reported() -> None:
    rows = history([1.0] * 12, "pass", metric="other")
    (one,) = silent_in(rows, FIXED, other=FIXED)
    assert one.sentence == "loss: not judged in the last 12 runs: no run has produced it"
    assert silent_in(rows[:9], FIXED, other=FIXED) == []
    assert silent_in([*rows, point(20, 0.5, None, metric="loss")], FIXED, other=FIXED) == [], (
        "it is newer than the runs"
    )


def test_a_pattern_that_nothing_matches_is_reported() -> None:
    rows = [*history([1.0] * 12, "pass", metric="other"), *history([None] * 12, "skipped", metric="acc*")]
    rules = config({"other": FIXED, "acc*": OPTIONAL})
    (one,) = undecided(rules, rows, TEST)
    assert one.sentence == (
        "acc*: skipped in the last 12 runs: no run has produced a metric that the condition `acc*` matches"
    )


def test_a_metric_of_a_pattern_that_is_gone_is_reported_as_the_pattern() -> None:
    rules, old = config({"acc*": WAITS}), history([1.0] * 40, "insufficient_data", metric="accuracy")
    without = [point(50 + day, 1.0, None, metric="other") for day in range(10)]
    assert [(one.metric, one.runs) for one in undecided(rules, [*old, *without[1:]], TEST)] == [("accuracy", 40)]
    (one,) = undecided(rules, [*old, *without], TEST)
    assert one.sentence == (
        "acc*: not judged in the last 10 runs: no run has produced a metric that the condition `acc*` matches"
    )


def test_a_pattern_whose_metrics_others_judge_is_reported() -> None:
    rows = history([1.0] * 12, "pass", metric="accuracy")
    (one,) = undecided(config({"accuracy": FIXED, "acc*": FIXED}), rows, TEST)
    assert (one.metric, one.state) == ("acc*", "not judged")
    assert one.reason == "more particular conditions judge every metric that `acc*` matches"
    assert undecided(config({"acc*": FIXED}), rows, TEST) == []


def test_default_is_reported_only_if_it_is_alone() -> None:
    rows = history([1.0] * 12, None, metric="goodput")
    (one,) = undecided(config({"default": FIXED}), rows, TEST)
    assert (one.metric, one.state, one.runs) == ("default", "not judged", 12)
    passing = history([0.5] * 12, "pass")
    assert undecided(config({"default": FIXED, "loss": FIXED}), passing, TEST) == []
    assert undecided(config({"default": FIXED}), passing, TEST) == []


def test_a_metric_that_alerts_without_a_condition_is_reported() -> None:
    rules = RegressionTestConfig(metric_subset_to_alert=("loss",))
    (one,) = undecided(rules, history([1.0] * 12, "skipped"), TEST)
    assert one.reason == "metric_subset_to_alert names it, but no condition covers it"


def test_the_reason_names_what_keeps_the_baseline_small() -> None:
    rule = {**WAITS, "time_window": "5d", "since": "2026-01-01", "compare_to": "other"}
    (one,) = silent_in(history([1.0] * 40, "insufficient_data"), rule)
    assert one.reason == (
        "stddevs_from_mean needs 15 earlier runs with compare_to: other, time_window: 5 days, since: 2026-01-01"
    )


def test_metrics_without_condition_and_other_tests_are_left_out() -> None:
    rows = [
        *history([1.0] * 40, "insufficient_data", metric="free"),
        *history([1.0] * 40, "insufficient_data", test="other"),
    ]
    assert [one.metric for one in silent_in(rows)] == ["loss"], "of the test itself, no run produced it"
    assert [one.runs for one in silent_in(history([1.0] * 40, "insufficient_data", test=""))] == [40]


def test_twice_the_runs_that_a_condition_needs_are_read() -> None:
    """Half of them may be of failed jobs."""
    assert runs_to_read(config()) == 20
    assert runs_to_read(config({"loss": FIXED}), 7) == 14
    assert runs_to_read(config({"loss": WAITS, "acc": FIXED})) == 30
