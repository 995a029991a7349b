"""How unusual the difference between two single runs is: what is promised about noise, and what is unknown."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.core.kinds import Kind
from ml_metrics.judge.compare import Answer, Compared, compared_runs
from ml_metrics.judge.compare.two_runs import FEWEST_RUNS, LEVEL, PairNoise

LOWER, HIGHER, NEITHER, UNKNOWN = Kind("s", "lower"), Kind("s", "higher"), Kind("s", "neither"), Kind()
EARLIER: list[float] = (100 + np.random.default_rng(3).normal(size=40)).tolist()


def of(base: float | None, candidate: float | None, kind: Kind = LOWER, earlier: list[float] = EARLIER) -> Compared:
    return compared_runs("m", (base, candidate), earlier, 2.0, kind)


@pytest.mark.parametrize(
    ("kind", "candidate", "answer"),
    [
        (LOWER, 115.0, Answer.WORSE),
        (LOWER, 85.0, Answer.BETTER),
        (HIGHER, 115.0, Answer.BETTER),
        (HIGHER, 85.0, Answer.WORSE),
        (UNKNOWN, 85.0, Answer.WORSE),
        (NEITHER, 115.0, Answer.UNDECIDED),
        (LOWER, 101.0, Answer.UNDECIDED),
    ],
)
def test_a_difference_outside_the_noise_is_for_the_worse_or_the_better(
    kind: Kind, candidate: float, answer: Answer
) -> None:
    found = of(100.0, candidate, kind)
    assert found.answer is answer
    assert (found.certainty is None) == (candidate == 101.0)
    assert found.interval
    assert (found.interval[0] > 0) == (candidate == 115.0)
    assert (found.interval[1] < 0) == (candidate == 85.0)


@pytest.mark.parametrize("noise", ["normal", "student", "exponential"])
def test_at_most_one_of_a_hundred_pairs_of_equal_runs_is_outside(noise: str) -> None:
    rng = np.random.default_rng(5)
    draw = {"normal": rng.normal, "student": lambda size: rng.standard_t(3, size=size), "exponential": rng.exponential}
    outside = [
        PairNoise(values[2:].tolist()).rate(abs(values[0] - values[1])) <= LEVEL
        for values in (draw[noise](size=32) for _ in range(400))
    ]
    assert sum(outside) <= 400 * LEVEL


def test_a_level_that_changed_before_both_runs_is_no_noise() -> None:
    moved = [*EARLIER[:20], *(value + 50 for value in EARLIER[20:])]
    assert of(150.0, 165.0, earlier=moved).answer is Answer.WORSE
    assert of(150.0, 151.0, earlier=moved).reason.startswith("within the noise of the ")


def test_a_change_that_is_smaller_than_the_effect_is_equivalent() -> None:
    calm = [100 + value / 1000 for value in EARLIER]
    found = of(100.1, 100.2, earlier=calm)
    assert found.answer is Answer.EQUIVALENT
    assert found.interval
    assert max(map(abs, found.interval)) < 2


def test_what_is_unknown_is_said() -> None:
    assert of(None, 1.0).reason == "base did not measure it"
    assert of(None, None).reason == "base and candidate did not measure it"
    few = of(100.0, 200.0, earlier=EARLIER[:1])
    assert (few.answer, few.interval, few.change_percent) == (Answer.UNDECIDED, None, 100.0)
    assert few.reason == "the noise is unknown: 1 run before both measured it, 10 are needed"
    moved = [*EARLIER[:9], *(value + 50 for value in EARLIER[9:14])]
    assert of(150.0, 165.0, earlier=moved).reason == "the noise is unknown: the level changed 5 runs before both"
    constant = [5.0] * 30
    assert of(5.0, 6.0, earlier=constant).reason == "the noise is unknown: one value in all of the 30 runs before both"
    assert of(5.0, 5.0, earlier=constant).reason == "the same value as in the 30 runs before both"
    around_zero = of(0.0, 30.0, earlier=[value - 100 for value in EARLIER])
    assert (around_zero.answer, around_zero.interval, around_zero.change_percent) == (Answer.WORSE, None, None)


VALUES = st.lists(st.floats(-1e308, 1e308), min_size=FEWEST_RUNS, max_size=40)


@settings(max_examples=60, deadline=None)
@given(VALUES, st.floats(-1e308, 1e308), st.floats(-1e308, 1e308))
def test_a_greater_difference_is_never_more_usual(earlier: list[float], base: float, candidate: float) -> None:
    found = of(base, candidate, earlier=earlier)
    assert found.certainty is None or 1 - LEVEL <= found.certainty < 1
    assert found.interval is None or all(map(math.isfinite, found.interval))
    noise = PairNoise(earlier)
    rates = [noise.rate(distance) for distance in (0.0, noise.widest / 2, noise.widest, 10 * noise.widest)]
    assert rates == sorted(rates, reverse=True)
    if noise.widest:
        assert noise.rate(noise.margin) <= LEVEL
