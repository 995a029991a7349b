"""Which verdicts alert, and the texts of alerts."""

from __future__ import annotations

from typing import Any

import pytest

from ml_metrics.judge import Alert, AlertKind
from unit.judge.cases import TEST, condition, config, history, judged, point

BELOW_ONE = condition({"fixed_value": 1}, "less")
TWICE = {"alert_after_second_test_failure": True}


def alerted_metrics(judgement: Any) -> list[str | None]:
    return [alert.metric for alert in judgement.alerts]


def test_the_alert_message_of_an_out_of_bounds_metric() -> None:
    rule = condition({"fixed_value": 0.96}, "greater")
    judgement = judged(
        config({"epoch_sparse_categorical_accuracy_final": rule}),
        {"epoch_sparse_categorical_accuracy_final": 0.7912345678},
    )
    assert judgement.alerts == (
        Alert(
            AlertKind.OUT_OF_BOUNDS,
            "epoch_sparse_categorical_accuracy_final",
            "Metric `epoch_sparse_categorical_accuracy_final` was out of bounds for test `tf-mnist-example-cpu`. "
            "Bounds were (0.96, inf) and value was 0.791235",
        ),
    )


def test_small_numbers_keep_their_digits() -> None:
    rule = condition({"within_bounds": {"lower": 1e-5, "upper": 2e-5}})
    (alert,) = judged(config({"loss": rule}), {"loss": 1.2345678e-4}).alerts
    assert alert.message.endswith("Bounds were (1e-05, 2e-05) and value was 0.000123457")


@pytest.mark.parametrize("status", ["failure", "timeout", "missed"])
def test_a_failed_job_alerts_without_any_config(status: str) -> None:
    (alert,) = judged(config(), {}, status=status, failure_reason="OOMKilled").alerts
    assert alert.message == f"job_status was `{status}` for test `{TEST}`"
    assert (alert.kind, alert.metric, alert.reason) == (AlertKind.JOB_STATUS, None, "OOMKilled")


def test_a_muted_failed_job_still_fails_the_run() -> None:
    judgement = judged(config(alert_for_failed_jobs=False), {}, status="failure")
    assert (judgement.alerts, judgement.passed) == ((), False)


def test_muted_metrics_keep_bounds_and_verdicts() -> None:
    judgement = judged(config({"loss": BELOW_ONE}, alert_for_oob_metrics=False), {"loss": 5.0})
    assert judgement.alerts == ()
    assert judgement.verdicts[0].outcome == "fail"
    assert judgement.verdicts[0].bounds is not None
    assert not judgement.passed


def test_only_the_subset_alerts_but_all_have_bounds() -> None:
    regression = config({"default": BELOW_ONE}, metric_subset_to_alert=["acc"])
    judgement = judged(regression, {"loss": 5.0, "acc": 5.0})
    assert alerted_metrics(judgement) == ["acc"]
    assert [verdict.outcome for verdict in judgement.verdicts] == ["fail", "fail"]


def test_a_warning_alerts_and_does_not_fail_the_run() -> None:
    judgement = judged(config({"loss": {**BELOW_ONE, "severity": "warn"}}), {"loss": 5.0})
    assert alerted_metrics(judgement) == ["loss"]
    assert judgement.passed


def test_the_first_failure_does_not_alert_if_a_second_is_required() -> None:
    regression = config({"loss": BELOW_ONE}, **TWICE)
    assert alerted_metrics(judged(regression, {"loss": 5.0})) == []
    assert alerted_metrics(judged(regression, {"loss": 5.0}, history([0.0] * 5))) == []
    assert alerted_metrics(judged(regression, {"loss": 5.0}, [*history([0.0] * 5), point(5, 5.0, outcome="fail")])) == [
        "loss"
    ]


def test_a_lasting_regression_alerts_from_its_second_run_on() -> None:
    regression = config({"loss": condition({"stddevs_from_mean": 4}, "less")}, **TWICE)
    past = history([1.0, 1.1, 0.9, 1.0, 1.05])
    alerts = 0
    for day in range(5, 15):
        judgement = judged(regression, {"loss": 9.0}, past)
        alerts += len(judgement.alerts)
        past.append(point(day, 9.0, outcome=judgement.verdicts[0].outcome))
    assert alerts == 9


@pytest.mark.parametrize("outcome", ["missing", "non_finite", "fail"])
def test_any_broken_verdict_counts_as_the_first_failure(outcome: str) -> None:
    regression = config({"loss": BELOW_ONE}, **TWICE)
    assert alerted_metrics(judged(regression, {"loss": 5.0}, [point(1, None, outcome=outcome)])) == ["loss"]


@pytest.mark.parametrize("outcome", ["pass", "insufficient_data", None])
def test_no_other_verdict_counts_as_the_first_failure(outcome: str | None) -> None:
    regression = config({"loss": BELOW_ONE}, **TWICE)
    past = [point(1, 5.0, outcome="fail"), point(2, 0.0, outcome=outcome)]
    assert alerted_metrics(judged(regression, {"loss": 5.0}, past)) == []


def test_a_failed_job_in_between_is_ignored() -> None:
    regression = config({"loss": BELOW_ONE}, **TWICE)
    past = [point(1, 5.0, outcome="fail"), point(2, 5.0, outcome="skipped", status="failure")]
    assert alerted_metrics(judged(regression, {"loss": 5.0}, past)) == ["loss"]


def test_a_second_failed_job_alerts() -> None:
    regression = config(**TWICE)
    assert judged(regression, {}, status="failure").alerts == ()
    assert judged(regression, {}, [point(1, 1.0)], status="failure").alerts == ()
    without_metrics = point(2, None, outcome=None, metric="", status="timeout")
    assert len(judged(regression, {}, [point(1, 1.0), without_metrics], status="failure").alerts) == 1
