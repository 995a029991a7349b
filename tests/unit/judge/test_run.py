"""Judging a run: errors in single rules, and metrics that are missing."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ml_metrics.config.conditions import Condition, RegressionTestConfig
from ml_metrics.core.model import JobStatus, Metric, Outcome
from ml_metrics.judge import Acceptance, Judgement, bounds, judge_run
from ml_metrics.judge.bounds import Span
from ml_metrics.judge.judgement import AlertKind
from unit.judge.cases import DAY, START, TEST, condition, config, history, judged, point

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


def test_two_metrics_with_one_name_fail() -> None:
    duplicates = [Metric("loss", 1.0, "loss", "final"), Metric("loss", 2.0, "loss", "final")]
    rule = config({"loss": condition({"fixed_value": 9}, "less")})
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


def test_without_conditions_there_are_no_verdicts() -> None:
    judgement = judged(config(), {"loss": 1.0})
    assert (judgement.verdicts, judgement.alerts, judgement.passed) == ((), (), True)
    assert judgement.outcome is Outcome.RECORDED
    assert Judgement.from_document(judgement.document()).outcome is Outcome.RECORDED
    assert judged(config(), {"loss": 1.0}, status=JobStatus.FAILURE).outcome is Outcome.FAIL


def test_a_run_whose_conditions_do_not_apply_is_skipped_and_not_recorded() -> None:
    judgement = judged(config({"acc": condition({"fixed_value": 1}, "greater", optional=True)}), {"loss": 1.0})
    assert judgement.outcome is Outcome.SKIPPED
    assert Judgement.from_document(judgement.document()).outcome is Outcome.SKIPPED


def test_a_required_metric_is_a_condition() -> None:
    assert judged(config(required_metrics=["loss"]), {"loss": 1.0}).outcome is Outcome.PASS


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


def test_required_needs_no_condition() -> None:
    regression = config(required_metrics=["loss"])
    assert outcomes(judged(regression, {})) == {"loss": "missing"}
    assert outcomes(judged(regression, {"loss": 3.0, "acc": 1.0})) == {"loss": "pass"}
    unfit = judged(regression, {"loss": math.nan})
    assert outcomes(unfit) == {"loss": "non_finite"}
    assert (len(unfit.alerts), unfit.passed) == (1, False)


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


def test_a_metric_stays_missing_after_a_failed_job() -> None:
    past = [
        *history([1.0] * 6),
        point(6, None, outcome="missing"),
        point(7, None, outcome="skipped", status="failure"),
        *history([1.0] * 8, metric="acc"),
    ]
    assert outcomes(judged(config({"default": DEFAULT}), {"acc": 1.0}, past))["loss"] == "missing"


def test_a_metric_of_a_pattern_is_missed_beside_metrics_that_nothing_judges() -> None:
    rules = config({"acc*": FIXED})
    past = [row for name in ("acc", "acc_top5", "other") for row in history([0.5] * 5, metric=name)]
    assert outcomes(judged(rules, {"acc": 0.5}, past)) == {"acc": "pass", "acc_top5": "missing"}
    optional = config({"acc*": {**FIXED, "optional": True}})
    assert outcomes(judged(optional, {"acc": 0.5}, past)) == {"acc": "pass"}


def test_an_intermittent_metric_is_not_missing() -> None:
    past = [*(point(day, 1.0) for day in range(0, 10, 2)), *history([1.0] * 10, metric="acc")]
    assert outcomes(judged(config({"default": DEFAULT}), {"acc": 1.0}, past)) == {"acc": "pass"}


def test_a_run_without_metrics_fails_under_the_default_condition() -> None:
    nothing = judged(config({"default": DEFAULT}), {}, [point(0, None, outcome="missing", metric="default")])
    assert outcomes(nothing) == {"default": "missing"}
    assert (nothing.alerts[0].message.endswith("the run produced no metric at all"), nothing.passed) == (True, False)
    past = [point(0, None, outcome="missing", metric="default")]
    assert outcomes(judged(config({"default": DEFAULT}), {"loss": 1.0}, past)) == {"loss": "insufficient_data"}


def test_two_runs_are_too_few_to_expect_a_metric() -> None:
    past = [*history([1.0] * 2), *history([1.0] * 2, metric="acc")]
    assert outcomes(judged(config({"default": DEFAULT}), {"acc": 1.0}, past)) == {"acc": "pass"}


def test_an_optional_default_expects_no_metric() -> None:
    past = [*history([1.0] * 6), *history([1.0] * 6, metric="acc")]
    assert outcomes(judged(config({"default": {**DEFAULT, "optional": True}}), {"acc": 1.0}, past)) == {"acc": "pass"}


def test_a_new_metric_has_insufficient_data() -> None:
    judgement = judged(config({"default": DEFAULT}), {"acc": 1.0, "new": 5.0}, history([1.0] * 6, metric="acc"))
    assert outcomes(judgement) == {"acc": "pass", "new": "insufficient_data"}


def test_a_name_in_the_subset_that_never_exists_is_missing() -> None:
    judgement = judged(config({"default": DEFAULT}, metric_subset_to_alert=["los"]), {"loss": 1.0})
    assert outcomes(judgement) == {"loss": "insufficient_data", "los": "missing"}
    assert [alert.metric for alert in judgement.alerts] == ["los"]


def test_a_name_in_the_subset_without_a_condition_is_skipped_with_a_reason() -> None:
    judgement = judged(config({"acc": FIXED}, metric_subset_to_alert=["acc", "loss"]), {"acc": 0.0, "loss": 9.0})
    assert outcomes(judgement) == {"acc": "pass", "loss": "skipped"}
    assert "no condition covers it" in judgement.verdicts[1].reason


def test_partial_runs_are_not_judged() -> None:
    regression = config({"loss": FIXED, "acc": FIXED}, required_metrics=["steps"])
    judgement = judged(regression, {"loss": 99.0}, status="timeout", missing={"time_to_accuracy": "0.5"})
    assert set(outcomes(judgement).values()) == {"skipped"}
    assert set(outcomes(judgement)) == {"loss", "acc", "steps", "time_to_accuracy"}
    assert [alert.message for alert in judgement.alerts] == [f"job_status was `timeout` for test `{TEST}`"]
    assert not judgement.passed
