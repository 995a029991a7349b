"""A replay returns what the judge would have returned at the time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.core.model import JobStatus, Metric, Outcome, StoredMetric
from ml_metrics.judge import Acceptance, Replay, judge_run, replay
from ml_metrics.judge.replays import beginnings
from unit.judge.cases import DAY, START, TEST, condition, config, history, point

SPREAD = condition({"stddevs_from_mean": 3}, "less", wait_for_n_points_of_history=5)
STEADY = [10.0, 10.2, 9.9, 10.1, 9.8, 10.0]


def replayed(rows: list[StoredMetric], conditions: dict[str, Any] | None = None, **rest: Any) -> Replay:
    acceptances = rest.pop("acceptances", ())
    return replay(config(conditions or {"loss": SPREAD}, **rest), rows, test=TEST, acceptances=acceptances)


def outcomes(result: Replay, metric: str = "loss") -> list[str]:
    return [str(one.outcome) for run in result.runs for one in run.judgement.verdicts if one.metric == metric]


def test_each_run_is_judged_by_those_before_it() -> None:
    result = replayed(history([*STEADY, 30.0, 10.0]))
    assert outcomes(result) == [*["insufficient_data"] * 5, "pass", "fail", "pass"]
    assert result.summary() == {"loss": {"runs": 8, "fail": 1, "alerts": 1}}
    assert not result.passed


def test_a_replay_uses_its_own_verdicts_and_not_the_stored_ones() -> None:
    stored_wrongly = [*history(STEADY, outcome="fail"), point(6, 30.0, "pass"), point(7, 30.0, "pass")]
    assert outcomes(replayed(stored_wrongly))[-2:] == ["fail", "fail"]


def test_an_accepted_level_applies_from_its_acceptance() -> None:
    rows = history([*STEADY, *[30.0, 30.1, 29.9, 30.2, 30.0, 30.1, 30.0]])
    acceptance = Acceptance(TEST, "loss", "run-00006", START + 10.5 * DAY)
    assert outcomes(replayed(rows, acceptances=[acceptance]))[6:] == [*["fail"] * 5, "pass", "pass"]


def test_runs_are_ordered_by_their_end() -> None:
    early = point(1, 5.0, run="slow", metric="warm_up")
    late = point(9, 1.0, run="slow")
    result = replayed([late, *history(STEADY), early])
    assert [run.run_key for run in result.runs][-1] == "slow"
    assert result.runs[-1].timestamp == START + 9 * DAY


def test_failed_jobs_missing_values_and_nan_are_replayed() -> None:
    rows = [
        *history(STEADY),
        point(6, 99.0, None, status="failure"),
        point(7, None, "non_finite"),
        point(8, None, "missing"),
        point(9, None, None, metric="", status="timeout"),
        point(10, None, "fail"),
    ]
    assert outcomes(replayed(rows))[6:] == ["skipped", "non_finite", "missing", "skipped", "fail"]
    kinds = [alert.kind for run in replayed(rows).runs for alert in run.judgement.alerts]
    assert kinds == ["job_status", "non_finite", "missing", "job_status", "missing"]


def test_other_tests_are_used_by_compare_to() -> None:
    rule = condition({"percent_difference": 10}, "within", compare_to="nightly")
    rows = [*history([10.0, 10.0, 20.0]), *history([10.0] * 3, test="nightly", run="")]
    assert outcomes(replayed(rows, {"loss": rule})) == ["insufficient_data", "pass", "fail"]


VALUES = st.lists(st.one_of(st.floats(-50, 50), st.sampled_from([10.0, 30.0])), min_size=1, max_size=30)


@pytest.mark.parametrize("second", [False, True])
@settings(deadline=None)  # a slow machine must not fail the test
@given(values=VALUES)
def test_a_replay_equals_judging_run_by_run(second: bool, values: list[float]) -> None:
    regression = config({"loss": {**SPREAD, "window": 6}}, alert_after_second_test_failure=second)
    stored: list[StoredMetric] = []
    for run in replay(regression, history(values, outcome=None), test=TEST).runs:
        value = values[len(stored)]
        judgement = judge_run(
            regression,
            [Metric("loss", value, "loss", "final")],
            stored,
            status=JobStatus.SUCCESS,
            run_key=run.run_key,
            now=run.timestamp,
            test=TEST,
        )
        assert judgement == run.judgement
        stored.append(point(len(stored), value, judgement.verdicts[0].outcome))


def test_a_long_failure_is_compared_with_the_baseline_before_it() -> None:
    rows = history([*STEADY, *[30.0] * 400], outcome=None)
    assert outcomes(replayed(rows, {"loss": {**SPREAD, "window": 6}}))[6:] == ["fail"] * 400


def test_a_future_acceptance_is_ignored() -> None:
    rows = history([*STEADY, 30.0])
    acceptance = Acceptance(TEST, "loss", "run-00006", rows[-1].timestamp + timedelta(days=9))
    assert replayed(rows, acceptances=[acceptance]) == replayed(rows)


def test_the_document_of_a_replay() -> None:
    document = replayed(history([*STEADY, 30.0])).document()
    assert set(document) == {"runs", "summary"}
    assert set(document["runs"][-1]) == {"uuid", "timestamp", "verdicts", "alerts"}
    assert document["runs"][-1]["timestamp"] == "2026-01-07T00:00:00+00:00"
    assert document["runs"][-1]["verdicts"][0]["verdict"] == Outcome.FAIL


@pytest.mark.parametrize(
    ("failing", "places"),
    [
        ([], []),
        ([True], [0]),
        ([False, False], []),
        ([True, True, False, True, False, False, True, True], [0, 3, 6]),
    ],
)
def test_an_alert_is_the_first_of_failures_in_a_row(failing: list[bool], places: list[int]) -> None:
    assert beginnings(failing) == places


def test_the_summary_counts_runs_failures_and_alerts_of_each_metric_in_order() -> None:
    rule = condition({"fixed_value": 15}, "less")
    rows = [
        *history([10.0, 20.0, 20.0, 10.0]),
        *history([20.0, 20.0, 10.0], metric="acc"),
        point(4, None, "fail", metric="acc"),
        point(5, 1.0, metric="loss", status="failure"),
    ]
    found = replayed(rows, {"loss": rule, "acc": {**rule, "confirm": 2}})
    assert list(found.summary().items()) == [
        ("acc", {"runs": 6, "fail": 3, "alerts": 3}),
        ("loss", {"runs": 6, "fail": 2, "alerts": 3}),
    ]
    assert not found.passed
    assert replayed(rows[:1], {"loss": rule}).passed


def test_a_row_of_a_run_is_its_newest_and_of_the_same_time_its_worst() -> None:
    rule = condition({"fixed_value": 15}, "less")
    rows = [
        point(1, 20.0, run="a"),
        point(2, 10.0, run="a"),
        point(2, 12.0, run="a"),
        point(1.5, 99.0, run="a"),
        point(3, None, "missing", run="a"),
        point(3, None, "skipped", run="b"),
        point(4, None, "fail", run="b", metric="acc"),
    ]
    first, second = replayed(rows, {"loss": rule}).runs
    assert (first.run_key, first.timestamp) == ("a", START + 3 * DAY)
    assert [(one.metric, one.value, str(one.outcome)) for one in first.judgement.verdicts] == [("loss", 12, "pass")]
    assert [(one.metric, one.value, one.reason) for one in second.judgement.verdicts] == [
        ("loss", None, "the run did not produce it"), ("acc", None, "the run stored no value for it")
    ]  # fmt: skip
