"""Which condition judges a metric: names, patterns and `default`, with what is known about the metric."""

from __future__ import annotations

from typing import Any

import pytest

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.judge import Judgement
from ml_metrics.judge.judgement import AlertKind
from unit.judge.cases import condition, config, history, judged, point

BELOW = condition({"fixed_value": 10}, "less")
ABOVE = condition({"fixed_value": 10}, "greater")
SD = condition({"stddevs_from_mean": 4}, "less")
GOODPUT = ("goodput", "badput_tpu_initialization_seconds", "disruptions", "ideal_step_time", "step_time_p90")
PAST = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.0]


def outcomes(judgement: Judgement) -> dict[str, str]:
    return {verdict.metric: str(verdict.outcome) for verdict in judgement.verdicts}


def knowing(rules: RegressionTestConfig, **facts: dict[str, str]) -> RegressionTestConfig:
    rules.use_facts(MetricCollectionConfig.model_validate({"metrics": facts}).facts)
    return rules


def test_the_most_particular_condition_counts() -> None:
    rules = config({"default": ABOVE, "eval/*": BELOW, "eval/top*": ABOVE, "eval/top1": BELOW, "re:.*": ABOVE})
    found = judged(rules, {"eval/x": 5.0, "eval/top5": 5.0, "eval/top1": 5.0, "other": 5.0})
    assert outcomes(found) == {"eval/x": "pass", "eval/top5": "fail", "eval/top1": "pass", "other": "fail"}
    assert [verdict.condition for verdict in found.verdicts] == ["eval/*", "eval/top*", "", "re:.*"]


def test_default_is_for_metrics_that_no_pattern_covers() -> None:
    found = judged(config({"default": ABOVE, "eval/*": BELOW}), {"eval/x": 5.0, "other": 5.0})
    assert {verdict.metric: verdict.condition for verdict in found.verdicts} == {"eval/x": "eval/*", "other": "default"}
    assert outcomes(found) == {"eval/x": "pass", "other": "fail"}


def test_a_pattern_without_a_match_is_missing() -> None:
    rules = config({"eval/*": BELOW, "aux/*": {**BELOW, "optional": True}}, required_metrics=["train/*"])
    found = judged(rules, {"loss": 1.0})
    assert outcomes(found) == {"eval/*": "missing", "aux/*": "skipped", "train/*": "missing"}
    assert {alert.kind for alert in found.alerts} == {AlertKind.MISSING}
    assert found.verdicts[0].reason == "no metric of the run matches it"
    assert not found.passed


def test_a_required_pattern_needs_one_match_in_each_run() -> None:
    rules = config({}, required_metrics=["train/*"])
    missed = [point(0, None, outcome="missing", metric="train/*")]
    assert outcomes(judged(rules, {"train/a": 1.0, "x": 1.0}, missed)) == {"train/a": "pass"}


def test_a_metric_that_a_pattern_covers_and_the_last_runs_had_is_expected() -> None:
    past = [*history(PAST, metric="eval/a"), *history(PAST, metric="eval/b"), *history(PAST, metric="free")]
    found = judged(config({"eval/*": BELOW}), {"eval/a": 1.0}, past)
    assert outcomes(found) == {"eval/a": "pass", "eval/b": "missing"}


def test_an_alert_of_a_pattern() -> None:
    rules = config({"default": BELOW}, metric_subset_to_alert=["eval/*"])
    found = judged(rules, {"eval/x": 50.0, "other": 50.0})
    assert [alert.metric for alert in found.alerts] == ["eval/x"]


@pytest.mark.parametrize("metric", GOODPUT)
def test_default_does_not_judge_what_the_package_adds(metric: str) -> None:
    past = history(PAST, metric=metric)
    assert judged(config({"default": SD}), {metric: 1e6}, past).verdicts == ()
    assert outcomes(judged(config({"default": SD}), {"x": 1.0}, [*past, *history(PAST, metric="x")])) == {"x": "pass"}


@pytest.mark.parametrize("metric", GOODPUT)
@pytest.mark.parametrize("key", ["{}", "{}*", "*", "re:.*"])
def test_what_the_package_adds_is_judged_by_a_name_or_a_match(metric: str, key: str) -> None:
    rules = config({key.format(metric): SD, "default": SD})
    assert outcomes(judged(rules, {metric: 1e6}, history(PAST, metric=metric))) == {metric: "fail"}


