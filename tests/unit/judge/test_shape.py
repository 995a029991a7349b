"""The description of noise: the right family for most seeds, robust, in one line, over the full range of floats."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.judge.shape import Kind, Noise, noise_of
from unit.judge.cases import noisy

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


def calm(runs: int, noise: float = 0.5) -> list[float]:
    return noisy([(100, runs)], noise=noise)


SERIES = {
    "zeros": ([0.0] * 20, "constant at 0"),
    "around zero": ([-1.0, 1.0, 0.0] * 3, "unknown: too few runs, sd 1.48"),
    "three modes": (
        [each + (0, 10, 25)[int(3 * Random(index).random())] for index, each in enumerate(calm(90))],
        "three modes (37 % at 99.72, 37 % at 110, 27 % at 124.8), sd 14.6 (13 % of 109.9), independent runs",
    ),
    "a season": (
        [each + 3 * math.sin(index * 2 * math.pi / 7) for index, each in enumerate(calm(140, 0.7))],
        "seasonal with a period of 7 runs, sd 2.82 (2.8 % of 100.1), much memory (0.56)",
    ),
}


@pytest.mark.parametrize("name", SERIES)
def test_the_noise_in_one_line(name: str) -> None:
    values, text = SERIES[name]
    assert noise_of(values).text == text


@pytest.mark.parametrize(
    ("levels", "runs", "since", "level"),
    [
        ([(100, 40), (120, 40)], 40, 40, 120.0),
        ([(100, 40), (120, 30)], 30, 40, 120.0),
        ([(100, 40), (120, 29)], 69, 40, 120.0),
        ([(100, 25), (140, 8), (120, 15)], 40, 33, 120.0),  # eight runs are too few to be added
        ([(100, 25), (140, 10), (120, 15)], 50, 35, 120.0),
        ([(100, 25), (140, 15), (120, 15)], 30, 40, 120.0),  # enough without the oldest
    ],
)
def test_the_noise_is_that_of_the_newest_level_with_earlier_ones_added_where_it_is_short(
    levels: list[tuple[float, int]], runs: int, since: int, level: float
) -> None:
    found = noise_of(noisy(levels))
    assert (found.runs, found.since) == (runs, since)
    assert found.level == pytest.approx(level, abs=0.6)
    assert found.spread == pytest.approx(1, abs=0.35)


def test_the_newest_thousand_runs_count() -> None:
    assert noise_of([7.0, *[1.0, 2.0, 3.0] * 333, 1.0]).runs == 1000
    assert noise_of([math.nan, 5.0, math.inf]).text == "constant at 5"
    with pytest.raises(ValueError, match="no value is finite"):
        noise_of([math.nan, -math.inf])


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (-0.15, "runs alternate"),
        (-0.14, "independent runs"),
        (0.14, "independent runs"),
        (0.15, "some memory"),
        (0.39, "some memory"),
        (0.4, "much memory"),
    ],
)
def test_a_memory_in_words(memory: float, words: str) -> None:
    assert Noise(Kind.NORMAL, 50, 0, 100.0, 2.0, memory).memory_words == words


@pytest.mark.parametrize(("level", "percent"), [(50.0, 4.0), (-50.0, 4.0), (0.0, None)])
def test_the_size_in_percent_of_the_magnitude_of_the_level(level: float, percent: float | None) -> None:
    assert Noise(Kind.NORMAL, 50, 0, level, 2.0).percent == percent
