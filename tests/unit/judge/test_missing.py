"""What is not there never looks like success."""

from __future__ import annotations

import math

import pytest

from ml_metrics.judge import Acceptance, AlertKind, Judgement
from ml_metrics.model import Outcome
from unit.judge.cases import DAY, START, TEST, condition, config, history, judged, point

FIXED = condition({"fixed_value": 1}, "less")
DEFAULT = condition({"stddevs_from_mean": 4}, "less")


def outcomes(judgement: Judgement) -> dict[str, str]:
    return {verdict.metric: str(verdict.outcome) for verdict in judgement.verdicts}


def test_a_metric_that_a_condition_names_must_be_there() -> None:
    judgement = judged(config({"loss": FIXED}), {})
    assert outcomes(judgement) == {"loss": "missing"}
    assert not judgement.passed
    (alert,) = judgement.alerts
    assert (alert.kind, alert.metric) == (AlertKind.MISSING, "loss")
    assert alert.message.startswith(f"Metric `loss` is missing for test `{TEST}`")


def test_optional_lets_a_metric_be_absent_but_does_not_call_that_a_pass() -> None:
    judgement = judged(config({"loss": {**FIXED, "optional": True}}), {})
    assert outcomes(judgement) == {"loss": "skipped"}
    assert (judgement.alerts, judgement.passed) == ((), True)


def test_required_beats_optional_silence_and_subset() -> None:
    quiet = {"alert_for_oob_metrics": False, "metric_subset_to_alert": ["acc"], "required_metrics": ["loss"]}
    judgement = judged(config({"loss": {**FIXED, "optional": True}, "acc": FIXED}, **quiet), {"acc": 0.0})
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
def test_what_is_no_number_breaks_what_a_condition_covers(value: float) -> None:
    judgement = judged(config({"default": DEFAULT}), {"loss": value}, history([1.0, 2.0]))
    (verdict,) = judgement.verdicts
    assert (verdict.outcome, verdict.value) == (Outcome.NON_FINITE, None)
    assert verdict.bounds is not None, "the chart still has its lines"
    assert [alert.kind for alert in judgement.alerts] == [AlertKind.NON_FINITE]
    assert not judgement.passed


def test_what_is_no_number_is_told_in_the_history_even_where_nothing_covers_it() -> None:
    judgement = judged(config(), {"loss": math.nan, "acc": 1.0})
    assert outcomes(judgement) == {"loss": "non_finite"}
    assert (judgement.alerts, judgement.passed) == ((), True)


def test_what_could_not_be_reached_fails_with_the_best_value_reached() -> None:
    reason = "accuracy never reached 0.99: the best value was 0.97"
    judgement = judged(config(), {"acc": 0.97}, missing={"time_to_accuracy": reason})
    (verdict,) = judgement.verdicts
    assert (verdict.metric, verdict.outcome, verdict.value, verdict.reason) == (
        "time_to_accuracy",
        "fail",
        None,
        reason,
    )
    assert judgement.alerts[0].message == f"Metric `time_to_accuracy` is missing for test `{TEST}`: {reason}"
    assert not judgement.passed


def test_a_metric_that_vanished_under_the_default_condition_is_missed() -> None:
    past = [*history([1.0] * 6), *history([1.0] * 6, metric="acc")]
    judgement = judged(config({"default": DEFAULT}), {"acc": 1.0}, past)
    assert outcomes(judgement) == {"acc": "pass", "loss": "missing"}
    assert not judgement.passed


def test_it_stays_missed_until_it_is_back_or_accepted() -> None:
    gone = [point(day, None, outcome="missing") for day in range(6, 60)]
    past = [*history([1.0] * 6), *gone, *history([1.0] * 60, metric="acc")]
    regression = config({"default": DEFAULT})
    assert outcomes(judged(regression, {"acc": 1.0}, past))["loss"] == "missing"
    assert outcomes(judged(regression, {"acc": 1.0, "loss": 1.0}, past))["loss"] == "pass"
    word = [Acceptance(TEST, "loss", "run-00059", START + 60 * DAY)]
    assert "loss" not in outcomes(judged(regression, {"acc": 1.0}, past, acceptances=word))


def test_a_failed_job_in_between_does_not_make_it_forgotten() -> None:
    past = [
        *history([1.0] * 6),
        point(6, None, outcome="missing"),
        point(7, None, outcome="skipped", status="failure"),
        *history([1.0] * 8, metric="acc"),
    ]
    assert outcomes(judged(config({"default": DEFAULT}), {"acc": 1.0}, past))["loss"] == "missing"


def test_a_metric_that_comes_and_goes_is_not_missed() -> None:
    past = [*(point(day, 1.0) for day in range(0, 10, 2)), *history([1.0] * 10, metric="acc")]
    assert outcomes(judged(config({"default": DEFAULT}), {"acc": 1.0}, past)) == {"acc": "pass"}


def test_a_run_without_any_metric_does_not_pass_by_default() -> None:
    nothing = judged(config({"default": DEFAULT}), {}, [point(0, None, outcome="missing", metric="default")])
    assert outcomes(nothing) == {"default": "missing"}
    assert (nothing.alerts[0].message.endswith("the run produced no metric at all"), nothing.passed) == (True, False)
    past = [point(0, None, outcome="missing", metric="default")]
    assert outcomes(judged(config({"default": DEFAULT}), {"loss": 1.0}, past)) == {"loss": "insufficient_data"}


def test_two_runs_are_no_habit() -> None:
    past = [*history([1.0] * 2), *history([1.0] * 2, metric="acc")]
    assert outcomes(judged(config({"default": DEFAULT}), {"acc": 1.0}, past)) == {"acc": "pass"}


def test_an_optional_default_misses_nothing() -> None:
    past = [*history([1.0] * 6), *history([1.0] * 6, metric="acc")]
    assert outcomes(judged(config({"default": {**DEFAULT, "optional": True}}), {"acc": 1.0}, past)) == {"acc": "pass"}


def test_a_metric_that_appears_is_judged_as_its_first_run() -> None:
    judgement = judged(config({"default": DEFAULT}), {"acc": 1.0, "new": 5.0}, history([1.0] * 6, metric="acc"))
    assert outcomes(judgement) == {"acc": "pass", "new": "insufficient_data"}


def test_a_name_in_the_subset_that_never_exists_is_missed() -> None:
    judgement = judged(config({"default": DEFAULT}, metric_subset_to_alert=["los"]), {"loss": 1.0})
    assert outcomes(judgement) == {"loss": "insufficient_data", "los": "missing"}
    assert [alert.metric for alert in judgement.alerts] == ["los"]


def test_a_name_in_the_subset_that_no_condition_covers_is_told() -> None:
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