@pytest.mark.parametrize(
    ("metric", "rises", "falls"),
    [("accuracy_final", "pass", "fail"), ("loss_final", "fail", "pass"), ("tokens_per_second_p50", "pass", "fail")],
)
@pytest.mark.parametrize(
    "rule",
    [
        condition({"stddevs_from_mean": 4}, "less"),
        condition({"stddevs_from_mean": 4}, "greater"),
        condition({"mads_from_median": 8}, "within"),
        condition({"percent_difference": 20}, "less_or_equal"),
    ],
)
def test_default_judges_only_the_worse_side(metric: str, rises: str, falls: str, rule: dict[str, object]) -> None:
    past = history(PAST, metric=metric)
    for value, expected in ((1.5, rises), (0.5, falls), (1.0, "pass")):
        assert outcomes(judged(config({"default": rule}), {metric: value}, past)) == {metric: expected}


@pytest.mark.parametrize("metric", ["mean_time_between_failures", "time_saved", "error_reduction"])
@pytest.mark.parametrize(
    "rule",
    [
        condition({"stddevs_from_mean": 4}, "less"),
        condition({"percent_difference": 20}, "greater_or_equal"),
        condition({"percent_difference": 20}, "less", against="best"),
    ],
)
def test_default_judges_both_sides_where_a_name_turns_a_direction(metric: str, rule: dict[str, object]) -> None:
    past = history(PAST, metric=metric)
    for value, expected in ((1.5, "fail"), (0.5, "fail"), (1.0, "pass")):
        assert outcomes(judged(config({"default": rule}), {metric: value}, past)) == {metric: expected}
    named = condition({"percent_difference": 20}, "less")
    assert outcomes(judged(config({metric: named, "default": rule}), {metric: 0.5}, past)) == {metric: "pass"}


def test_default_judges_the_side_that_it_names_of_a_metric_of_which_nothing_is_known() -> None:
    past = history(PAST, metric="score")
    for comparison, passes in (("less", 0.5), ("greater", 1.5)):
        rules = config({"default": condition({"percent_difference": 20}, comparison)})
        assert outcomes(judged(rules, {"score": passes}, past)) == {"score": "pass"}
        assert outcomes(judged(rules, {"score": 2.0 - passes}, past)) == {"score": "fail"}


def test_an_own_condition_judges_the_side_that_it_names() -> None:
    past = history(PAST, metric="accuracy_final")
    assert outcomes(judged(config({"accuracy_final": SD}), {"accuracy_final": 1.5}, past)) == {"accuracy_final": "fail"}


def test_the_config_knows_better_than_the_name() -> None:
    past = history(PAST, metric="loss_final")
    rules = knowing(config({"default": SD}), loss={"better": "higher"})
    assert outcomes(judged(rules, {"loss_final": 1.5}, past)) == {"loss_final": "pass"}
    assert outcomes(judged(rules, {"loss_final": 0.5}, past)) == {"loss_final": "fail"}
    neither = knowing(config({"default": SD}), **{"los*": {"better": "neither"}})
    assert judged(neither, {"loss_final": 0.5}, past).verdicts == ()


def test_fixed_bounds_of_default_keep_their_side() -> None:
    rules = config({"default": BELOW})
    found = judged(rules, {"loss_final": 50.0, "accuracy_final": 50.0})
    assert outcomes(found) == {"loss_final": "fail", "accuracy_final": "skipped"}
    assert "bounds only its better side" in found.verdicts[1].reason
    within = config({"default": condition({"within_bounds": {"lower": 0, "upper": 1}}, "within")})
    assert outcomes(judged(within, {"accuracy_final": 50.0})) == {"accuracy_final": "fail"}


@pytest.mark.parametrize(
    "collected",
    [
        {"metric_to_aggregation_strategy": {"step_time": ["p50"]}},
        {"metric_to_aggregation_strategy": {"*_time": {"strategies": ["p50", "p99"]}}},
        {"metric_to_aggregation_strategy": {"*": {"warmup": "auto"}}, "default_aggregation_strategies": ["p50"]},
        {"default_aggregation_strategies": ["final", "p50"]},
    ],
)
def test_default_judges_a_generated_name_that_the_config_makes_itself(collected: dict[str, Any]) -> None:
    collection = MetricCollectionConfig.model_validate(collected)
    rules = config({"default": SD})
    rules.use_facts(collection.facts, collection.own_names)
    past = [*history(PAST, metric="step_time_p50"), *history(PAST, metric="step_time_slowdown")]
    found = judged(rules, {"step_time_p50": 9.0, "step_time_slowdown": 9.0}, past)
    assert outcomes(found) == {"step_time_p50": "fail"}


def test_default_judges_a_literal_with_a_generated_name() -> None:
    collection = MetricCollectionConfig.model_validate({"sources": {"literals": {"goodput": "duration"}}})
    rules = config({"default": ABOVE})
    rules.use_facts(collection.facts, collection.own_names)
    assert outcomes(judged(rules, {"goodput": 5.0, "disruptions": 5.0})) == {"goodput": "fail"}
