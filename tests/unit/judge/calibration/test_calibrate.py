"""The calibrated rules of a metric, and their past."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.config.conditions import Comparison, Condition
from ml_metrics.judge import Calibration, calibrate, calibration
from ml_metrics.judge.calibration import CalibratedRule, past_of
from unit.judge.calibration.test_noise import made
from unit.judge.cases import TEST, condition, history


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate few, short series: the numbers are checked in test_simulation.py."""
    few(monkeypatch)
    monkeypatch.setattr(calibration, "JUDGED", 60)


def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "SERIES", 12)
    monkeypatch.setattr(calibration, "REAL_SERIES", 1)
    monkeypatch.setattr(calibration, "HEALTHY_SERIES", 2)
    monkeypatch.setattr(calibration, "LOSSES_TRIED", 3)


def calibrated(values: list[float], comparison: str = "less") -> Calibration:
    return calibrate("loss", history(values, None), Comparison(comparison), test=TEST)


@pytest.mark.parametrize("comparison", ["less", "greater", "within"])
@pytest.mark.parametrize("family", ["normal", "modes", "quantised"])
def test_each_rule_is_a_valid_condition_or_has_a_reason(family: str, comparison: str) -> None:
    found = calibrated(made(family, 1, 80), comparison)
    names = [
        "change_point",
        "stddevs_from_mean",
        "mads_from_median",
        "percent_difference",
        "percent_difference of best",
    ]
    assert [rule.name for rule in found.rules] == names
    for rule in found.rules:
        if rule.condition is None:
            assert rule.reason
            continue
        assert Condition.model_validate(rule.condition).comparison == comparison
        assert rule.smallest_change is not None
        assert 0 < rule.smallest_change < 40
        assert rule.false_alarms is not None
        assert rule.false_alarms <= 0.02
        assert rule.past is not None
        assert rule.past.judged > 60


@pytest.mark.parametrize("family", ["normal", "heavy", "modes", "memory"])
def test_the_default_is_proposed_unless_another_rule_is_clearly_better(family: str) -> None:
    found = calibrated(made(family, 1, 120))
    assert found.proposed is found.rules[0]
    assert found.rules[0].condition == {"comparison": "less", "success_threshold": {"change_point": {}}}
    assert all((rule.smallest_change or math.inf) > 0.8 * found.rules[0].smallest_change for rule in found.rules[1:])


def test_a_rule_that_breaks_the_budget_when_it_judges_is_not_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = iter([0.002, 0.001])
    monkeypatch.setattr(calibration, "_real_false_alarms", lambda *_: next(rates))
    monkeypatch.setattr(calibration, "BETTER", 100)
    found = calibrated(made("normal", 1, 60))
    assert found.proposed is not None
    by_size = sorted(found.rules[1:], key=lambda rule: rule.smallest_change or math.inf)
    assert found.proposed.name == by_size[1].name
    assert [by_size[0].false_alarms, by_size[1].false_alarms] == [0.002, 0.001]


def test_no_rule_is_proposed_if_none_keeps_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_real_false_alarms", lambda *_: 0.1)
    monkeypatch.setattr(calibration, "_level_rule", lambda *_: CalibratedRule("change_point", None, reason="none"))
    assert calibrated(made("normal", 1, 60)).proposed is None


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
    assert calibrated([3.0] * 50).proposed is None
    with pytest.raises(ValueError, match="no value is finite"):
        calibrate("loss", history([None, None], None), Comparison.LESS, test=TEST)


def test_the_past_counts_failing_runs_and_their_beginnings() -> None:
    rule = Condition.model_validate(condition({"fixed_value": 2}, "less"))
    past = past_of(rule, "loss", history([1, 1, 3, 3, 1, 3, 1], None), test=TEST)
    assert (past.judged, past.failing, past.alerts) == (7, 3, 2)


@settings(deadline=None, max_examples=8)
@given(
    st.integers(0, 1000),
    st.sampled_from([1e306, 1e-306, -1e306, -1.0, 1e-3, 5e-324]),
    st.sampled_from(["normal", "heavy", "quantised"]),
    st.sampled_from(["less", "greater", "within"]),
)
def test_any_magnitude_is_calibrated(seed: int, factor: float, family: str, comparison: str) -> None:
    values = [value * factor for value in made(family, seed, 40)]
    found = calibrated(values, comparison)
    assert found.reason or found.rules
    for rule in found.rules:
        assert rule.condition or rule.reason
        if rule.condition:
            Condition.model_validate(rule.condition)


@settings(deadline=None, max_examples=8)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=20, max_size=40))
def test_any_finite_history_is_calibrated(values: list[Any]) -> None:
    found = calibrated(values)
    assert found.reason or found.rules


def test_rows_of_other_metrics_and_tests_are_ignored() -> None:
    own = made("normal", 1, 40)
    others = [
        replace(row, run_key=f"other {row.run_key}")
        for row in history([9.0 * each for each in own], None, metric="other")
    ]
    others += history([5.0 * each for each in own], None, test="another")
    mixed = calibrate("loss", [*others, *history(own, None)], Comparison("less"), test=TEST)
    assert mixed == calibrated(own)
