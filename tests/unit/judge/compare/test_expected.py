"""How many runs a comparison is said to take, by the noise of past runs."""

from __future__ import annotations

import numpy as np
import pytest

from ml_metrics.judge.compare import Plan, expectation
from ml_metrics.judge.compare.plan import expected

NOISE = np.random.default_rng(1).normal(size=50)


def test_the_noise_of_past_runs_sets_the_number() -> None:
    quiet, loud = (expected("m", (100 + percent * NOISE).tolist(), 2.0) for percent in (0.5, 4.0))
    assert quiet is not None
    assert loud is not None
    assert quiet.noise_percent == pytest.approx(0.5, rel=0.3)
    assert quiet.runs == 16
    assert loud.runs > 150


def test_a_level_that_changed_long_ago_is_no_noise() -> None:
    steady, shifted = 100 + 0.5 * NOISE, 100 + 0.5 * NOISE
    shifted[:26] += 30
    found = [expected("m", values.tolist(), 2.0) for values in (steady, shifted)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[1].runs == found[0].runs


@pytest.mark.parametrize("past", [[], [1.0] * 7, [float("nan")] * 20, [1.0, -1.0, -1.0, 1.0] * 5])
def test_what_says_nothing(past: list[float]) -> None:
    assert expected("m", past, 2.0) is None
    assert expectation(Plan(2.0, 60), {"m": past}).startswith("12 runs to begin with")


def test_a_budget_that_is_too_small_is_stated() -> None:
    said = expectation(Plan(1.0, 60), {"m": (100 + 2 * NOISE).tolist(), "n": [1.0] * 20})
    assert "runs for a change of 1 %: the noise of m is" in said
    assert "The budget of 60 runs is enough for one of about" in said
