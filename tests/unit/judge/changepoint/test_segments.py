"""The best division of a series into segments."""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from random import Random

import numpy as np
import pytest

from ml_metrics.judge.changepoints import MIN_RUNS, PENALTY, best_edges


def cost(values: list[float], edges: tuple[int, ...]) -> float:
    errors = sum(
        (value - sum(part) / len(part)) ** 2
        for start, end in pairwise(edges)
        for part in [values[start:end]]
        for value in part
    )
    return errors + PENALTY * math.log(len(values)) * (len(edges) - 2)


@pytest.mark.parametrize("seed", range(10))
def test_no_other_division_costs_less(seed: int) -> None:
    random = Random(seed)
    values = [random.gauss(0, 1) + random.choice([0, 8]) * (run // 6 % 2) for run in range(22)]
    divisions = [(0, *inner, 22) for count in range(4) for inner in combinations(range(1, 22), count)]
    allowed = [edges for edges in divisions if all(b - a >= MIN_RUNS for a, b in pairwise(edges))]
    best = tuple(best_edges(np.array(values)))
    assert best in allowed
    assert cost(values, best) == pytest.approx(min(cost(values, edges) for edges in allowed))


def test_noise_is_one_segment() -> None:
    random = Random(0)
    assert best_edges(np.array([random.gauss(0, 1) for _ in range(300)])) == [0, 300]
