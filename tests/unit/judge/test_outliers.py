"""Implausible values of a baseline."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.core.model import Outcome
from ml_metrics.judge import Judgement, replay
from ml_metrics.judge.bounds import LASTING, levels_among, outliers, scale_of
from ml_metrics.judge.judgement import AlertKind
from unit.judge.cases import TEST, condition, config, history, judged, point, verdict

STEADY = [100 + (index % 5 - 2) * 0.7 for index in range(20)]
SPREAD = condition({"stddevs_from_mean": 4}, "less", wait_for_n_points_of_history=10)
RELATIVE = [
    SPREAD,
    condition({"mads_from_median": 5}, "less"),
    condition({"percent_difference": 10}, "less"),
    condition({"stddevs_from_mean": 4}, "less", against="best"),
    condition({"mads_from_median": 5}, "less", against="best"),
    condition({"percent_difference": 10}, "less", against="best"),
]
ANY = st.floats(allow_nan=False, allow_infinity=False)


def test_one_run_that_is_too_good_does_not_loosen_the_bound() -> None:
    without = verdict(SPREAD, 110.0, history(STEADY)).bounds
    found = verdict(SPREAD, 110.0, history([*STEADY, 0.0]))
    assert found.outcome is Outcome.FAIL
    assert found.bounds == without
    assert found.reason.startswith("110 is above 103.96 (mean 100, sd 0.989949; without 1 implausible value); ")


def test_a_value_that_is_too_good_passes_with_a_warning() -> None:
    judgement = judged(config({"loss": SPREAD}), {"loss": 0.0}, history(STEADY))
    (found,) = judgement.verdicts
    assert (found.outcome, found.implausible, judgement.passed) == (Outcome.PASS, True, True)
    assert found.reason.startswith("implausibly good: 0 is 92 spreads below the median 100; not used as baseline")
    (alert,) = judgement.alerts
    assert alert.kind is AlertKind.IMPLAUSIBLE
    assert alert.message.startswith(f"Metric `loss` passed for test `{TEST}` and should be checked")
    assert Judgement.from_document(judgement.document()) == judgement


def test_too_good_is_above_for_a_metric_that_should_be_great() -> None:
    rule = condition({"mads_from_median": 5}, "greater")
    assert verdict(rule, 300.0, history(STEADY)).implausible
    assert not verdict(rule, 101.0, history(STEADY)).implausible
    assert not verdict(rule, 1.0, history(STEADY)).implausible


def test_muted_metrics_do_not_warn() -> None:
    muted = config({"loss": SPREAD}, alert_for_oob_metrics=False)
    assert judged(muted, {"loss": 0.0}, history(STEADY)).alerts == ()


def test_a_replay_does_not_count_warnings_as_alerts() -> None:
    found = replay(config({"loss": SPREAD}), history([*STEADY, 0.0], outcome=None), test=TEST)
    assert found.summary()["loss"] == {"runs": 21, "fail": 0, "alerts": 0}
    assert [alert.kind for alert in found.runs[-1].judgement.alerts] == [AlertKind.IMPLAUSIBLE]


@pytest.mark.parametrize("rule", RELATIVE)
@pytest.mark.parametrize("outcome", [None, "pass"])
def test_huge_values_do_not_open_a_bound(rule: dict[str, object], outcome: str | None) -> None:
    past = history([*[100.0] * 30, *[1e300] * 3], outcome)
    assert verdict(rule, 1e300, past).outcome is Outcome.FAIL
    assert verdict(rule, 100.0, past).outcome is Outcome.PASS


def test_a_constant_has_outliers_beyond_a_tenth() -> None:
    assert outliers([*[50.0] * 20, 51.0]) == frozenset()
    assert outliers([*[50.0] * 20, 10.0]) == {20}


def test_nine_values_in_a_row_are_a_level() -> None:
    steady = STEADY * 4
    few, many = [*steady, *[60.0] * (LASTING - 1)], [*steady, *[60.0] * LASTING]
    assert outliers(few) == frozenset(range(80, 88))
    assert levels_among(outliers(few), few) == []
    assert levels_among(outliers(many), many) == [list(range(80, 89))]


def test_a_lasting_improvement_becomes_the_baseline() -> None:
    better = [60 + (index % 5 - 2) * 0.7 for index in range(LASTING)]
    rule = condition({"stddevs_from_mean": 4}, "less")
    before, after = (verdict(rule, 100.0, history([*STEADY * 2, *better[:count]])) for count in (8, 9))
    assert (before.outcome, before.baseline_points) == (Outcome.PASS, 40)
    assert (after.outcome, after.baseline_points) == (Outcome.FAIL, 9)
    assert "since the level changed in run run-00040 of 2026-02-10" in after.reason


def test_a_few_values_have_no_outliers() -> None:
    assert scale_of([1.0] * 7) is None
    assert outliers([1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 1e9]) == frozenset()


@pytest.mark.parametrize(("runs", "plausible", "implausible"), [(10, 12.5, 13.1), (20, 10.3, 10.5), (60, 8.7, 8.9)])
def test_a_few_values_can_be_close_by_chance(runs: int, plausible: float, implausible: float) -> None:
    """The limit of 8 spreads is greater by six parts of the number of values."""
    steady = [100.0 + 1.2816 * (1, -1)[index % 2] for index in range(runs)]
    spread = 1.4826 * 1.2816
    assert not verdict(SPREAD, 100 - plausible * spread, history(steady)).implausible
    assert verdict(SPREAD, 100 - implausible * spread, history(steady)).implausible


@pytest.mark.parametrize("share", [0.05, 0.15, 0.3, 0.5])
def test_a_second_mode_has_no_outliers(share: float) -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        values = 100 + 0.4 * rng.normal(size=100) + 2.2 * (rng.random(100) < share)
        assert outliers(values.tolist()) == frozenset()


@given(st.lists(ANY, max_size=40))
def test_eight_of_any_values_remain(values: list[float]) -> None:
    found = outliers(values)
    assert len(values) - len(found) >= min(len(values), 8)
    assert found <= set(range(len(values)))


@given(st.lists(st.floats(-1e6, 1e6), min_size=8, max_size=30), st.sampled_from(range(len(RELATIVE))))
def test_a_value_that_is_too_good_never_loosens_a_bound(values: list[float], number: int) -> None:
    scale = scale_of(values)
    if scale is None:
        return
    good = scale.median - 2 * (scale.limit * scale.spread + max(values) - min(values) + 1e-3)
    before = verdict(RELATIVE[number], 0.0, history(values)).bounds
    after = verdict(RELATIVE[number], 0.0, [*history(values), point(500, good)]).bounds
    if before is not None and after is not None:
        assert after.upper <= before.upper + 1e-9 * abs(before.upper)
