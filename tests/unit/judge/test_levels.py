"""`against: best`: a slow loss adds up against the best level."""

from __future__ import annotations

import numpy as np
import pytest

from ml_metrics.judge import replay
from ml_metrics.judge.levels import best_level
from ml_metrics.model import Outcome
from unit.judge.cases import TEST, condition, config, history, verdict

BEST = condition({"percent_difference": 5}, "less", against="best", wait_for_n_points_of_history=9)
MEAN = condition({"percent_difference": 5}, "less", wait_for_n_points_of_history=9)


def failures(rule: dict[str, object], values: list[float]) -> list[int]:
    runs = replay(config({"step_time": rule}), history(values, metric="step_time", outcome=None), test=TEST).runs
    return [day for day, run in enumerate(runs) if run.judgement.verdicts[0].outcome is Outcome.FAIL]


@pytest.mark.parametrize("seed", range(5))
def test_one_percent_a_week_fails_against_the_best_level_and_not_the_mean(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 0.3, 140)
    values = [float(100 * 1.01 ** (day / 7) + noise[day]) for day in range(140)]
    narrow = {**MEAN, "window": 20}
    assert failures(narrow, values) == []
    caught = failures(BEST, values)
    assert 20 < caught[0] < 50
    assert len(caught) > 90


def test_one_lucky_run_does_not_set_the_level() -> None:
    values = [100.0, 101.0, 99.0] * 5
    assert verdict(BEST, 104.0, history([*values[:7], 50.0, *values[7:]])).outcome is Outcome.PASS
    assert verdict(BEST, 106.0, history(values)).outcome is Outcome.FAIL


def test_best_level_matches_values_computed_by_hand() -> None:
    values = [float(each) for each in (9, 9, 9, 9, 9, 1, 1, 1, 1, 5, 5, 5, 5, 5, 5)]
    # the medians of nine in a row: 9 (five 9s of nine), then 5, 5, 5, ...
    assert best_level(values, greater_is_better=True).value == 9
    assert best_level(values, greater_is_better=False).value == 5
    level = best_level([1.0, 2.0, 4.0], greater_is_better=True)
    assert (level.value, level.spread) == (2.0, pytest.approx(((1 + 4) / 2 / 2) ** 0.5))
    assert best_level([1.0, 2.0, 4.0], greater_is_better=True, robust=True).spread == pytest.approx(1.5 / 2**0.5)


@pytest.mark.parametrize("seed", range(5))
def test_the_spread_does_not_grow_with_a_slow_change(seed: int) -> None:
    random = np.random.default_rng(seed)
    steady = [float(each) for each in random.normal(100, 1, 100)]
    creeping = [value + day * 0.2 for day, value in enumerate(steady)]
    flat, sloped = (best_level(each, greater_is_better=False).spread for each in (steady, creeping))
    assert sloped == pytest.approx(flat, rel=0.1)
    assert flat == pytest.approx(1, rel=0.3)
