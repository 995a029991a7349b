"""Change points: compared with those of apache-otava on series with known changes, and what holds for any series.

`run_otava.py` generated the results of apache-otava.
"""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from functools import cache
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import GOLDEN
from ml_metrics.judge import change_points
from ml_metrics.judge.changepoints import Step
from unit.judge.planted import RUNS, Planted, series

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NEAR = 2
OTAVA = json.loads((GOLDEN / "judge" / "otava.json").read_text())
SEEDS = [int(seed) for seed in OTAVA["default"]]
FINITE = st.floats(allow_nan=False, allow_infinity=False)
MAGNITUDES = st.sampled_from([5e-324, 1e-310, 1e-200, 1e-9, 1.0, 1e9, 1e200, 1e307])
BIG = 1e5


def ours(seed: int, planted: Planted) -> list[int]:
    return found_by_us()[seed, planted.kind]


@cache
def found_by_us() -> dict[tuple[int, str], list[int]]:
    return {(seed, planted.kind): indexes(planted.values) for seed in SEEDS for planted in series(seed)}


def indexes(values: Sequence[float]) -> list[int]:
    return [step.index for step in change_points(values)]


def otavas(options: str) -> Callable[[int, Planted], list[int]]:
    return lambda seed, planted: OTAVA[options][str(seed)][planted.kind]


def score(find: Callable[[int, Planted], list[int]]) -> tuple[Counter[str], Counter[str]]:
    """Return the numbers of planted changes that were found and of false ones, by kind."""
    hits: Counter[str] = Counter()
    false: Counter[str] = Counter()
    for seed in SEEDS:
        for planted in series(seed):
            found = find(seed, planted)
            hits[planted.kind] += sum(any(abs(each - true) <= NEAR for each in found) for true in planted.changes)
            false[planted.kind] += sum(all(abs(each - true) > NEAR for true in planted.changes) for each in found)
    return hits, false


@pytest.mark.parametrize("options", ["default", "min_magnitude"])
def test_every_planted_change_that_otava_finds_is_found_with_fewer_false_ones(options: str) -> None:
    our_hits, our_false = score(ours)
    hits, false = score(otavas(options))
    assert all(our_hits[kind] >= count for kind, count in hits.items()), (our_hits, hits)
    assert our_false.total() * 20 < false.total(), (our_false, false)
    assert our_false["slope"] * 10 < false["slope"]


def test_every_planted_change_is_found_and_only_slopes_have_rare_false_ones() -> None:
    hits, false = score(ours)
    planted = Counter({kind: len(SEEDS) * changes for kind, changes in _changes().items()})
    assert hits == planted
    assert {kind for kind, count in false.items() if count} <= {"slope", "step on a slope"}
    assert false.total() < len(SEEDS) / 4


def test_the_series_are_those_given_to_otava() -> None:
    assert all(max(found, default=0) < RUNS for kinds in OTAVA["default"].values() for found in kinds.values())
    assert {planted.kind for planted in series(0)} == set(OTAVA["default"]["0"])


def _changes() -> dict[str, int]:
    return {planted.kind: len(planted.changes) for planted in series(SEEDS[0])}


def noisy(*levels: tuple[float, int], seed: int = 0) -> list[float]:
    """Return whole numbers around each level, with a standard deviation of 1,024, so that sums of them are exact."""
    random = Random(seed)
    return [float(round(1024 * (level + random.gauss(0, 1)))) for level, runs in levels for _ in range(runs)]


STEP = noisy((0, 60), (6, 50))


def test_a_step_has_its_levels_its_size_and_its_certainty() -> None:
    (step,) = change_points([100_000 + value for value in STEP])
    assert step.index == 60
    assert (step.before, step.after) == (pytest.approx(100_000, abs=700), pytest.approx(106_144, abs=700))
    assert step.percent == pytest.approx(6.1, abs=1)
    assert step.in_noise == pytest.approx(6, rel=0.35)
    assert 0.9 < step.certainty < 1


def test_less_certain_changes_are_returned_when_asked_for() -> None:
    values = noisy((0, 40), (1, 40))
    assert change_points(values) == []
    (step,) = change_points(values, certainty=0.05)
    assert 0.05 <= step.certainty < 0.5


@given(values=st.lists(FINITE, max_size=40), certainty=st.floats(0, 1))
def test_any_floats_have_finite_steps_in_order(values: list[float], certainty: float) -> None:
    _are_sound(values, change_points(values, certainty=certainty))


@given(
    values=st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, 1e-300]), min_size=10, max_size=80)
)
def test_few_values_of_mixed_magnitudes_have_finite_steps_in_order(values: list[float]) -> None:
    _are_sound(values, change_points(values))


def _are_sound(values: list[float], steps: list[Step]) -> None:
    edges = [0, *(step.index for step in steps), len(values)]
    assert all(before < after for before, after in pairwise(edges) if steps)
    for step in steps:
        assert all(map(math.isfinite, (step.before, step.after, step.in_noise)))
        assert 0 <= step.certainty <= 1
        assert not math.isnan(step.percent)
        assert min(values) <= min(step.before, step.after) <= max(step.before, step.after) <= max(values)


def test_a_value_that_is_not_finite_is_an_error() -> None:
    with pytest.raises(ValueError, match="finite"):
        change_points([*STEP, math.nan])


