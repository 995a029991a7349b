"""The scores and the peers by which the search of whole series is measured."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

from whole_series.labelled import Labelled
from whole_series.rules import find_by_t_test
from whole_series.scores import Score, covering_of, f1_of, score_of
from whole_series.weights import Candidates, fitted_weights

PEOPLE = [[20, 60], [21, 60], [22], [40], []]


def series(people: list[list[int]], *levels: tuple[float, int], seed: int = 0) -> Labelled:
    random = Random(seed)
    values = [random.gauss(level, 1) for level, runs in levels for _ in range(runs)]
    return Labelled(f"sap_{seed}_split1", values, people)


def test_a_place_is_agreed_if_three_people_mark_it_nearly() -> None:
    one = series(PEOPLE, (0, 80))
    assert (one.agreed(), one.marks, one.origin) == ([22], [20, 21, 22, 40, 60], "sap_0")


@pytest.mark.parametrize(
    ("found", "right", "wrong", "missed"),
    [([], 0, 0, 1), ([18], 1, 0, 0), ([18, 20], 1, 0, 0), ([40, 60], 0, 0, 1), ([5, 23, 75], 1, 2, 0)],
)
def test_a_place_near_marks_of_a_few_counts_neither_way(found: list[int], right: int, wrong: int, missed: int) -> None:
    score = score_of([(series(PEOPLE, (0, 80)), found)])
    assert (score.right, score.wrong, score.missed, score.silent) == (right, wrong, missed, 0)


def test_places_in_series_without_marks_are_counted() -> None:
    score = score_of([(series([[], [], []], (0, 80)), [3, 50])])
    assert (score.wrong, score.silent, score.precision, score.f1, score.series) == (2, 2, 0, 0, 1)
    assert Score().f1 == Score().mean_f1 == 0


def test_f1_and_covering_of_what_people_mark_themselves() -> None:
    assert f1_of([[20, 60]] * 3, [20, 60]) == 1
    assert f1_of([[20, 60]] * 3, []) == pytest.approx(0.5)
    assert covering_of([[20, 60]] * 3, [20, 60], 80) == 1
    assert covering_of([[40]] * 3, [], 80) == pytest.approx(0.5)


def test_the_t_test_finds_a_step_and_no_noise() -> None:
    assert find_by_t_test(series([], (0, 40), (8, 40)).values) == [40]
    assert find_by_t_test(series([], (0, 80)).values) == []
    assert find_by_t_test([1.0] * 40 + [2.0] * 40) == [40]


def test_weights_are_fitted_to_marks() -> None:
    marked = [series([[60]] * 5, (0, 60), (4, 60), seed=seed) for seed in range(8)]
    unmarked = [series([[]] * 5, (0, 60), (1.5, 60), seed=seed) for seed in range(8, 16)]
    candidates = [Candidates(one) for one in [*marked, *unmarked]]
    weights = fitted_weights(candidates)
    found = [[edge for _, edge, _ in one.remaining(weights, 0.5)] for one in candidates]
    assert all(len(edges) == 1 and abs(edges[0] - 60) <= 2 for edges in found[:8])
    assert sum(map(len, found[8:])) <= 1
