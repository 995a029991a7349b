"""Each kind of a broken verdict has its alert, with a message that says what is wrong."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ml_metrics.core.model import JobStatus, Metric
from ml_metrics.judge import judge_run
from unit.judge.cases import NOW, TEST, condition, config, history, judged, noisy

BELOW_ONE = condition({"fixed_value": 1}, "less")
SPREAD = condition({"stddevs_from_mean": 4}, "less", wait_for_n_points_of_history=10)
STEADY = [100 + (index % 5 - 2) * 0.7 for index in range(20)]


@pytest.mark.parametrize(
    ("rules", "values", "kind", "message"),
    [
        (
            {"conditions": {"loss": BELOW_ONE}},
            {"loss": 5.0},
            "out_of_bounds",
            "Metric `loss` was out of bounds for test `{test}`. Bounds were (-inf, 1) and value was 5",
        ),
        (
            {"conditions": {"loss": BELOW_ONE}},
            {},
            "missing",
            "Metric `loss` is missing for test `{test}`: the run did not produce it",
        ),
        (
            {"required_metrics": ["loss"]},
            {},
            "missing",
            "Metric `loss` is missing for test `{test}`: it is in required_metrics, and the run did not produce it",
        ),
        (
            {"conditions": {"loss": BELOW_ONE}},
            {"loss": math.nan},
            "non_finite",
            "Metric `loss` is not a finite number for test `{test}`: the value is nan",
        ),
        (
            {"required_metrics": ["loss"]},
            {"loss": -math.inf},
            "non_finite",
            "Metric `loss` is not a finite number for test `{test}`: the value is -inf",
        ),
    ],
)
def test_each_kind_says_what_is_wrong(rules: dict[str, Any], values: dict[str, float], kind: str, message: str) -> None:
    judgement = judged(config(**rules), values)
    (alert,) = judgement.alerts
    assert (alert.kind, alert.metric, alert.message) == (kind, "loss", message.format(test=TEST))
    assert not judgement.passed


def test_a_change_of_level_says_what_changed() -> None:
    rule = config({"loss": {"comparison": "less"}})
    judgement = judged(rule, {"loss": 120.0}, history([*noisy([(100, 40)]), 120.0, 121.0]))
    (alert,) = judgement.alerts
    assert alert.kind == "change_point"
    assert alert.message.startswith(f"Metric `loss` changed its level for test `{TEST}`: the level rose from ")


def test_values_of_which_some_are_not_finite_are_an_alert_of_their_own() -> None:
    metric = Metric("loss", 0.5, "loss", "mean", points=4, non_finite=1, first_non_finite=2)
    judgement = judge_run(
        config({"loss": BELOW_ONE}), [metric], [], status=JobStatus.SUCCESS, run_key="now", now=NOW, test=TEST
    )
    (alert,) = judgement.alerts
    start = f"Metric `loss` is made of values that are not all finite for test `{TEST}`: 1 of 4 values of loss"
    assert alert.kind == "non_finite"
    assert alert.message.startswith(start)


def test_a_metric_that_the_run_failed_to_produce_is_missing_with_its_reason() -> None:
    judgement = judged(config(), {}, missing={"mfu": "no peak is known"})
    (alert,) = judgement.alerts
    assert (alert.kind, alert.message) == ("missing", f"Metric `mfu` is missing for test `{TEST}`: no peak is known")
    assert [(str(verdict.outcome), verdict.reason) for verdict in judgement.verdicts] == [("fail", "no peak is known")]


@pytest.mark.parametrize(
    ("rules", "alerts"),
    [
        ({"alert_for_oob_metrics": False}, ["wanted"]),
        ({"metric_subset_to_alert": ["speed"]}, ["wanted"]),
        ({"metric_subset_to_alert": ["loss"]}, ["loss", "wanted"]),
        ({}, ["loss", "wanted"]),
    ],
)
def test_a_muted_condition_does_not_mute_a_required_metric_that_is_missing(
    rules: dict[str, Any], alerts: list[str]
) -> None:
    regression = config({"loss": BELOW_ONE, "wanted": BELOW_ONE}, required_metrics=["wanted"], **rules)
    judgement = judged(regression, {"loss": 5.0})
    assert sorted(alert.metric or "" for alert in judgement.alerts) == alerts


def test_warnings_come_after_what_is_broken() -> None:
    rules = {"a": SPREAD, "b": BELOW_ONE}
    past = [*history(STEADY, metric="a")]
    judgement = judged(config(rules), {"a": 0.0, "b": 5.0}, past)
    assert [(str(alert.kind), alert.metric) for alert in judgement.alerts] == [
        ("out_of_bounds", "b"), ("implausible", "a")
    ]  # fmt: skip
    failed = judged(config(rules), {"a": 0.0, "b": 5.0}, past, status="failure")
    assert [(str(one.outcome), one.implausible, one.false_alarm_rate) for one in failed.verdicts] == [
        ("skipped", False, None), ("skipped", False, None)
    ]  # fmt: skip
    assert [str(alert.kind) for alert in failed.alerts] == ["job_status"]


@pytest.mark.parametrize(("value", "outcome", "severity"), [(1.0, "pass", "fail"), (math.nan, "non_finite", "fail")])
def test_a_required_metric_without_a_condition_has_a_verdict(value: float, outcome: str, severity: str) -> None:
    (verdict,) = judged(config(required_metrics=["loss"]), {"loss": value, "other": 1.0}).verdicts
    assert (verdict.outcome, verdict.severity, verdict.rule) == (outcome, severity, "required")


def test_a_metric_that_nothing_names_has_a_verdict_only_if_it_is_not_finite() -> None:
    (verdict,) = judged(config(), {"other": math.inf, "fine": 1.0}).verdicts
    assert (verdict.metric, verdict.outcome, verdict.severity, verdict.rule) == ("other", "non_finite", "warn", "")


@pytest.mark.parametrize(("value", "implausible"), [(60.0, True), (99.0, False), (101.0, False)])
def test_a_level_that_passes_may_have_a_run_that_is_too_good(value: float, implausible: bool) -> None:
    rule = config({"loss": {"comparison": "less"}})
    (verdict,) = judged(rule, {"loss": value}, history(noisy([(100, 60)]))).verdicts
    assert (verdict.outcome, verdict.implausible) == ("pass", implausible)
    mirrored = config({"loss": {"comparison": "greater"}})
    (verdict,) = judged(mirrored, {"loss": 200 - value}, history(noisy([(100, 60)]))).verdicts
    assert (verdict.outcome, verdict.implausible) == ("pass", implausible)


def test_what_is_too_good_is_measured_beside_the_newest_fifty_runs() -> None:
    """Runs before them may have had far more noise."""
    rule = config({"loss": {"comparison": "less", "window": 200}})
    past = history([*noisy([(100, 100)], noise=6), *noisy([(100, 50)], 2, noise=0.5)])
    (verdict,) = judged(rule, {"loss": 85.0}, past).verdicts
    assert (verdict.outcome, verdict.implausible) == ("pass", True)
