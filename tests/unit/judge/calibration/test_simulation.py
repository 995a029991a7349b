"""Simulated runs have the noise of the metric, and the calibrated rules keep what they promise on other runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ml_metrics.judge import WITHIN_RUNS, calibration
from ml_metrics.judge.calibration import (
    WINDOW,
    factor_for,
    mean_and_deviation,
    median_and_mad,
    percent_of_best,
    percent_of_mean,
    scores_of,
    simulated,
    smallest_change,
)
from ml_metrics.judge.shape import noise_of
from unit.judge.calibration.test_noise import made

LEVELS = [mean_and_deviation, median_and_mad, percent_of_mean, percent_of_best]


@pytest.mark.parametrize("family", ["normal", "modes", "quantised", "memory", "skew"])
def test_simulated_runs_have_the_noise_of_the_metric(family: str) -> None:
    values = made(family, 2)
    noise = noise_of(values)
    runs = simulated(values, noise, greater_is_worse=True)
    again = noise_of((runs.healthy[:3].ravel() * runs.scale).tolist())
    assert again.kind is noise.kind
    assert again.level == pytest.approx(noise.level, rel=0.02)
    assert again.spread == pytest.approx(noise.spread, rel=0.4)
    assert (again.memory > 0.25) is (noise.memory > 0.25)


def test_less_is_worse_turns_the_runs() -> None:
    values = made("skew", 2)
    up, down = (simulated(values, noise_of(values), greater_is_worse=worse) for worse in (True, False))
    assert np.allclose(np.median(up.healthy), -np.median(down.healthy), rtol=0.02)
    assert up.healthy.max() - np.median(up.healthy) > np.median(up.healthy) - up.healthy.min()
    assert down.healthy.max() - np.median(down.healthy) < np.median(down.healthy) - down.healthy.min()


def test_the_factor_of_normal_noise_is_its_quantile() -> None:
    values = made("normal", 4, 900)
    runs = simulated(values, noise_of(values), greater_is_worse=True)
    one, both = (factor_for(scores_of(runs, mean_and_deviation, both_sides=side)) for side in (False, True))
    assert 2.9 < one < 3.6  # 3.09 for known mean and deviation
    assert one <= both < 3.9


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("family", ["normal", "memory"])
def test_rules_keep_their_promise_on_other_runs(level: calibration.Level, family: str) -> None:
    values = made(family, 3)
    runs = simulated(values, noise_of(values), greater_is_worse=True)
    factor = factor_for(scores_of(runs, level, both_sides=False))
    change = smallest_change(runs, level, factor, both_sides=False) * runs.scale
    found = false = judged = 0
    for seed in range(60):
        series = np.asarray(made(family, 1000 + seed, 200 + WITHIN_RUNS))
        series[200:] += change
        reference, unit = level(series)
        failing = series[WINDOW:] > reference + factor * unit
        healthy = 200 - WINDOW
        false += int(failing[:healthy].sum())
        judged += healthy
        found += bool(failing[healthy:].any())

    assert false / judged < 0.005
    assert found / 60 > 0.75


def test_a_rule_without_spread_has_no_factor() -> None:
    values = made("quantised", 1)
    runs = simulated([100.0] * 350 + values[:10], noise_of(values), greater_is_worse=True)
    assert math.isinf(factor_for(scores_of(runs, median_and_mad, both_sides=False)))


def test_a_loss_has_seven_runs_after_a_baseline_of_a_hundred_to_be_found_in() -> None:
    """As the documentation of `calibrate` promises; of each healthy series, two are made."""
    values = made("normal", 2)
    runs = simulated(values, noise_of(values), greater_is_worse=True)
    assert runs.healthy.shape == (120, 300)
    assert runs.losses.shape == (200, 100 + 7)
    assert np.array_equal(runs.losses[:3].ravel(), [*runs.healthy[0, :214], *runs.healthy[1, :107]])
