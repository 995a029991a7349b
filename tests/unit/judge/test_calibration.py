"""The condition that is calibrated on a history keeps its promise, on any history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.config.conditions import Comparison, Condition
from ml_metrics.core.model import Outcome, Verdict, Watched
from ml_metrics.judge import Calibration, Judgement, calibrate, calibration
from ml_metrics.judge.calibration import WINDOW, calibrate_curve, past_of, simulated, smallest_loss
from ml_metrics.judge.level import LevelRule, follow
from ml_metrics.judge.replays import Replay, ReplayedRun, beginnings
from ml_metrics.judge.shape import noise_of
from unit.judge.cases import NOW, TEST, condition, history
from unit.judge.test_shape import made


def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate few series."""
    monkeypatch.setattr(calibration, "SERIES", 12)
    monkeypatch.setattr(calibration, "HEALTHY_SERIES", 2)
    monkeypatch.setattr(calibration, "LOSSES_TRIED", 3)


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch)
    monkeypatch.setattr(calibration, "JUDGED", 60)


def calibrated(values: list[float], comparison: str = "less") -> Calibration:
    return calibrate("loss", history(values, None), Comparison(comparison), test=TEST)


@pytest.mark.usefixtures("_few")
@pytest.mark.parametrize("comparison", ["less", "greater", "within"])
@pytest.mark.parametrize("family", ["normal", "modes", "quantised"])
def test_the_rule_is_a_valid_condition_or_has_a_reason(family: str, comparison: str) -> None:
    found = calibrated(made(family, 1, 80), comparison)
    rule = found.rule
    assert rule is not None
    if rule.condition is None:
        assert rule.reason
        return
    assert Condition.model_validate(rule.condition).comparison == comparison
    assert rule.smallest_change is not None
    assert rule.false_alarms is not None
    assert rule.past is not None
    assert 0 < rule.smallest_change < 40
    assert rule.false_alarms <= 0.02
    assert rule.past.judged > 60


@pytest.mark.usefixtures("_few")
def test_a_rule_that_breaks_the_budget_gets_a_smallest_change_or_is_not_proposed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alarms = iter([[1], [1], [], [], *[[1]] * 8])
    monkeypatch.setattr(calibration, "beginnings", lambda _: next(alarms, []))
    first, second = (calibrated(made("normal", 1, 60)) for _ in range(2))
    assert first.condition
    assert first.condition["min_change"] == {"absolute": pytest.approx(2, rel=0.3)}
    assert second.rule
    assert (second.condition, second.rule.reason) == (None, "no smallest change keeps the budget")


@pytest.mark.usefixtures("_few")
@pytest.mark.parametrize(
    ("factor", "number"), [(0.1, "0.22"), (1, "2.2"), (10, "22"), (1e5, "220000"), (1e6, "2200000.0")]
)
def test_a_smallest_change_has_two_digits_and_is_written_as_a_person_would(
    factor: float, number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarms = iter([[1], [1]])
    monkeypatch.setattr(calibration, "beginnings", lambda _: next(alarms, []))
    found = calibrated([value * factor for value in made("normal", 1, 60)]).condition
    assert found
    assert str(found["min_change"]["absolute"]) == number


def test_what_is_said_of_a_curve_is_from_its_newest_run_and_nothing_if_that_could_not_be_judged() -> None:
    def verdict(value: float, outcome: str, watched: Watched | None) -> Verdict:
        return Verdict("curve/q", Outcome(outcome), value, None, "", watched=watched)

    def of(*verdicts: Verdict) -> Calibration:
        others = replace(verdicts[0], metric="curve/other", outcome=Outcome.FAIL)
        runs = (ReplayedRun(str(at), NOW, Judgement((one, others), (), passed=True)) for at, one in enumerate(verdicts))
        return calibrate_curve("curve/q", Comparison.LESS, Replay(tuple(runs)))

    young = verdict(90, "insufficient_data", None)
    outcomes = enumerate(["pass", "fail", "fail", "pass"])
    judged = [verdict(100 + at, outcome, Watched(1, 2, "2 %", 3.14 + at, 2)) for at, outcome in outcomes]
    whole = of(young, *judged)
    assert whole.reason == (
        "it is judged whole, which needs no number: finds 6.1 % in 3 runs; fails 2 of 4 runs, 1 alert"
    )
    assert (whole.runs, whole.noise.level, whole.condition) == (5, 101.5, None)
    for runs in ([young], [young, *judged, verdict(100, "fail", None)]):
        assert of(*runs).reason == "it is judged whole, which needs no number"


@pytest.mark.usefixtures("_few")
def test_the_last_change_of_level_is_named() -> None:
    values = made("normal", 1, 100)
    found = calibrated([*values[:50], *(value + 30 for value in values[50:])])
    assert found.since is not None
    assert found.since.run_key == "run-00050"
    assert found.noise.level == pytest.approx(130, abs=1)
    assert found.runs == 100
    assert calibrated(values).since is None


def test_constant_and_short_histories_have_a_reason_and_no_rules() -> None:
    assert "never varied" in calibrated([3.0] * 50).reason
    assert "20 runs on, and it has 12" in calibrated(made("normal", 1, 12)).reason
    assert calibrated([3.0] * 50).condition is None
    with pytest.raises(ValueError, match="no value is finite"):
        calibrate("loss", history([None, None], None), Comparison.LESS, test=TEST)


def test_the_past_counts_failing_runs_and_their_beginnings() -> None:
    past = past_of(condition({"fixed_value": 2}, "less"), history([1, 1, 3, 3, 1, 3, 1], None), test=TEST)
    assert (past.judged, past.failing, past.alerts) == (7, 3, 2)


@pytest.mark.usefixtures("_few")
@settings(deadline=None, max_examples=8)
@given(
    st.integers(0, 1000).flatmap(
        lambda seed: st.builds(
            lambda family, factor: [value * factor for value in made(family, seed, 40)],
            st.sampled_from(["normal", "heavy", "quantised"]),
            st.sampled_from([1e306, 1e-306, -1e306, -1.0, 1e-3, 5e-324]),
        )
    )
    | st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=20, max_size=40),
    st.sampled_from(["less", "greater", "within"]),
)
def test_any_finite_history_is_calibrated(values: list[Any], comparison: str) -> None:
    found = calibrated(values, comparison)
    assert found.reason or found.condition or (found.rule and found.rule.reason)
    if found.condition:
        Condition.model_validate(found.condition)


