"""A training that diverged does not pass by its finite values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.collection import Strategy
from ml_metrics.core.model import JobStatus, Metric, Outcome, StoredMetric, Verdict
from ml_metrics.judge import Judgement, judge_run, replay
from ml_metrics.measure.aggregation import metrics_of
from unit.judge.cases import NOW, TEST, condition, config, history, judged
from unit.measure.collect.run_folders import series

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


def test_a_run_without_a_verdict_is_in_no_baseline_if_it_diverged() -> None:
    past = [replace(row, outcome=None, non_finite=0.1) for row in history([100.0, 101.0, 102.0])]
    found = judged(config({"loss": condition({"percent_difference": 5}, "less")}), {"loss": 1.0}, past)
    assert found.verdicts[0].outcome is Outcome.INSUFFICIENT_DATA


@pytest.mark.parametrize(("allowed", "outcome"), [(0, Outcome.NON_FINITE), (0.5, Outcome.PASS)])
def test_a_replay_judges_the_stored_share_by_the_given_condition(allowed: float, outcome: Outcome) -> None:
    past = [*history([1.0] * 12)]
    past[11] = replace(past[11], non_finite=0.25)
    found = replay(config({"loss": condition({"change_point": {}}, "less", max_non_finite=allowed)}), past, test=TEST)
    assert found.runs[-1].judgement.verdicts[0].outcome is outcome


@given(values=st.lists(st.floats(width=64), min_size=1, max_size=30), allowed=st.floats(0, 1))
def test_no_share_above_the_limit_passes(values: list[float], allowed: float) -> None:
    share = float(np.count_nonzero(~np.isfinite(values))) / len(values)
    for metric in metrics_of(series(values), [Strategy.MIN, Strategy.MEDIAN, Strategy.FINAL, Strategy.STD]):
        rule = condition({"within_bounds": {"lower": -1e308}}, max_non_finite=allowed)
        past: list[StoredMetric] = []
        judgement = judge_run(
            config({metric.name: rule}), [metric], past, status=JobStatus.SUCCESS, run_key="now", now=NOW, test="t"
        )
        (verdict,) = judgement.verdicts
        assert verdict.non_finite == (share or None)
        if share > allowed:
            assert verdict.outcome is Outcome.NON_FINITE
        elif math.isfinite(metric.value):
            assert verdict.outcome in {Outcome.PASS, Outcome.FAIL}


def test_a_metric_that_is_required_states_the_share() -> None:
    metric = Metric("loss", 1.0, "loss", "average", points=4, non_finite=1, first_non_finite=2)
    found = judge_run(
        config(required_metrics=["loss"]), [metric], [], status=JobStatus.SUCCESS, run_key="now", now=NOW, test="t"
    )
    assert "1 of 4 values of loss is not finite, first at step 2" in found.verdicts[0].reason
