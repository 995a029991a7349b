"""Which verdicts alert, and the texts of alerts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.judge import Alert, Judgement
from ml_metrics.judge.judgement import AlertKind, Unconfirmed
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
    regression = config({"default": BELOW_ONE}, metric_subset_to_alert=["perp*"])
    judgement = judged(regression, {"loss": 5.0, "perplexity": 5.0})
    assert alerted_metrics(judgement) == ["perplexity"]
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


def confirmed_by(confirm: Any, threshold: dict[str, Any] | None = None, **rest: Any) -> Any:
    return config({"loss": condition(threshold or {"fixed_value": 1}, "less", confirm=confirm)}, **rest)


def states(runs: Any, values: list[float]) -> list[tuple[int, str]]:
    """Judge one value after the other; return the number of alerts and the end of the reason of each."""
    past, found = [], []
    for day, value in enumerate(values):
        judgement = judged(runs, {"loss": value}, past)
        (verdict,) = judgement.verdicts
        found.append((len(judgement.alerts), verdict.reason.rpartition("; ")[2] if verdict.broken else "passed"))
        past.append(point(day, value, verdict.outcome))
    return found


@pytest.mark.parametrize("confirm", [3, {"runs": 3}, {"runs": 3, "by": "next"}])
def test_a_value_is_confirmed_by_runs_in_a_row(confirm: Any) -> None:
    assert states(confirmed_by(confirm), [5, 5, 0, 5, 5, 5, 5]) == [
        (0, "not yet confirmed: 1 of 3 runs"),
        (0, "not yet confirmed: 2 of 3 runs"),
        (0, "passed"),
        (0, "not yet confirmed: 1 of 3 runs"),
        (0, "not yet confirmed: 2 of 3 runs"),
        (1, "confirmed by 3 runs"),
        (1, "confirmed by 4 runs"),
    ]


def test_an_unconfirmed_value_is_stored_as_failed_and_fails_the_run() -> None:
    judgement = judged(confirmed_by(2), {"loss": 5.0})
    assert judgement.verdicts[0].outcome == "fail"
    assert not judgement.passed
    assert judgement.unconfirmed == (Unconfirmed("loss", 1, 2, rerun=True),)
    assert Judgement.from_document(json.loads(json.dumps(judgement.document()))) == judgement


def test_a_judgement_without_unconfirmed_verdicts_has_no_such_key() -> None:
    assert "unconfirmed" not in judged(confirmed_by(1), {"loss": 5.0}).document()


@pytest.mark.parametrize(
    ("within", "threshold", "value", "alerts"),
    [
        ({"percent": 5}, {"fixed_value": 100}, 105.0, 0),
        ({"percent": 5}, {"fixed_value": 100}, 105.1, 1),
        ({"percent": 5}, {"fixed_value": -100}, -95.0, 0),
        ({"percent": 5}, {"fixed_value": 0}, 0.001, 1),
        ({"absolute": 0.5}, {"fixed_value": 0}, 0.5, 0),
        ({"absolute": 0.5}, {"fixed_value": 0}, 0.6, 1),
        ({"percent": 5, "absolute": 10}, {"fixed_value": 100}, 110.0, 0),
        ({"percent": 0}, {"fixed_value": 100}, 100.0, 0),
    ],
)
def test_only_values_near_their_bound_need_confirmation(
    within: dict[str, float], threshold: dict[str, float], value: float, alerts: int
) -> None:
    assert len(judged(confirmed_by({"within": within}, threshold), {"loss": value}).alerts) == alerts


def test_the_near_bound_is_the_violated_one() -> None:
    rule = condition({"within_bounds": {"lower": 1, "upper": 1000}}, confirm={"within": {"percent": 50}})
    assert alerted_metrics(judged(config({"loss": rule}), {"loss": 0.5})) == []
    assert alerted_metrics(judged(config({"loss": rule}), {"loss": 0.4})) == ["loss"]
    assert alerted_metrics(judged(config({"loss": rule}), {"loss": 1500.0})) == []


@pytest.mark.parametrize("values", [{}, {"loss": float("nan")}])
def test_what_is_no_value_alerts_at_once(values: dict[str, float]) -> None:
    judgement = judged(confirmed_by(2), values)
    assert alerted_metrics(judgement) == ["loss"]
    assert "confirmed" not in judgement.verdicts[0].reason


def test_a_failed_job_alerts_at_once_and_is_not_run_again() -> None:
    judgement = judged(confirmed_by(2), {"loss": 5.0}, status="failure")
    assert len(judgement.alerts) == 1
    assert judgement.unconfirmed == ()


@pytest.mark.parametrize("muted", [{"alert_for_oob_metrics": False}, {"metric_subset_to_alert": ["speed"]}])
def test_a_muted_metric_is_not_confirmed(muted: dict[str, Any]) -> None:
    judgement = judged(confirmed_by(2, **muted), {"loss": 5.0, "speed": 1.0})
    assert judgement.unconfirmed == ()
    assert all("confirmed" not in verdict.reason for verdict in judgement.verdicts)


@pytest.mark.parametrize(
    ("confirm", "required", "rerun"), [(3, 3, True), (2, 2, True), (1, 2, False), (None, 2, False)]
)
def test_the_greater_of_both_settings_counts(confirm: int | None, required: int, *, rerun: bool) -> None:
    judgement = judged(confirmed_by(confirm, **TWICE), {"loss": 5.0})
    assert judgement.unconfirmed == (Unconfirmed("loss", 1, required, rerun=rerun),)


def test_the_other_metrics_alert_at_once() -> None:
    regression = config({"loss": {**BELOW_ONE, "confirm": 2}, "default": BELOW_ONE})
    judgement = judged(regression, {"loss": 5.0, "speed": 5.0})
    assert alerted_metrics(judgement) == ["speed"]


def test_the_message_about_a_confirmed_value_is_the_usual_one() -> None:
    (alert,) = judged(confirmed_by(2), {"loss": 5.0}, [point(1, 5.0, outcome="fail")]).alerts
    assert alert.message == f"Metric `loss` was out of bounds for test `{TEST}`. Bounds were (-inf, 1) and value was 5"


@given(st.integers(1, 5), st.lists(st.booleans(), max_size=12))
def test_an_alert_has_as_many_broken_runs_before_it_as_required(runs: int, broken: list[bool]) -> None:
    found = states(confirmed_by(runs), [5.0 if each else 0.0 for each in broken])
    for number, (alerts, _) in enumerate(found):
        newest = broken[max(0, number + 1 - runs) : number + 1]
        assert alerts == (len(newest) == runs and all(newest))


def test_a_change_of_level_is_confirmed_as_well() -> None:
    regression = config({"loss": {"comparison": "less", "confirm": {"runs": 2, "by": "next"}}})
    noise = [100 + (day * 7919 % 13 - 6) / 10 for day in range(40)]
    found = states(regression, [*noise, *(value + 30 for value in noise[:10])])
    alerts = [alerts for alerts, _ in found]
    reasons = [reason for _, reason in found if "confirmed" in reason]
    assert reasons[0] == "not yet confirmed: 1 of 2 runs"
    assert reasons[1] == "confirmed by 2 runs"
    assert sum(alerts) == len(reasons) - 1 > 0
