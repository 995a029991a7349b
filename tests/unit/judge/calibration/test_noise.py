"""The description of noise: the right family for most seeds, robust, and over the full range of floats."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.judge.shape import Kind, Noise, noise_of

RUNS, SEEDS = 365, range(20)


def made(family: str, seed: int, runs: int = RUNS) -> list[float]:
    """Return runs around 100 with a deviation of about 2."""
    return [100 + 2 * float(each) for each in _unit(family, np.random.default_rng([seed, 7]), runs)]


def _unit(family: str, random: np.random.Generator, runs: int) -> np.ndarray:
    normal = random.normal(size=runs)
    if family == "heavy":
        return random.standard_t(3, size=runs) / math.sqrt(3)
    if family == "memory":
        found = np.zeros(runs)
        for place in range(1, runs):
            found[place] = 0.5 * found[place - 1] + normal[place] * math.sqrt(0.75)
        return found
    if family == "modes":
        return normal * 0.4 + (random.random(runs) < random.choice([0.15, 0.3, 0.5])) * 2.2
    if family == "quantised":
        step = random.choice([0.7, 1.5, 3])
        return np.round(normal / step) * step
    if family == "seasons":
        return 0.8 * normal + 0.85 * np.sin(2 * np.pi * np.arange(runs) / 7)
    return random.exponential(size=runs) - 1 if family == "skew" else normal


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        ("normal", Kind.NORMAL),
        ("heavy", Kind.HEAVY_TAILED),
        ("memory", Kind.NORMAL),
        ("modes", Kind.MODES),
        ("quantised", Kind.QUANTISED),
        ("seasons", Kind.SEASONAL),
        ("skew", Kind.SKEWED),
    ],
)
def test_the_family_is_named_for_most_seeds(family: str, kind: Kind) -> None:
    found = Counter(noise_of(made(family, seed)).kind for seed in SEEDS)
    assert found[kind] >= 0.85 * len(SEEDS), found


def test_memory_is_named_where_there_is_some() -> None:
    remembered = Counter(noise_of(made("memory", seed)).memory_words for seed in SEEDS)
    assert remembered["independent runs"] == 0
    assert remembered["much memory"] >= 0.8 * len(SEEDS)
    for family in ("normal", "heavy", "modes", "quantised", "skew"):
        words = Counter(noise_of(made(family, seed)).memory_words for seed in SEEDS)
        assert words["independent runs"] >= 0.9 * len(SEEDS), family


def test_the_size_is_robust_and_belongs_to_one_level() -> None:
    values = made("normal", 1)
    plain = noise_of(values)
    assert plain.spread == pytest.approx(2, rel=0.2)
    assert plain.since == 0
    assert plain.runs == RUNS
    values[10], values[11], values[300] = 1e6, 1e6, -1e6
    assert noise_of(values).spread == pytest.approx(plain.spread, rel=0.05)
    moved = noise_of([*made("normal", 1, 200), *(value * 1.5 for value in made("normal", 2, 100))])
    assert moved.since == pytest.approx(200, abs=2)
    assert moved.runs == pytest.approx(100, abs=2)
    assert moved.level == pytest.approx(150, abs=2)


def test_earlier_runs_are_added_where_the_level_is_young() -> None:
    found = noise_of([*made("normal", 1, 100), *(value + 50 for value in made("normal", 2, 15))])
    assert found.since == pytest.approx(100, abs=2)
    assert found.runs == 115
    assert found.spread == pytest.approx(2, rel=0.3)
    assert found.level == pytest.approx(150, abs=2)


def test_the_modes_have_shares_and_positions() -> None:
    random = np.random.default_rng(3)
    found = noise_of([(50.0 if place % 4 else 80.0) + float(random.normal()) for place in random.permutation(200)])
    (low, high) = found.modes
    assert (low.share, high.share) == pytest.approx((0.75, 0.25), abs=0.05)
    assert low.position == pytest.approx(50, abs=0.5)
    assert high.position == pytest.approx(80, abs=0.5)
    assert found.text.startswith("two modes (7")


def test_the_text_names_kind_size_and_memory() -> None:
    assert noise_of([3.0] * 20).text == "constant at 3"
    assert noise_of([1.0, 2.0, 3.0]).text == "unknown: too few runs, sd 1.48 (74 % of 2)"
    assert noise_of([0.0, -1.0, 1.0]).text == "unknown: too few runs, sd 1.48"
    assert noise_of([100.0, 102.0] * 50).text.startswith("quantised in steps of 2, sd ")
    assert noise_of([100.0, 102.0] * 50).memory_words == "runs alternate"
    weekly = noise_of(made("seasons", 1))
    assert weekly.period == pytest.approx(7, abs=0.1)
    assert "seasonal with a period of 7" in weekly.text


def test_without_a_finite_value_there_is_nothing_to_describe() -> None:
    with pytest.raises(ValueError, match="no value is finite"):
        noise_of([math.nan, math.inf])
    assert noise_of([math.nan, 2.0, math.inf]).runs == 1


@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False)
        | st.sampled_from([0.0, 1e308, -1e308, 1e-308, 5e-324, 1.7976931348623157e308, 1.0]),
        min_size=1,
        max_size=60,
    )
)
def test_any_finite_series_is_described_with_finite_numbers(values: list[float]) -> None:
    check(noise_of(values))


@given(
    st.integers(0, 2**32 - 1),
    st.floats(-300, 300),
    st.sampled_from(["normal", "modes", "quantised", "seasons", "heavy"]),
    st.booleans(),
)
def test_the_description_does_not_depend_on_the_unit(seed: int, power: float, family: str, negative: bool) -> None:
    values = made(family, seed, 80)
    factor = 2.0 ** round(power) * (-1 if negative else 1)
    plain, scaled = noise_of(values), noise_of([value * factor for value in values])
    check(scaled)
    assert (scaled.runs, scaled.since) == (plain.runs, plain.since)
    assert scaled.spread == pytest.approx(plain.spread * abs(factor), rel=1e-6)
    assert scaled.memory == pytest.approx(plain.memory, abs=1e-6)


def check(noise: Noise) -> None:
    assert math.isfinite(noise.level)
    assert math.isfinite(noise.spread)
    assert noise.spread >= 0
    assert -1 <= noise.memory <= 1
    assert noise.text
    assert noise.runs >= 1
