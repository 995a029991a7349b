"""Where a baseline begins, and properties of baselines over the full range of floats."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.core.model import Outcome, StoredMetric
from ml_metrics.judge import history_needs
from ml_metrics.judge.changepoints import level_starts
from unit.judge.cases import TEST, condition, config, history, point, verdict

SPREAD = condition({"stddevs_from_mean": 4}, "less", wait_for_n_points_of_history=10)
PERCENT = condition({"percent_difference": 10}, "less")
RELATIVE = [
    condition(threshold, comparison, **rest)
    for threshold in ({"stddevs_from_mean": 4}, {"mads_from_median": 5}, {"percent_difference": 10})
    for comparison in ("less", "greater", "within")
    for rest in ({}, {"against": "best"})
    if not (rest and comparison == "within")
]
ANY = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, 1.0, -1.0, 1e308, -1e308, 1e-308, 5e-324]
)


def steps_of(*levels: tuple[float, int]) -> list[float]:
    rng = np.random.default_rng(5)
    return [float(level + rng.normal()) for level, runs in levels for _ in range(runs)]


def test_a_baseline_begins_at_the_last_change_of_level() -> None:
    found = verdict(SPREAD, 96.0, history(steps_of((110, 40), (90, 20))))
    assert (found.outcome, found.baseline_points) == (Outcome.FAIL, 20)
    assert "since the level changed in run run-00040 of 2026-02-10" in found.reason


def test_a_better_level_needs_enough_runs() -> None:
    rule = {**SPREAD, "wait_for_n_points_of_history": 25}
    assert verdict(rule, 96.0, history(steps_of((110, 40), (90, 20)))).baseline_points == 60


def test_small_losses_that_passed_do_not_add_up() -> None:
    """Each step of 6 % is allowed by itself; the bound follows the mean of the window and not the newest level."""
    values = steps_of((100, 40), (106, 12), (112, 12))
    found = verdict(PERCENT, 118.5, history(values))
    assert found.outcome is Outcome.FAIL
    assert found.baseline_points == 64


def test_a_worse_level_that_tightens_the_bound_begins_a_baseline() -> None:
    values = steps_of((100, 40), (105, 40))
    whole, since = (verdict(SPREAD, 100.0, history(each)).bounds for each in (values[:40] * 2, values))
    assert whole is not None
    assert since is not None
    assert verdict(SPREAD, 100.0, history(values)).baseline_points == 40


@pytest.mark.parametrize("comparison", ["less", "greater"])
def test_the_best_level_stays_when_the_level_gets_worse(comparison: str) -> None:
    sign = 1 if comparison == "less" else -1
    values = [sign * each for each in steps_of((100, 40), (104, 40))]
    rule = condition({"percent_difference": 5}, comparison, against="best")
    found = verdict(rule, sign * 107.0, history(values))
    assert found.outcome is Outcome.FAIL
    assert found.baseline_points == 80


@pytest.mark.parametrize("seed", range(20))
def test_noise_has_one_level(seed: int) -> None:
    assert level_starts(np.random.default_rng(seed).normal(100, 1, 100).tolist(), 9) == []


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 50, [5e-324, 0.0] * 20, [1.7e308, -1.7e308] * 20])
def test_no_series_is_too_odd(values: list[float]) -> None:
    assert level_starts(values, 9) == []


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(RELATIVE),
    st.lists(ANY, max_size=45),
    ANY,
    st.sampled_from([None, "pass"]),
    st.randoms(use_true_random=False),
)
def test_any_floats_are_judged_without_a_warning(
    rule: dict[str, Any], values: list[float], value: float, outcome: str | None, shuffler: random.Random
) -> None:
    past = history(values, outcome)
    mixed = list(past)
    shuffler.shuffle(mixed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = verdict(rule, value, past)
        assert verdict(rule, value, mixed) == found
    if found.outcome is Outcome.PASS:
        assert found.bounds is not None
        assert found.bounds.contains(value)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(RELATIVE),
    st.integers(10, 40),
    st.floats(-4, 4),
    st.integers(9, 30),
    st.integers(1, 20),
    st.integers(0, 1_000),
)
def test_the_requested_history_suffices_for_a_shorter_baseline(  # noqa: PLR0917  (the history has many properties)
    rule: dict[str, Any], before: int, shift: float, after: int, window: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = [*rng.normal(100, 1, before), *rng.normal(100 + shift, 1, after)]
    past: list[StoredMetric] = [point(day, float(value)) for day, value in enumerate(values)]
    narrow = {**rule, "window": 20 + window}
    needed = history_needs(config({"loss": narrow}), TEST).select(past)
    assert verdict(narrow, 100.0, needed) == verdict(narrow, 100.0, past)