@given(value=FINITE, count=st.integers(0, 300))
def test_a_constant_has_none(value: float, count: int) -> None:
    assert change_points([value] * count) == []


@given(start=st.integers(-1000, 1000), slope=st.integers(-50, 50), count=st.integers(0, 200))
def test_a_straight_line_has_none(start: int, slope: int, count: int) -> None:
    assert change_points([float(start + slope * run) for run in range(count)]) == []


@given(
    magnitude=MAGNITUDES,
    level=st.sampled_from([0, 1, -1, 3]),
    size=st.sampled_from([1, -1, 2, 7]),
    before=st.integers(8, 80),
    after=st.integers(4, 80),
)
def test_a_clean_step_is_found_in_any_magnitude(
    magnitude: float, level: int, size: int, before: int, after: int
) -> None:
    values = [level * magnitude] * before + [(level + size) * magnitude] * after
    (step,) = change_points(values)
    assert (step.index, step.before, step.after) == (before, values[0], values[-1])


@given(
    st.integers(1, 15).flatmap(
        lambda digits: st.tuples(st.floats(0.5, 2), st.floats(-1, 1).map(lambda x: x * 10**-digits))
    )
)
def test_a_clean_step_is_found_however_small(levels: tuple[float, float]) -> None:
    level, change = levels
    changed = level + change
    assert indexes([level] * 30 + [changed] * 20) == ([] if changed == level else [30])


@given(power=st.integers(-900, 900), seed=st.integers(0, 50))
@settings(max_examples=30)
def test_the_unit_of_the_values_does_not_matter(power: int, seed: int) -> None:
    values = noisy((0, 40), (4, 30), (1, 30), seed=seed)
    steps = change_points(values)
    scaled = change_points([math.ldexp(value, power) for value in values])
    assert [(each.index, each.in_noise, each.certainty) for each in scaled] == [
        (each.index, each.in_noise, each.certainty) for each in steps
    ]
    assert [(math.ldexp(each.before, -power), math.ldexp(each.after, -power)) for each in scaled] == [
        (each.before, each.after) for each in steps
    ]


@given(shift=st.integers(-(2**40), 2**40), seed=st.integers(0, 50))
@settings(max_examples=30)
def test_the_zero_of_the_values_does_not_matter(shift: int, seed: int) -> None:
    values = noisy((0, 40), (4, 30), (1, 30), seed=seed)
    assert indexes([value + shift for value in values]) == indexes(values)


@given(seed=st.integers(0, 200))
@settings(max_examples=30)
def test_the_sign_of_the_values_does_not_matter(seed: int) -> None:
    values = noisy((0, 40), (4, 30), (1, 30), seed=seed)
    assert indexes([-value for value in values]) == indexes(values)


@given(seed=st.integers(0, 200))
@settings(max_examples=30)
def test_the_same_changes_are_found_backwards(seed: int) -> None:
    values = noisy((0, 40), (5, 30), (0, 30), seed=seed)
    backwards = [len(values) - index for index in reversed(indexes(values[::-1]))]
    assert backwards == indexes(values)


OUTLIERS = st.dictionaries(
    st.integers(0, len(STEP) - 1),
    st.sampled_from([BIG, -BIG, 1e9, -1e30, 1e300, -1e308]),
    min_size=1,
    max_size=2,
)


@given(OUTLIERS)
@settings(max_examples=50)
def test_one_or_two_outliers_anywhere_do_not_hide_a_step(outliers: dict[int, float]) -> None:
    (step,) = change_points([outliers.get(run, value) for run, value in enumerate(STEP)])
    assert abs(step.index - 60) <= NEAR + 1  # two next to the step may seem to be of the other level


@given(OUTLIERS, st.sampled_from([noisy((0, 110), seed=seed) for seed in range(10)] + [[5.0] * 110]))
@settings(max_examples=50)
def test_one_or_two_outliers_anywhere_do_not_make_a_step(outliers: dict[int, float], healthy: list[float]) -> None:
    assert change_points([outliers.get(run, value) for run, value in enumerate(healthy)]) == []


@pytest.mark.parametrize("first", [0, 1, 50, 59, 60, 61, 108])
def test_two_adjacent_outliers_neither_make_nor_hide_a_step(first: int) -> None:
    pair = {first: BIG, first + 1: BIG * 1.01}
    assert len(indexes([pair.get(run, value) for run, value in enumerate(STEP)])) == 1
    assert indexes([pair.get(run, value) for run, value in enumerate(noisy((0, 110)))]) == []


@pytest.mark.parametrize("levels", [(1.0, 2.0, 1e9), (1.0, 1e9, 2.0), (-1e300, 1e300, 1e-300)])
def test_clean_steps_of_very_different_sizes_are_all_found(levels: tuple[float, ...]) -> None:
    assert indexes([level for level in levels for _ in range(40)]) == [40, 80]


def test_noise_that_remembers_has_few() -> None:
    assert sum(len(indexes(_autoregressive(seed))) for seed in range(20)) <= 4


def _autoregressive(seed: int) -> list[float]:
    random, value, values = Random(seed), 0.0, []
    for _ in range(200):
        value = 0.6 * value + random.gauss(0, 1)
        values.append(100 + value)
    return values


def test_no_numpy_warning_reaches_the_user() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for values in ([1e308, -1e308] * 20, [5e-324, 0.0] * 20, [0.0] * 20 + [1e308] * 20 + [-1e308] * 20):
            change_points(values)
