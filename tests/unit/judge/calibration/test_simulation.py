"""Simulated runs have the noise of the metric, and the calibrated rules keep what they promise on other runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from itertools import accumulate
from typing import Any

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
from ml_metrics.judge.level import LevelRule, follow
from ml_metrics.judge.replays import beginnings
from ml_metrics.judge.shape import Kind, noise_of
from unit.judge.calibration.test_noise import made

LEVELS = [mean_and_deviation, median_and_mad, percent_of_mean, percent_of_best]


@pytest.mark.parametrize("family", ["normal", "modes", "quantised", "memory", "skew"])
def test_simulated_runs_have_the_noise_of_the_metric(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "UNSEEN", 0)
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
    low, middle, high = np.quantile(up.healthy, [0.05, 0.5, 0.95])
    assert high - middle > middle - low
    low, middle, high = np.quantile(down.healthy, [0.05, 0.5, 0.95])
    assert high - middle < middle - low


def test_the_factor_of_normal_noise_is_its_quantile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "UNSEEN", 0)
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


NOISES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "normal": lambda random, runs: random.normal(size=runs),
    "Student's t of 3": lambda random, runs: random.standard_t(3, size=runs),
    "two modes": lambda random, runs: np.where(random.random(runs) < 0.5, 0, 5) + random.normal(size=runs) / 2,
    "memory of a half": lambda random, runs: np.array(
        list(accumulate(random.normal(size=runs + 50), lambda old, new: old / 2 + new))[50:]
    ),
}


@pytest.mark.parametrize("name", NOISES)
def test_rates_of_false_alarms_hold_after_sixty_runs(name: str) -> None:
    """Sixty runs show neither the tails of their noise nor the shares of its modes."""
    rates: dict[str, list[float]] = defaultdict(list)
    for seed in range(5):
        random = np.random.default_rng(seed)
        past, *others = (100 + 2 * NOISES[name](random, runs) for runs in (60, *[WINDOW + 100] * 30))
        noise = noise_of(past.tolist())
        runs = simulated(past.tolist(), noise, greater_is_worse=True)
        alarms = sum(len(beginnings(follow(series, LevelRule(worse=1)).failing)) for series in others[:3])
        rates["change_point"].append(alarms / sum(map(len, others[:3])))
        for level in LEVELS:
            if noise.kind is Kind.MODES and level is median_and_mad:
                continue  # it is not calibrated
            factor = factor_for(scores_of(runs, level, both_sides=False))
            judged = [(series[WINDOW:], *level(series)) for series in others]
            failing = [values > reference + factor * unit for values, reference, unit in judged]
            rates[level.__name__].append(float(np.mean(failing)))
    assert all(np.mean(each) <= 0.0013 for each in rates.values()), rates  # 0.001, and three errors of 15,000 runs


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
