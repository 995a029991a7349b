"""A replay, which adds each run to one history, returns exactly what `judge_run` does for all rows before each run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.core.model import JobStatus, Metric, Outcome, StoredMetric
from ml_metrics.core.values import as_utc, finite
from ml_metrics.judge import Acceptance, Judgement, judge_run, replay
from unit.judge.cases import DAY, START, TEST, condition, config, point

if TYPE_CHECKING:
    from ml_metrics.config.conditions import RegressionTestConfig

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
