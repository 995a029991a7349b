"""Properties of the run-by-run rule that hold for every series of finite floats."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.core.kinds import Measure
from ml_metrics.judge.level import LevelRule, follow

NO_DEADLINE = settings(deadline=None, max_examples=50)  # a slow machine must not fail the test
WORSE = st.sampled_from([1, -1, 0])
RULES = st.builds(
    LevelRule,
    worse=WORSE,
    measure=st.sampled_from([None, *Measure]),
    percent=st.sampled_from([None, 0.0, 3.0, 40.0, 1e300]),
    absolute=st.sampled_from([None, 0.0, 5e-324, 1.0, 1e308]),
    min_runs=st.integers(2, 100),
    p_value=st.sampled_from([1e-12, 5e-5, 0.9]),
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
EDGES = st.sampled_from([0.0, -0.0, 5e-324, -5e-324, sys.float_info.min, sys.float_info.max, -sys.float_info.max, 1.0])


@st.composite
def stretches(draw: st.DrawFn, magnitude: float = 1e6) -> list[float]:
    """Return stretches of one level each: noise, a constant, two modes or ticks, with outliers."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        count, level, spread = draw(st.integers(1, 45)), draw(st.floats(-100, 100)), draw(st.sampled_from([0, 0.1, 5]))
        noise = {
            "normal": random.normal(size=count),
            "ticks": np.round(random.normal(size=count)),
            "modes": random.integers(0, 2, size=count).astype(float),
        }[draw(st.sampled_from(["normal", "ticks", "modes"]))]
        parts.append(level + spread * noise)
    values = np.concatenate(parts)
    for place in draw(st.lists(st.integers(0, len(values) - 1), max_size=4)):
        values[place] *= draw(st.sampled_from([-1, 0, 3, 1000]))
    return [float(value) for value in values / 1e6 * magnitude]


SERIES = st.one_of(
    stretches(),
    stretches(magnitude=1e300),
    stretches(magnitude=1e-300),
    st.lists(FINITE, max_size=60),
    st.lists(st.one_of(EDGES, FINITE), max_size=60),
    st.lists(st.integers(-2, 2).map(float), max_size=80),
)


def failing(values: list[float], rule: LevelRule) -> list[bool]:
    flags: list[bool] = np.asarray(follow(np.asarray(values, dtype=np.float64), rule).failing).tolist()
    return flags


@NO_DEADLINE
@given(values=SERIES, rule=RULES)
def test_every_run_has_an_answer(values: list[float], rule: LevelRule) -> None:
    levels = follow(values, rule)
    states = [levels.at(run) for run in range(len(values))]
    assert [state.failing for state in states] == levels.failing.tolist()
    assert all(math.isfinite(state.reference) and math.isfinite(state.level) for state in states)


@NO_DEADLINE
@given(values=SERIES, rule=st.one_of(RULES, st.builds(LevelRule, worse=WORSE)), data=st.data())
def test_an_answer_depends_on_the_runs_up_to_its_own(values: list[float], rule: LevelRule, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(values)))
    assert failing(values, rule)[:end] == failing(values[:end], rule)


@NO_DEADLINE
@given(values=SERIES, rule=st.one_of(RULES, st.builds(LevelRule, worse=WORSE)))
def test_the_mirrored_series_has_the_answers_of_the_other_direction(values: list[float], rule: LevelRule) -> None:
    mirrored = [-value for value in values]
    assert failing(values, rule) == failing(mirrored, replace(rule, worse=-rule.worse))


@NO_DEADLINE
@given(values=stretches(), worse=WORSE, power=st.integers(-900, 900))
def test_the_unit_of_a_metric_does_not_matter(values: list[float], worse: int, power: int) -> None:
    # a value below the unit's resolution would lose digits
    values = [value if abs(value) > 1e-3 else 0.0 for value in values]
    scaled = [value * 2.0**power for value in values]
    assert failing(values, LevelRule(worse=worse)) == failing(scaled, LevelRule(worse=worse))


@NO_DEADLINE
@given(value=st.one_of(EDGES, FINITE), count=st.integers(0, 300), worse=WORSE)
def test_a_constant_never_fails(value: float, count: int, worse: int) -> None:
    assert not any(failing([value] * count, LevelRule(worse=worse)))


@NO_DEADLINE
@given(values=st.lists(st.one_of(EDGES, FINITE), max_size=9), worse=WORSE)
def test_a_few_runs_never_fail(values: list[float], worse: int) -> None:
    assert not any(failing(values, LevelRule(worse=worse)))


@NO_DEADLINE
@given(values=stretches(), worse=WORSE)
def test_nothing_fails_below_the_smallest_change(values: list[float], worse: int) -> None:
    rule = replace(LevelRule(worse=worse), absolute=3 * (max(values) - min(values)) + 1)
    assert not any(failing(values, rule))


@pytest.mark.parametrize("worse", [1, -1])
@pytest.mark.parametrize("before", [12, 40, 300])
@pytest.mark.parametrize("level", [1e-300, 1.0, 1e300, -7.0])
def test_a_constant_that_changes_once_fails_from_the_third_or_fourth_run(worse: int, before: int, level: float) -> None:
    values = [level] * before + [level + worse * abs(level) / 5] * 12
    flags = failing(values, LevelRule(worse=worse))
    assert not any(flags[: before + 2])
    assert all(flags[before + 4 :])
    assert not any(failing(values, LevelRule(worse=-worse)))
    assert failing(values, LevelRule(worse=0))[before + 4 :] == flags[before + 4 :]


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("runs", [4, 8, 12])
def test_no_new_level_has_fewer_runs_than_asked(runs: int, noise: float) -> None:
    values = 100 + noise * np.random.default_rng(runs).normal(size=100)
    values[60:] += 15
    flags = failing(values.tolist(), LevelRule(worse=1, min_runs=runs))
    assert not any(flags[: 60 + runs - 1])
    assert any(flags[60 : 60 + runs + 3])


@pytest.mark.parametrize("worse", [1, -1])
@pytest.mark.parametrize("nights", [1, 2])
def test_one_or_two_nights_never_fail(worse: int, nights: int) -> None:
    for first in range(60):
        values = (100 + np.random.default_rng(first).normal(size=60)).tolist()
        values[first : first + nights] = [100 + worse * 80.0] * len(values[first : first + nights])
        assert not any(failing(values, LevelRule(worse=worse))), first


@pytest.mark.parametrize("worse", [1, -1, 0])
@pytest.mark.parametrize("power", [-900, 900, 1010, 1013])
def test_a_state_is_in_the_unit_of_the_metric(worse: int, power: int) -> None:
    """Also of values so huge that they are scaled before sums are made of them."""
    random = np.random.default_rng(5)
    values = np.concatenate([100 + random.normal(size=40), 120 + random.normal(size=12), 90 + random.normal(size=20)])
    rule = LevelRule(worse=worse, absolute=2.5)
    scaled = follow(values * 2.0**power, replace(rule, absolute=2.5 * 2.0**power))
    levels = follow(values, rule)
    assert levels.failing.any()
    assert levels.at(-1) == levels.at(len(values) - 1)
    for run in range(len(values)):
        state, other = levels.at(run), scaled.at(run)
        sizes = [each * 2.0**power for each in (state.reference, state.margin, state.level)]
        assert [other.reference, other.margin, other.level] == pytest.approx(sizes, rel=1e-12)
        assert (other.kind, other.first, other.suspected) == (state.kind, state.first, state.suspected)
