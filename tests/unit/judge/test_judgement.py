"""What a run comes to, its alerts, what confirms them, and that its document says all of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import Bounds, CurveBand, JobStatus, Metric, Outcome, Severity, Verdict
from ml_metrics.judge import Alert, ConfirmingRun, Judgement, confirming_run, judge_run, origin_of
from ml_metrics.judge.judgement import AlertKind, Unconfirmed, verdict_document
from unit.judge.cases import NOW, TEST, condition, config, history, judged, noisy, point

VERDICT = Verdict("loss", Outcome.PASS, 1.5, Bounds(1, 2), "within (1, 2)", reason="fine")
PLAIN = {
    "metric": "loss",
    "value": 1.5,
    "lower": 1,
    "upper": 2,
    "inclusive": False,
    "verdict": "pass",
    "rule": "within (1, 2)",
    "baseline_points": 0,
    "reference": None,
    "spread": None,
    "reason": "fine",
}


@pytest.mark.parametrize(
    ("outcomes", "passed", "conditions", "whole"),
    [
        (["pass", "skipped", "insufficient_data"], True, True, "pass"),
        (["insufficient_data", "pass"], True, True, "pass"),
        (["skipped", "insufficient_data"], True, True, "insufficient_data"),
        (["skipped"], True, True, "skipped"),
        ([], True, True, "skipped"),
        (["skipped"], True, False, "recorded"),
        ([], True, False, "recorded"),
        (["pass"], False, True, "fail"),
        ([], False, False, "fail"),
        (["fail", "pass"], True, True, "pass"),
    ],
)
def test_a_run_passes_only_if_something_was_checked_and_nothing_is_broken(
    outcomes: list[str], passed: bool, conditions: bool, whole: str
) -> None:
    verdicts = tuple(replace(VERDICT, outcome=Outcome(outcome)) for outcome in outcomes)
    assert Judgement(verdicts, (), passed, conditions=conditions).outcome == whole


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        ({}, {}),
        ({"bounds": None}, {"lower": None, "upper": None}),
        ({"bounds": Bounds(-math.inf, 2, inclusive=True)}, {"lower": None, "inclusive": True}),
        ({"value": None}, {"value": None}),
        ({"reference": 1.4, "spread": 0.0}, {"reference": 1.4, "spread": 0}),
        ({"baseline_points": 7}, {"baseline_points": 7}),
        ({"false_alarm_rate": 0.0}, {"false_alarm_rate": 0}),
        ({"non_finite": 0.0}, {"non_finite": 0}),
        ({"severity": Severity.WARN}, {"severity": "warn"}),
        ({"implausible": True}, {"implausible": True}),
        ({"unit": "ms", "condition": "lo*"}, {"unit": "ms", "condition": "lo*"}),
    ],
)
def test_the_document_of_a_verdict_has_what_is_known(change: dict[str, object], keys: dict[str, object]) -> None:
    verdict = replace(VERDICT, **change)
    assert verdict_document(verdict) == PLAIN | keys
    judgement = Judgement((verdict,), (), passed=True)
    assert Judgement.from_document(json.loads(json.dumps(judgement.document()))) == judgement


def test_the_document_of_a_curve_has_its_band() -> None:
    verdict = replace(VERDICT, band=CurveBand((1, 2), (0.5, 0.6), (1.5, 1.6)))
    assert set(verdict_document(verdict)) - set(PLAIN) == {"band"}
    judgement = Judgement((verdict,), (), passed=True)
    assert Judgement.from_document(json.loads(json.dumps(judgement.document()))) == judgement


def test_the_document_of_a_judgement() -> None:
    alerts = (Alert(AlertKind.JOB_STATUS, None, "failed", "OOMKilled"), Alert(AlertKind.MISSING, "loss", "no loss"))
    whole = Judgement((), alerts, False, (Unconfirmed("acc", 1, 3, rerun=True),), conditions=False)
    assert whole.document() == {
        "passed": False,
        "verdicts": [],
        "alerts": [
            {"kind": "job_status", "metric": None, "message": "failed", "reason": "OOMKilled"},
            {"kind": "missing", "metric": "loss", "message": "no loss"},
        ],
        "unconfirmed": [{"metric": "acc", "broken": 1, "required": 3, "rerun": True}],
        "conditions": False,
    }
    assert Judgement.from_document(json.loads(json.dumps(whole.document()))) == whole
    assert Judgement((), (), True).document() == {"passed": True, "verdicts": [], "alerts": []}


def test_an_older_document_lacks_what_is_new() -> None:
    old = {key: value for key, value in PLAIN.items() if key not in {"reference", "spread"}}
    judgement = Judgement.from_document({"passed": True, "verdicts": [old], "alerts": []})
    assert judgement == Judgement((VERDICT,), (), passed=True)


@pytest.mark.parametrize(
    "document", [{}, {"passed": True, "verdicts": [{}], "alerts": []}, {"passed": 1, "verdicts": 3}]
)
def test_no_other_document_is_taken_for_a_judgement(document: dict[str, object]) -> None:
    with pytest.raises(UnreadableInputError, match="not a judgement document"):
        Judgement.from_document(document)


BELOW_ONE = condition({"fixed_value": 1}, "less")
TWICE = {"alert_after_second_test_failure": True}


def alerted_metrics(judgement: Any) -> list[str | None]:
    return [alert.metric for alert in judgement.alerts]


@pytest.mark.parametrize("status", ["failure", "timeout", "missed"])
def test_a_failed_job_alerts_without_any_config(status: str) -> None:
    (alert,) = judged(config(), {}, status=status, failure_reason="OOMKilled").alerts
    assert alert.message == f"job_status was `{status}` for test `{TEST}`"
    assert (alert.kind, alert.metric, alert.reason) == (AlertKind.JOB_STATUS, None, "OOMKilled")


def test_a_muted_failed_job_still_fails_the_run() -> None:
    judgement = judged(config(alert_for_failed_jobs=False), {}, status="failure")
    assert (judgement.alerts, judgement.passed) == ((), False)


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


def test_neither_a_value_that_passes_nor_one_that_is_muted_waits_for_another_run() -> None:
    for judgement in (
        judged(confirmed_by(2, **TWICE), {"loss": 0.5}),
        judged(confirmed_by(2, alert_for_oob_metrics=False), {"loss": 5.0}),
    ):
        assert judgement.unconfirmed == ()
        assert "confirmed" not in judgement.verdicts[0].reason


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


@pytest.mark.parametrize("values", [{}, {"loss": float("nan")}])
def test_what_is_no_value_alerts_at_once(values: dict[str, float]) -> None:
    judgement = judged(confirmed_by(2), values)
    assert alerted_metrics(judgement) == ["loss"]
    assert "confirmed" not in judgement.verdicts[0].reason


def test_a_failed_job_alerts_at_once_and_is_not_run_again() -> None:
    judgement = judged(confirmed_by(2), {"loss": 5.0}, status="failure")
    assert len(judgement.alerts) == 1
    assert judgement.unconfirmed == ()


@pytest.mark.parametrize(
    ("confirm", "required", "rerun"), [(3, 3, True), (2, 2, True), (1, 2, False), (None, 2, False)]
)
def test_the_greater_of_both_settings_counts(confirm: int | None, required: int, *, rerun: bool) -> None:
    judgement = judged(confirmed_by(confirm, **TWICE), {"loss": 5.0})
    assert judgement.unconfirmed == (Unconfirmed("loss", 1, required, rerun=rerun),)


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


def test_a_metric_that_nothing_names_has_a_verdict_only_if_it_is_not_finite() -> None:
    (verdict,) = judged(config(), {"other": math.inf, "fine": 1.0}).verdicts
    assert (verdict.metric, verdict.outcome, verdict.severity, verdict.rule) == ("other", "non_finite", "warn", "")


@pytest.mark.parametrize(("comparison", "value"), [("less", 85.0), ("greater", 115.0)])
def test_what_is_too_good_is_measured_beside_the_newest_fifty_runs(comparison: str, value: float) -> None:
    """Runs before them may have had far more noise."""
    rule = config({"loss": {"comparison": comparison, "window": 200}})
    past = history([*noisy([(100, 100)], noise=6), *noisy([(100, 50)], 2, noise=0.5)])
    (verdict,) = judged(rule, {"loss": value}, past).verdicts
    assert (verdict.outcome, verdict.implausible) == ("pass", True)


SCHEDULED = "scheduled__2026-01-02T03:00:00+00:00"
ONE_OF_TWO = Unconfirmed("loss", 1, 2, rerun=True)


def test_a_run_is_confirmed_by_a_run_with_its_name() -> None:
    assert confirming_run(SCHEDULED, [ONE_OF_TWO]) == ConfirmingRun(
        f"confirm__{SCHEDULED}__1", f"Confirms {SCHEDULED}: loss (1 of 2 runs)"
    )


def test_the_confirming_run_continues_the_count() -> None:
    two_of_three = Unconfirmed("loss", 2, 3, rerun=True)
    found = confirming_run(f"confirm__{SCHEDULED}__1", [two_of_three])
    assert found is not None
    assert found.run_id == f"confirm__{SCHEDULED}__2"
    assert confirming_run(found.run_id, [two_of_three]) is None


def test_verdicts_that_wait_for_the_next_run_start_none() -> None:
    assert confirming_run(SCHEDULED, [Unconfirmed("loss", 1, 2)]) is None
    assert confirming_run(SCHEDULED, []) is None


@given(st.text(min_size=1, max_size=250), st.integers(2, 5))
def test_every_chain_of_failures_is_short_and_has_valid_run_ids(run_id: str, required: int) -> None:
    _, before = origin_of(run_id)
    found, seen = confirming_run(run_id, [Unconfirmed("loss", 1, required, rerun=True)]), []
    while found is not None:
        assert len(found.run_id) <= 250
        seen.append(found.run_id)
        found = confirming_run(found.run_id, [Unconfirmed("loss", 1, required, rerun=True)])
    assert len(seen) == max(0, required - 1 - before)
    assert len(set(seen)) == len(seen)


@given(st.text(min_size=200, max_size=250), st.text(min_size=200, max_size=250))
def test_two_runs_never_share_their_confirmation(one: str, other: str) -> None:
    first, second = (confirming_run(run_id, [ONE_OF_TWO]) for run_id in (one, other))
    if first is not None and second is not None:
        assert (first.run_id == second.run_id) == (origin_of(one) == origin_of(other))


def test_muted_metrics_keep_bounds_and_verdicts() -> None:
    judgement = judged(config({"loss": BELOW_ONE}, alert_for_oob_metrics=False), {"loss": 5.0})
    assert judgement.alerts == ()
    assert judgement.verdicts[0].outcome == "fail"
    assert judgement.verdicts[0].bounds is not None
    assert not judgement.passed


def test_a_failed_job_in_between_is_ignored() -> None:
    regression = config({"loss": BELOW_ONE}, **TWICE)
    past = [point(1, 5.0, outcome="fail"), point(2, 5.0, outcome="skipped", status="failure")]
    assert alerted_metrics(judged(regression, {"loss": 5.0}, past)) == ["loss"]


@given(st.integers(1, 5), st.lists(st.booleans(), max_size=12))
def test_an_alert_has_as_many_broken_runs_before_it_as_required(runs: int, broken: list[bool]) -> None:
    found = states(confirmed_by(runs), [5.0 if each else 0.0 for each in broken])
    for number, (alerts, _) in enumerate(found):
        newest = broken[max(0, number + 1 - runs) : number + 1]
        assert alerts == (len(newest) == runs and all(newest))
