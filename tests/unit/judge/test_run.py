"""A run judged: its metrics, its conditions, what it lacks, and values that are not finite."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from ml_metrics.config.collection import MetricCollectionConfig, Strategy
from ml_metrics.config.conditions import Condition, RegressionTestConfig
from ml_metrics.core.model import JobStatus, Metric, Outcome, Verdict
from ml_metrics.judge import Acceptance, Judgement, bounds, judge_run, replay
from ml_metrics.judge.bounds import Span
from ml_metrics.judge.judgement import AlertKind
from ml_metrics.measure.aggregation import metrics_of
from unit.judge.cases import DAY, NOW, START, TEST, condition, config, history, judged, point
from unit.measure.collect.run_folders import series

FIXED = condition({"fixed_value": 1}, "less")
DEFAULT = condition({"stddevs_from_mean": 4}, "less")


def outcomes(judgement: Judgement) -> dict[str, str]:
    return {verdict.metric: str(verdict.outcome) for verdict in judgement.verdicts}


def test_a_rule_that_raises_an_error_fails_its_metric_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    original = bounds.span_of

    def raises_for_seven(rule: Condition, baseline: list[float]) -> Span:
        if rule.success_threshold.fixed_value == 7:
            raise RuntimeError("an internal error")
        return original(rule, baseline)

    monkeypatch.setattr(bounds, "span_of", raises_for_seven)
    rules = {name: condition({"fixed_value": number}, "less") for name, number in (("a", 1), ("b", 7), ("c", 1))}
    judgement = judged(config(rules), {"a": 0.0, "b": 0.0, "c": 5.0})
    assert [str(one.outcome) for one in judgement.verdicts] == ["pass", "fail", "fail"]
    assert judgement.verdicts[1].reason == "the condition could not be applied: an internal error"
    assert [alert.kind for alert in judgement.alerts] == [AlertKind.NOT_JUDGED, AlertKind.OUT_OF_BOUNDS]
    assert judgement.alerts[0].message.startswith(f"Metric `b` was not judged for test `{TEST}`")


def test_history_that_overflows_fails_its_metric_alone() -> None:
    rules = {"default": condition({"stddevs_from_mean": 4}, "less")}
    past = [*history([1.7e308, -1.7e308, 1.0]), *history([1.0, 2.0, 1.5], metric="acc")]
    judgement = judged(config(rules), {"loss": 1.0, "acc": 1.0}, past)
    assert [str(one.outcome) for one in judgement.verdicts] == ["fail", "pass"]
    assert "too large" in judgement.verdicts[0].reason


@pytest.mark.parametrize("rule", [config({"loss": FIXED}), config(required_metrics=["loss"])])
def test_two_metrics_with_one_name_fail(rule: RegressionTestConfig) -> None:
    duplicates = [Metric("loss", 1.0, "loss", "final"), Metric("loss", 2.0, "loss", "final")]
    judgement = judge_run(
        rule, duplicates, [], status=JobStatus.SUCCESS, run_key="r", now=history([1.0])[0].timestamp, test=TEST
    )
    (found,) = judgement.verdicts
    assert (found.outcome, found.value) == (Outcome.FAIL, None)
    assert "2 metrics of this name" in found.reason


@pytest.mark.parametrize(
    ("rules", "missing", "has_conditions", "outcome"),
    [
        ({}, {}, False, Outcome.RECORDED),
        ({"metric_success_conditions": {"loss": FIXED}}, {}, True, Outcome.PASS),
        ({"required_metrics": ["loss"]}, {}, True, Outcome.PASS),
        ({}, {"mfu": "no peak is known"}, True, Outcome.FAIL),
        ({"metric_success_conditions": {"other": {**FIXED, "optional": True}}}, {}, True, Outcome.SKIPPED),
        ({"metric_success_conditions": {"loss": DEFAULT}}, {}, True, Outcome.INSUFFICIENT_DATA),
    ],
)
def test_a_run_that_nothing_judges_is_recorded_and_neither_passes_nor_fails(
    rules: dict[str, Any], missing: dict[str, str], has_conditions: bool, outcome: Outcome
) -> None:
    judgement = judged(RegressionTestConfig.model_validate(rules), {"loss": 0.5}, missing=missing)
    assert (judgement.conditions, judgement.outcome) == (has_conditions, outcome)
    assert Judgement.from_document(judgement.document()) == judgement


def test_metrics_without_a_condition_may_share_a_name() -> None:
    duplicates = [Metric("loss", 1.0, "loss", "final"), Metric("loss", 2.0, "loss", "final")]
    now = history([1.0])[0].timestamp
    assert judge_run(config(), duplicates, [], status=JobStatus.SUCCESS, run_key="r", now=now).passed


def test_a_run_whose_conditions_do_not_apply_is_skipped_and_not_recorded() -> None:
    judgement = judged(config({"acc": condition({"fixed_value": 1}, "greater", optional=True)}), {"loss": 1.0})
    assert judgement.outcome is Outcome.SKIPPED
    assert Judgement.from_document(judgement.document()).outcome is Outcome.SKIPPED


def test_a_metric_named_by_a_condition_is_required() -> None:
    judgement = judged(config({"loss": FIXED}), {})
    assert outcomes(judgement) == {"loss": "missing"}
    assert not judgement.passed
    (alert,) = judgement.alerts
    assert (alert.kind, alert.metric) == (AlertKind.MISSING, "loss")
    assert alert.message.startswith(f"Metric `loss` is missing for test `{TEST}`")


def test_a_missing_optional_metric_is_skipped() -> None:
    judgement = judged(config({"loss": {**FIXED, "optional": True}}), {})
    assert outcomes(judgement) == {"loss": "skipped"}
    assert (judgement.alerts, judgement.passed) == ((), True)


def test_required_takes_precedence_over_optional_muting_and_subset() -> None:
    muted = {"alert_for_oob_metrics": False, "metric_subset_to_alert": ["acc"], "required_metrics": ["loss"]}
    judgement = judged(config({"loss": {**FIXED, "optional": True}, "acc": FIXED}, **muted), {"acc": 0.0})
    assert outcomes(judgement) == {"acc": "pass", "loss": "missing"}
    assert [alert.metric for alert in judgement.alerts] == ["loss"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_non_finite_value_breaks_a_metric_with_a_condition(value: float) -> None:
    judgement = judged(config({"default": DEFAULT}), {"loss": value}, history([1.0, 2.0]))
    (found,) = judgement.verdicts
    assert (found.outcome, found.value) == (Outcome.NON_FINITE, None)
    assert found.bounds is not None, "the chart still has its lines"
    assert [alert.kind for alert in judgement.alerts] == [AlertKind.NON_FINITE]
    assert not judgement.passed


def test_a_non_finite_value_without_a_condition_is_recorded() -> None:
    judgement = judged(config(), {"loss": math.nan, "acc": 1.0})
    assert outcomes(judgement) == {"loss": "non_finite"}
    assert (judgement.alerts, judgement.passed) == ((), True)


def test_a_metric_that_was_not_reached_fails_with_the_best_value() -> None:
    reason = "accuracy never reached 0.99: the best value was 0.97"
    judgement = judged(config(), {"acc": 0.97}, missing={"time_to_accuracy": reason})
    (found,) = judgement.verdicts
    assert (found.metric, found.outcome, found.value, found.reason) == (
        "time_to_accuracy",
        "fail",
        None,
        reason,
    )
    assert judgement.alerts[0].message == f"Metric `time_to_accuracy` is missing for test `{TEST}`: {reason}"
    assert not judgement.passed


def test_a_metric_that_disappeared_is_missing_under_the_default_condition() -> None:
    past = [*history([1.0] * 6), *history([1.0] * 6, metric="acc")]
    judgement = judged(config({"default": DEFAULT}), {"acc": 1.0}, past)
    assert outcomes(judgement) == {"acc": "pass", "loss": "missing"}
    assert not judgement.passed


def test_a_metric_stays_missing_until_it_is_back_or_accepted() -> None:
    gone = [point(day, None, outcome="missing") for day in range(6, 60)]
    past = [*history([1.0] * 6), *gone, *history([1.0] * 60, metric="acc")]
    regression = config({"default": DEFAULT})
    assert outcomes(judged(regression, {"acc": 1.0}, past))["loss"] == "missing"
    assert outcomes(judged(regression, {"acc": 1.0, "loss": 1.0}, past))["loss"] == "pass"
    acceptances = [Acceptance(TEST, "loss", "run-00059", START + 60 * DAY)]
    assert "loss" not in outcomes(judged(regression, {"acc": 1.0}, past, acceptances=acceptances))
    since = config({"default": {**DEFAULT, "since": f"{START + 20 * DAY:%Y-%m-%d}"}})
    assert "loss" not in outcomes(judged(since, {"acc": 1.0}, past, acceptances=acceptances))


def test_a_metric_of_a_pattern_is_missed_beside_metrics_that_nothing_judges() -> None:
    rules = config({"acc*": FIXED})
    past = [row for name in ("acc", "acc_top5", "other") for row in history([0.5] * 5, metric=name)]
    assert outcomes(judged(rules, {"acc": 0.5}, past)) == {"acc": "pass", "acc_top5": "missing"}
    optional = config({"acc*": {**FIXED, "optional": True}})
    assert outcomes(judged(optional, {"acc": 0.5}, past)) == {"acc": "pass"}


def test_a_run_without_metrics_fails_under_the_default_condition() -> None:
    nothing = judged(config({"default": DEFAULT}), {}, [point(0, None, outcome="missing", metric="default")])
    assert outcomes(nothing) == {"default": "missing"}
    assert (nothing.alerts[0].message.endswith("the run produced no metric at all"), nothing.passed) == (True, False)
    past = [point(0, None, outcome="missing", metric="default")]
    assert outcomes(judged(config({"default": DEFAULT}), {"loss": 1.0}, past)) == {"loss": "insufficient_data"}


def test_an_optional_default_expects_no_metric() -> None:
    past = [*history([1.0] * 6), *history([1.0] * 6, metric="acc")]
    assert outcomes(judged(config({"default": {**DEFAULT, "optional": True}}), {"acc": 1.0}, past)) == {"acc": "pass"}


def test_a_name_in_the_subset_that_never_exists_is_missing() -> None:
    judgement = judged(config({"default": DEFAULT}, metric_subset_to_alert=["los"]), {"loss": 1.0})
    assert outcomes(judgement) == {"loss": "insufficient_data", "los": "missing"}
    assert [alert.metric for alert in judgement.alerts] == ["los"]


def test_a_name_in_the_subset_without_a_condition_is_skipped_with_a_reason() -> None:
    judgement = judged(config({"acc": FIXED}, metric_subset_to_alert=["acc", "loss"]), {"acc": 0.0, "loss": 9.0})
    assert outcomes(judgement) == {"acc": "pass", "loss": "skipped"}
    assert "no condition covers it" in judgement.verdicts[1].reason


def test_a_required_name_in_the_subset_needs_no_condition() -> None:
    judgement = judged(config(required_metrics=["loss"], metric_subset_to_alert=["loss"]), {"loss": 9.0})
    assert outcomes(judgement) == {"loss": "pass"}


def test_partial_runs_are_not_judged() -> None:
    regression = config({"loss": FIXED, "acc": FIXED}, required_metrics=["steps"])
    judgement = judged(regression, {"loss": 99.0}, status="timeout", missing={"time_to_accuracy": "0.5"})
    assert set(outcomes(judgement).values()) == {"skipped"}
    assert set(outcomes(judgement)) == {"loss", "acc", "steps", "time_to_accuracy"}
    assert [alert.message for alert in judgement.alerts] == [f"job_status was `timeout` for test `{TEST}`"]
    assert not judgement.passed


LESS = condition({"fixed_value": 10}, "less")
VALUES = [1.0] * 17 + [math.nan] * 983
STRATEGIES = [strategy for strategy in Strategy if strategy is not Strategy.COUNT]


def judged_values(values: list[float], strategy: Strategy, **rest: Any) -> tuple[Verdict, Judgement]:
    (metric,) = metrics_of(series(values), [strategy])
    judgement = judge_run(
        config({metric.name: LESS | rest}), [metric], [], status=JobStatus.SUCCESS, run_key="now", now=NOW, test="t"
    )
    return judgement.verdicts[0], judgement


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_metric_with_values_that_are_not_finite_fails_by_default(strategy: Strategy) -> None:
    verdict, judgement = judged_values(VALUES, strategy)
    assert verdict.outcome is Outcome.NON_FINITE
    points = 10 if strategy is Strategy.LAST_N_MEAN else 1000
    assert verdict.non_finite == (1 if strategy is Strategy.LAST_N_MEAN else 0.983)
    assert f"of {points:,} values of loss are not finite, first at step" in verdict.reason
    assert not judgement.passed
    (alert,) = judgement.alerts
    assert alert.kind == "non_finite"
    assert ("is not a finite number" in alert.message) == (verdict.value is None)
    assert Judgement.from_document(judgement.document()) == judgement


@pytest.mark.parametrize("strategy", [Strategy.AVERAGE, Strategy.MIN, Strategy.P90])
def test_a_share_can_be_allowed_and_is_stated(strategy: Strategy) -> None:
    verdict, judgement = judged_values(VALUES, strategy, max_non_finite=0.99)
    assert judgement.passed
    assert verdict.reason == ("983 of 1,000 values of loss are not finite, first at step 17, as max_non_finite allows")


def test_the_reason_names_the_key_and_the_violated_bound() -> None:
    verdict, _ = judged_values([50.0, math.inf, 50.0], Strategy.AVERAGE)
    assert verdict.reason == (
        "1 of 3 values of loss is not finite, first at step 1; max_non_finite of the condition allows a share of 0; "
        "beside that, 50 is above 10"
    )


def test_the_number_of_points_is_right_whatever_their_values() -> None:
    (metric,) = metrics_of(series([1.0, math.nan]), [Strategy.COUNT])
    judgement = judge_run(
        config({"loss_count": LESS}), [metric], [], status=JobStatus.SUCCESS, run_key="now", now=NOW, test="t"
    )
    assert judgement.passed


def test_a_value_that_is_not_finite_fails_whatever_share_is_allowed() -> None:
    verdict, _ = judged_values([1.0, math.nan], Strategy.FINAL, max_non_finite=1)
    assert verdict.outcome is Outcome.NON_FINITE
    assert verdict.reason == "the value is nan; 1 of 2 values of loss is not finite, first at step 1"


@pytest.mark.parametrize("rule", [{"stddevs_from_mean": 4}, {"change_point": {}}, {"percent_difference": 5}])
def test_a_run_that_diverged_is_in_no_baseline(rule: dict[str, Any]) -> None:
    past = history([100.0 + number % 3 for number in range(30)])
    diverged = [replace(row, value=1e6, outcome=Outcome.NON_FINITE, non_finite=0.5) for row in past[5:25]]
    mixed = [*past[:5], *diverged, *past[25:]]
    wanted = judged(config({"loss": condition(rule, "less")}), {"loss": 101.0}, [*past[:5], *past[25:]]).verdicts[0]
    assert judged(config({"loss": condition(rule, "less")}), {"loss": 101.0}, mixed).verdicts[0] == wanted


@pytest.mark.parametrize(("allowed", "outcome"), [(0, Outcome.NON_FINITE), (0.5, Outcome.PASS)])
def test_a_replay_judges_the_stored_share_by_the_given_condition(allowed: float, outcome: Outcome) -> None:
    past = [*history([1.0] * 12)]
    past[11] = replace(past[11], non_finite=0.25)
    found = replay(config({"loss": condition({"change_point": {}}, "less", max_non_finite=allowed)}), past, test=TEST)
    assert found.runs[-1].judgement.verdicts[0].outcome is outcome


BELOW = condition({"fixed_value": 10}, "less")
ABOVE = condition({"fixed_value": 10}, "greater")
SD = condition({"stddevs_from_mean": 4}, "less")
GOODPUT = ("goodput", "badput_tpu_initialization_seconds", "disruptions", "ideal_step_time", "step_time_p90")
PAST = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.0]


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


def test_a_metric_stays_missing_after_a_failed_job() -> None:
    past = [
        *history([1.0] * 6),
        point(6, None, outcome="missing"),
        point(7, None, outcome="skipped", status="failure"),
        *history([1.0] * 8, metric="acc"),
    ]
    assert outcomes(judged(config({"default": DEFAULT}), {"acc": 1.0}, past))["loss"] == "missing"


def test_an_intermittent_metric_is_not_missing() -> None:
    past = [*(point(day, 1.0) for day in range(0, 10, 2)), *history([1.0] * 10, metric="acc")]
    assert outcomes(judged(config({"default": DEFAULT}), {"acc": 1.0}, past)) == {"acc": "pass"}


def test_two_runs_are_too_few_to_expect_a_metric() -> None:
    past = [*history([1.0] * 2), *history([1.0] * 2, metric="acc")]
    assert outcomes(judged(config({"default": DEFAULT}), {"acc": 1.0}, past)) == {"acc": "pass"}
