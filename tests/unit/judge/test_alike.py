"""Runs that `baseline: {same: ...}` compares with."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ml_metrics.config.conditions import Condition
from ml_metrics.core.model import JobStatus, Metric, Outcome
from ml_metrics.judge import judge_run, replay
from unit.judge.cases import NOW, TEST, condition, config, history, verdict

SAME = {"baseline": {"same": ["node_type"]}}
RULE = condition({"percent_difference": 10}, "less", **SAME)
VALUES = [100.0 if number % 2 else 200.0 for number in range(40)]
NODES = {f"run-{day:05}": {"node_type": "fast" if day % 2 else "slow"} for day in range(40)}


def on(node: str) -> dict[str, dict[str, str]]:
    return {**NODES, "this-run": {"node_type": node}}


@pytest.mark.parametrize(("node", "bound"), [("fast", 110.0), ("slow", 220.0)])
def test_a_run_is_compared_with_runs_on_the_same_type_of_node(node: str, bound: float) -> None:
    found = verdict(RULE, 105.0, history(VALUES), attributes=on(node))
    assert found.bounds is not None
    assert found.bounds.upper == pytest.approx(bound)
    assert found.baseline_points == 20
    assert found.reason.endswith(f"; compared with runs on node type {node}")


@pytest.mark.parametrize(("wait", "needed"), [({}, 9), ({"wait_for_n_points_of_history": 25}, 25)])
def test_all_runs_count_where_too_few_are_comparable(wait: dict[str, int], needed: int) -> None:
    rule = condition({"percent_difference": 10}, "less", **SAME, **wait)
    few = {**on("new"), "run-00001": {"node_type": "new"}}
    found = verdict(rule, 100.0, history(VALUES), attributes=few)
    assert found.baseline_points == 40
    assert found.reason.endswith(f"; 1 of {needed} runs on node type new: compared with all")


def test_all_runs_count_where_the_attribute_is_not_recorded() -> None:
    found = verdict(RULE, 100.0, history(VALUES))
    assert found.baseline_points == 40
    assert found.reason.endswith("; node_type of this run is not recorded: compared with all")


def test_a_level_is_that_of_comparable_runs() -> None:
    rule = condition({"change_point": {}}, "less", **SAME)
    values = [value + (number // 2 % 5 - 2) * 0.3 for number, value in enumerate(VALUES)]
    found = verdict(rule, 100.0, history(values), attributes=on("fast"))
    assert found.outcome is Outcome.PASS
    assert found.reference == pytest.approx(100, abs=1)
    assert found.baseline_points == 20


def test_a_replay_compares_like_with_like() -> None:
    regression, rows = config({"loss": RULE}), history(VALUES, outcome=None)
    newest = replay(regression, rows, test=TEST, attributes=NODES).runs[-1].judgement
    of_run, before = rows[-1], rows[:-1]
    value = Metric("loss", of_run.value or 0.0, "loss", "")
    alone = judge_run(
        regression,
        [value],
        before,
        status=JobStatus.SUCCESS,
        run_key=of_run.run_key,
        now=of_run.timestamp,
        test=TEST,
        attributes=NODES,
    )
    assert newest.verdicts[0].outcome is alone.verdicts[0].outcome is Outcome.PASS
    assert of_run.timestamp < NOW


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"same": ["node-type"]}, "did you mean 'node_type'"),
        ({"same": ["Image_digests"]}, "did you mean 'image_digest'"),
        ({"same": ["image", "image"]}, "named twice"),
        ({"same": [" "]}, "empty name"),
        ({"same": []}, "at least 1"),
        ({"samee": ["image"]}, "samee"),
    ],
)
def test_a_mistake_is_an_error(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Condition.model_validate(condition({"stddevs_from_mean": 4}, "less", baseline=given))


def test_any_key_of_the_metadata_is_an_attribute() -> None:
    rule = condition({"stddevs_from_mean": 4}, "less", baseline={"same": ["jax_version", "param.epochs"]})
    assert Condition.model_validate(rule).baseline is not None


def test_a_fixed_value_has_no_baseline() -> None:
    with pytest.raises(ValidationError, match="not relative to the history"):
        Condition.model_validate(condition({"fixed_value": 4}, "less", **SAME))