@pytest.mark.usefixtures("_few")
def test_rows_of_other_metrics_and_tests_are_ignored() -> None:
    own = made("normal", 1, 40)
    others = [replace(row, run_key=f"x {row.run_key}") for row in history([9 * each for each in own], metric="other")]
    others += history([5.0 * each for each in own], None, test="another")
    mixed = calibrate("loss", [*others, *history(own, None)], Comparison("less"), test=TEST)
    assert mixed == calibrated(own)


@pytest.mark.parametrize("family", ["normal", "modes", "quantised", "memory", "skew"])
def test_simulated_runs_have_the_noise_of_the_metric(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "UNSEEN", 0)
    values = made(family, 2)
    noise = noise_of(values)
    runs = simulated(values, noise)
    assert runs.shape == (120, 300)
    again = noise_of(runs[:3].ravel().tolist())
    assert again.kind is noise.kind
    assert again.level == pytest.approx(noise.level, rel=0.02)
    assert again.spread == pytest.approx(noise.spread, rel=0.4)
    assert (again.memory > 0.25) is (noise.memory > 0.25)


def test_simulated_runs_keep_the_seasons_of_the_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "UNSEEN", 0)

    def of_a_week(runs: Any) -> float:
        rest = runs - np.mean(runs)
        return float((rest[..., 7:] * rest[..., :-7]).mean() / (rest * rest).mean())

    values = made("seasons", 2)
    noise = noise_of(values)
    assert noise.period == pytest.approx(7, abs=0.1)
    assert of_a_week(simulated(values, noise)) > of_a_week(values) / 2 > 0.15


@pytest.mark.parametrize("family", ["normal", "heavy", "modes", "memory"])
def test_the_level_rule_keeps_its_promise_on_other_runs(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty runs show neither the tails of their noise nor the shares of its modes."""
    monkeypatch.setattr(calibration, "LOSSES_TRIED", 20)
    false = judged = found = 0
    for seed in range(3):
        past = made(family, seed, 60)
        noise = noise_of(past)
        change = smallest_loss(simulated(past, noise), LevelRule(worse=1), 16 * noise.spread)
        for other in range(8):
            series = np.asarray(made(family, 1000 + 10 * seed + other, 2 * WINDOW + 7))
            series[2 * WINDOW :] += change
            failing = follow(series, LevelRule(worse=1)).failing
            false += len(beginnings(failing[: 2 * WINDOW]))
            judged += 2 * WINDOW
            found += bool(failing[2 * WINDOW :].any())
    assert false / judged <= 0.0013
    assert found / 24 >= 0.7
