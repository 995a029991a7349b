"""Replays: they judge as `judge_run` does, and compare rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.config.conditions import Condition, RegressionTestConfig
from ml_metrics.core.model import JobStatus, Metric, Outcome, StoredMetric
from ml_metrics.core.values import as_utc, finite
from ml_metrics.judge import Acceptance, Change, ComparedRules, Judgement, Replay, compare_rules, judge_run, replay
from ml_metrics.judge.replays import beginnings
from unit.judge.cases import DAY, START, TEST, condition, config, history, point

SPREAD = condition({"stddevs_from_mean": 3}, "less", wait_for_n_points_of_history=5)
STEADY = [10.0, 10.2, 9.9, 10.1, 9.8, 10.0]


def replayed(rows: list[StoredMetric], conditions: dict[str, Any] | None = None, **rest: Any) -> Replay:
    acceptances = rest.pop("acceptances", ())
    return replay(config(conditions or {"loss": SPREAD}, **rest), rows, test=TEST, acceptances=acceptances)


def outcomes(result: Replay, metric: str = "loss") -> list[str]:
    return [str(one.outcome) for run in result.runs for one in run.judgement.verdicts if one.metric == metric]


def test_a_replay_uses_its_own_verdicts_and_not_the_stored_ones() -> None:
    stored_wrongly = [*history(STEADY, outcome="fail"), point(6, 30.0, "pass"), point(7, 30.0, "pass")]
    assert outcomes(replayed(stored_wrongly))[-2:] == ["fail", "fail"]


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


OTHER = "nightly"
METRICS = ("loss", "speed", "size")
RULES: dict[str, dict[str, Any]] = {
    "sd": condition({"stddevs_from_mean": 3}, "less", wait_for_n_points_of_history=3, window=6),
    "MAD of the best": condition({"mads_from_median": 4}, "greater", against="best"),
    "percent in a time window": condition({"percent_difference": 10}, time_window="5d"),
    "percent since": condition({"percent_difference": 10}, "less", since=(START + 4 * DAY).isoformat()),
    "another test": condition({"percent_difference": 10}, compare_to=OTHER),
    "change point": condition({"change_point": {"min_runs": 2}}, "less"),
    "change point in a time window": condition({"change_point": {"min_runs": 2}}, "less", time_window="12d"),
    "on the same node": condition({"stddevs_from_mean": 3}, "less", baseline={"same": ["node_type"]}),
    "change point on the same node": condition({"change_point": {}}, "less", baseline={"same": ["node_type"]}),
    "fixed": condition({"fixed_value": 12}, "less"),
    "relative": condition({"stddevs_from_mean": 3}, "less", relative_to="size"),
    "change point of quotients": condition({"change_point": {"min_runs": 2}}, "less", relative_to="size"),
}
ROWS = st.builds(
    point,
    st.integers(0, 30).map(lambda half: half / 2),
    st.none() | st.sampled_from([10.0, 10.1, 9.9, 10.05, 20.0, 20.1, math.nan, math.inf]) | st.floats(5, 15),
    st.sampled_from([None, "pass", "fail", "missing", "skipped"]),
    metric=st.sampled_from([*METRICS, ""]),
    status=st.sampled_from([*["success"] * 9, "failure"]),
    run=st.sampled_from(["", "", "", "", "a", "b"]),
    test=st.sampled_from([TEST, TEST, TEST, "", OTHER]),
)
SERIES = st.lists(st.sampled_from([10.0, 10.1, 9.9, 20.0, 20.1]), max_size=40).map(
    lambda values: [point(day, value, None) for day, value in enumerate(values)]
)
NODES = {f"run-{day:05}": {"node_type": "large" if day % 3 == 0 else "small"} for day in range(20)}
ACCEPTED = st.lists(
    st.builds(
        Acceptance,
        st.sampled_from([TEST, "", OTHER]),
        st.sampled_from(METRICS),
        st.sampled_from(["a", *[f"run-{day:05}" for day in range(15)]]),
        st.integers(0, 20).map(lambda day: START + day * DAY),
        timestamp=st.none() | st.integers(0, 15).map(lambda day: START + day * DAY),
    ),
    max_size=3,
)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("second", [False, True], ids=["at once", "after the second failure"])
@settings(deadline=None, max_examples=25)
@given(rows=st.lists(ROWS, max_size=60) | SERIES, acceptances=ACCEPTED, naive=st.booleans())
def test_a_replay_is_the_judgement_of_each_run(
    rule: str, second: bool, rows: list[StoredMetric], acceptances: list[Acceptance], naive: bool
) -> None:
    rows = list({(row.test or TEST, row.run_key, row.metric, row.timestamp): row for row in rows}.values())
    if naive:
        rows = [replace(row, timestamp=row.timestamp.replace(tzinfo=None)) for row in rows]
    regression = config(
        {"default": RULES[rule], "size": {**RULES["sd"], "optional": True}},
        alert_after_second_test_failure=second,
        required_metrics=["speed"],
    )
    replayed = replay(regression, rows, test=TEST, acceptances=acceptances, attributes=NODES)
    assert [(run.run_key, run.judgement) for run in replayed.runs] == judged_one_by_one(regression, rows, acceptances)


def judged_one_by_one(
    regression: RegressionTestConfig, rows: list[StoredMetric], acceptances: list[Acceptance]
) -> list[tuple[str, Judgement]]:
    """Judge each run by a new history of all rows before it."""
    own = [row for row in rows if row.test in {"", TEST}]
    ended = {
        key: max(as_utc(row.timestamp) for row in own if row.run_key == key) for key in {row.run_key for row in own}
    }
    stored = [row for row in rows if row.test == OTHER]
    judged: list[tuple[str, Judgement]] = []
    for key in sorted(ended, key=lambda key: (ended[key], key)):
        of_run = [row for row in own if row.run_key == key]
        status = next((row.job_status for row in of_run if row.job_status != "success"), JobStatus.SUCCESS)
        values, missing = produced(of_run)
        judgement = judge_run(
            regression,
            [Metric(name, value, name, "") for name, value in values.items()],
            stored,
            status=status,
            run_key=key,
            now=ended[key],
            missing=missing,
            acceptances=[each for each in acceptances if each.accepted_at <= ended[key]],
            test=TEST,
            attributes=NODES,
        )
        judged.append((key, judgement))
        verdicts = {verdict.metric: verdict.outcome for verdict in judgement.verdicts}
        newest = {row.metric: None for row in of_run} | {name: finite(value) for name, value in values.items()}
        names = dict.fromkeys([*newest, *verdicts])
        stored += [
            StoredMetric(key, ended[key], name, newest.get(name), status, verdicts.get(name), TEST) for name in names
        ]
    return judged


def produced(rows: list[StoredMetric]) -> tuple[dict[str, float], dict[str, str]]:
    """Return the values that a run produced, and why it has no value of others."""
    values: dict[str, float] = {}
    missing: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: (row.metric, as_utc(row.timestamp))):
        if row.value is not None or (row.metric and row.outcome in {None, Outcome.PASS, Outcome.NON_FINITE}):
            if row.metric:
                values[row.metric] = math.nan if row.value is None else row.value
        elif row.metric and row.outcome is Outcome.FAIL:
            missing[row.metric] = "the run stored no value for it"
    return values, {name: why for name, why in missing.items() if name not in values}


LIMIT = condition({"fixed_value": 15}, "less")


def change(index: int, before: float, after: float) -> Change:
    return Change(f"run-{index:05}", START + index * DAY, index, before, after, in_noise=9.0, certainty=0.9)


def everywhere(content: dict[str, Any]) -> Callable[[str], Condition]:
    found = Condition.model_validate(content)
    return lambda _: found


def compared(
    rows: Sequence[StoredMetric], changes: Sequence[Change] = (), rule: dict[str, Any] = LIMIT, **rest: Any
) -> ComparedRules:
    return compare_rules({"rule": everywhere(rule)}, rows, {"loss": changes}, test=TEST, **rest)


def counts(result: ComparedRules) -> dict[str, Any]:
    return result.by_rule["rule"]["loss"].document()


def test_the_runs_before_a_rule_fails() -> None:
    result = compared(history([10.0] * 5 + [14.0] * 3 + [20.0] * 4), [change(5, 10, 18)])
    assert counts(result) == {
        "runs": 12, "fail": 4, "share": 4 / 12, "alerts": 1, "unmatched": 0, "changes": 1, "found": 1, "runs_late": 3
    }  # fmt: skip
    assert result.findings[0].document() == {
        "metric": "loss",
        "uuid": "run-00005",
        "timestamp": "2026-01-06T00:00:00+00:00",
        "before": 10,
        "after": 18,
        "certainty": 0.9,
        "runs_late": {"rule": 3},
    }


def test_a_failure_after_fifteen_runs_or_after_the_next_change_is_too_late() -> None:
    late = compared(history([10.0] * 5 + [14.0] * 15 + [20.0]), [change(5, 10, 14)])
    assert (counts(late)["found"], counts(late)["unmatched"]) == (0, 0)
    after_the_next = compared(history([10.0] * 5 + [14.0] * 3 + [20.0] * 3), [change(5, 10, 14), change(8, 14, 20)])
    assert after_the_next.by_rule["rule"]["loss"].late == {("loss", "run-00005"): None, ("loss", "run-00008"): 0}


@pytest.mark.parametrize(("comparison", "sought"), [("less", [5]), ("greater", [9]), ("within", [5, 9])])
def test_a_rule_looks_for_changes_in_its_own_direction(comparison: str, sought: list[int]) -> None:
    rule = condition({"percent_difference": 10}, comparison)
    result = compared(history([10.0] * 5 + [14.0] * 4 + [10.0] * 3), [change(5, 10, 14), change(9, 14, 10)], rule)
    assert list(result.by_rule["rule"]["loss"].late) == [("loss", f"run-{run:05}") for run in sought]
    assert [list(each.late) for each in result.findings] == [["rule"] if run in sought else [] for run in (5, 9)]


def test_runs_without_a_judged_value_are_no_runs() -> None:
    rows = [*history([10.0, 20.0, None, 20.0]), point(4, 99.0, status="failure"), point(5, float("nan"))]
    result = counts(compared([row for row in rows if row.value is not None], rule=LIMIT))
    assert (result["runs"], result["fail"], result["alerts"]) == (3, 2, 1)
    waiting = counts(compared(history([10.0] * 5), rule={**LIMIT, "wait_for_n_points_of_history": 3}))
    assert (waiting["runs"], waiting["share"]) == (2, 0)
    assert counts(compared(history([10.0]), rule=condition({"stddevs_from_mean": 3})))["share"] is None


@pytest.mark.parametrize(
    ("begins", "unmatched", "late"),
    [(2, 1, None), (3, 0, None), (4, 0, None), (5, 0, 0), (6, 0, 1), (19, 0, 14), (20, 1, None)],
)
def test_an_alert_belongs_to_a_change_from_two_runs_before_it_until_fifteen_runs_after(
    begins: int, unmatched: int, late: int | None
) -> None:
    values = [10.0] * 30
    values[begins] = 20.0
    values[begins + 1] = 20.0 if late is not None else 10.0
    found = counts(compared(history(values), [change(5, 10, 14), change(18, 14, 10)]))
    if begins >= 18:  # the next level has begun, and is better
        late = None
    assert (found["alerts"], found["changes"], found["runs_late"]) == (1, 1, late)
    assert found["unmatched"] == unmatched


def test_a_change_in_a_run_that_is_not_known_is_no_change_of_a_rule() -> None:
    found = compared(history([10.0] * 5 + [20.0] * 3), [change(99, 10, 20)])
    assert (counts(found)["changes"], counts(found)["unmatched"]) == (0, 1)
    assert found.findings[0].late == {}


def test_runs_are_compared_with_those_of_the_same_kind() -> None:
    rows = history([10.0, 11.5] * 12 + [13.0])
    nodes = {row.run_key: {"node_type": "large" if row.value == 10 else "small"} for row in rows}
    rule = {**condition({"percent_difference": 20}, "less"), "baseline": {"same": ["node_type"]}}
    assert counts(compared(rows, rule=rule, attributes=nodes))["fail"] == 0
    assert counts(compared(rows, rule=rule))["fail"] == 1


def test_the_total_and_the_choice_of_metrics() -> None:
    rows = [*history([10.0, 20.0]), *history([20.0, 10.0], metric="speed"), *history([1.0], metric="size")]
    rules = {"all": everywhere(LIMIT), "some": lambda name: Condition.model_validate(LIMIT) if name == "loss" else None}
    result = compare_rules(rules, rows, {}, test=TEST, metrics=["loss", "speed"])
    document = result.document()
    assert list(document) == ["rules", "metrics", "findings"]
    assert (document["rules"]["all"]["runs"], document["rules"]["all"]["fail"]) == (4, 2)
    assert {rule: list(metrics) for rule, metrics in document["metrics"].items()} == {
        "all": ["loss", "speed"], "some": ["loss"]
    }  # fmt: skip
    nothing = compare_rules({"none": lambda _: None}, rows, {}, test=TEST)
    assert nothing.document() == {"rules": {}, "metrics": {"none": {}}, "findings": []}
