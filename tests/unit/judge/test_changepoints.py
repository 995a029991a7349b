"""The changes of level of a whole series: where they are, how certain, in which noise."""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations, pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import GOLDEN
from ml_metrics.judge import change_points
from ml_metrics.judge.changepoints import (
    MIN_RUNS,
    Step,
    best_edges,
    in_noise_units,
    level_starts,
    may_have_levels,
    noise_of,
)
from unit.judge.cases import noisy
from unit.judge.planted import RUNS, Planted, series

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


def noise_of_two(*levels: tuple[float, int], seed: int = 0) -> list[float]:
    """Return whole numbers around each level, with a standard deviation of 1,024, so that sums of them are exact."""
    random = Random(seed)
    return [float(round(1024 * (level + random.gauss(0, 1)))) for level, runs in levels for _ in range(runs)]


STEP = noise_of_two((0, 60), (6, 50))


def test_a_step_has_its_levels_its_size_and_its_certainty() -> None:
    (step,) = change_points([100_000 + value for value in STEP])
    assert step.index == 60
    assert (step.before, step.after) == (pytest.approx(100_000, abs=700), pytest.approx(106_144, abs=700))
    assert step.percent == pytest.approx(6.1, abs=1)
    assert step.in_noise == pytest.approx(6, rel=0.35)
    assert 0.9 < step.certainty < 1


@given(values=st.lists(FINITE, max_size=40), certainty=st.floats(0, 1))
def test_any_floats_have_finite_steps_in_order(values: list[float], certainty: float) -> None:
    _are_sound(values, change_points(values, certainty=certainty))


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


@given(power=st.integers(-900, 900), seed=st.integers(0, 50))
@settings(max_examples=30)
def test_the_unit_of_the_values_does_not_matter(power: int, seed: int) -> None:
    values = noise_of_two((0, 40), (4, 30), (1, 30), seed=seed)
    steps = change_points(values)
    scaled = change_points([math.ldexp(value, power) for value in values])
    assert [(each.index, each.in_noise, each.certainty) for each in scaled] == [
        (each.index, each.in_noise, each.certainty) for each in steps
    ]
    assert [(math.ldexp(each.before, -power), math.ldexp(each.after, -power)) for each in scaled] == [
        (each.before, each.after) for each in steps
    ]


@given(seed=st.integers(0, 200))
@settings(max_examples=30)
def test_the_sign_of_the_values_does_not_matter(seed: int) -> None:
    values = noise_of_two((0, 40), (4, 30), (1, 30), seed=seed)
    assert indexes([-value for value in values]) == indexes(values)


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


@given(OUTLIERS, st.sampled_from([noise_of_two((0, 110), seed=seed) for seed in range(10)] + [[5.0] * 110]))
@settings(max_examples=50)
def test_one_or_two_outliers_anywhere_do_not_make_a_step(outliers: dict[int, float], healthy: list[float]) -> None:
    assert change_points([outliers.get(run, value) for run, value in enumerate(healthy)]) == []


@pytest.mark.parametrize("first", [0, 1, 50, 59, 60, 61, 108])
def test_two_adjacent_outliers_neither_make_nor_hide_a_step(first: int) -> None:
    pair = {first: BIG, first + 1: BIG * 1.01}
    assert len(indexes([pair.get(run, value) for run, value in enumerate(STEP)])) == 1
    assert indexes([pair.get(run, value) for run, value in enumerate(noise_of_two((0, 110)))]) == []


def test_no_numpy_warning_reaches_the_user() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for values in ([1e308, -1e308] * 20, [5e-324, 0.0] * 20, [0.0] * 20 + [1e308] * 20 + [-1e308] * 20):
            change_points(values)


def cost(values: list[float], edges: tuple[int, ...]) -> float:
    errors = sum(
        (value - sum(part) / len(part)) ** 2
        for start, end in pairwise(edges)
        for part in [values[start:end]]
        for value in part
    )
    return errors + 2.5 * math.log(len(values)) * (len(edges) - 2)


@pytest.mark.parametrize("seed", range(10))
def test_no_other_division_costs_less(seed: int) -> None:
    random = Random(seed)
    values = [random.gauss(0, 1) + random.choice([0, 8]) * (run // 6 % 2) for run in range(22)]
    divisions = [(0, *inner, 22) for count in range(4) for inner in combinations(range(1, 22), count)]
    allowed = [edges for edges in divisions if all(b - a >= MIN_RUNS for a, b in pairwise(edges))]
    best = tuple(best_edges(np.array(values)))
    assert best in allowed
    assert cost(values, best) == pytest.approx(min(cost(values, edges) for edges in allowed))


def normal(count: int, seed: int = 0) -> list[float]:
    random = Random(seed)
    return [random.gauss(0, 1) for _ in range(count)]


def units(values: list[float]) -> np.ndarray:
    found = in_noise_units(np.array(values))
    assert found is not None
    return found


@pytest.mark.parametrize("values", [[], [1.0] * 9, [2.0] * 50, [float(run) for run in range(50)]])
def test_too_few_values_a_constant_and_a_line_have_no_noise(values: list[float]) -> None:
    assert in_noise_units(np.array(values)) is None


def test_a_level_that_wanders_has_its_wandering_as_noise() -> None:
    random_walk = list(np.cumsum(normal(500)))
    assert np.std(units(random_walk)) < np.std(random_walk) / noise_of(np.array(random_walk)) / 3
    waves = [20 * math.sin(run / 8) + value for run, value in enumerate(normal(500))]
    assert np.max(np.abs(units(waves))) < 2


def test_wide_gaps_are_narrowed_so_that_sums_stay_exact() -> None:
    found = units([value + 1e12 * (run >= 50) for run, value in enumerate(normal(100))])
    assert 100 < found.max() - found.min() < 100 + 20


@pytest.mark.parametrize("runs", [30, 100, 400])
def test_few_steady_series_are_searched(runs: int) -> None:
    """About one in twenty."""
    searched = sum(may_have_levels(noisy([(100, runs)], seed)) for seed in range(200))
    assert 2 <= searched <= 20
    assert [may_have_levels([-1.0] * n + [0.0] * (25 - 2 * n) + [1.0] * n) for n in (6, 7)] == [False, True]


@pytest.mark.parametrize(("first", "second"), [(20, 20), (50, 9), (9, 50), (200, 12)])
def test_every_series_with_a_clear_change_is_searched(first: int, second: int) -> None:
    assert all(may_have_levels(noisy([(100, first), (105, second)], seed)) for seed in range(40))


def test_levels_start_newest_first_with_enough_values_from_there_on() -> None:
    values = noisy([(100, 40), (110, 30), (120, 20)])
    assert level_starts(values, 9) == level_starts(values, 20) == [70, 40]
    assert level_starts(values, 21) == [40]
    assert level_starts(values[:49], 9) == [40]
    assert level_starts(values[:48], 9) == []


def test_twice_the_least_values_are_needed() -> None:
    values = noisy([(100, 20), (120, 20)])
    assert level_starts(values, 20) == [20]
    assert level_starts(values, 21) == []
    early = noisy([(100, 10), (120, 30)])
    assert level_starts(early, 20) == [10]
    assert level_starts(early, 21) == []


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=60))
def test_any_values_are_searched_without_a_warning(values: list[float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(len(values) - start >= 9 for start in level_starts(values, 9))
