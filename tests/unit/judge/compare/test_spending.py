"""The levels of the looks: together they keep one level."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from ml_metrics.judge.compare.statistics import FIRST, LEVEL, looks


@pytest.mark.parametrize("horizon", [4, 7, 16, 60])
def test_the_looks_together_keep_the_level(horizon: int) -> None:
    levels = looks(horizon)
    counts = list(levels)
    random = np.random.default_rng(11)
    steps = [
        random.normal(size=40_000) * math.sqrt(now - before) for before, now in zip([0, *counts], counts, strict=False)
    ]
    crossed = np.zeros(40_000, dtype=bool)
    for count, path in zip(counts, np.cumsum(steps, axis=0), strict=True):
        crossed |= np.abs(path) / math.sqrt(count) > NormalDist().inv_cdf(1 - levels[count] / 2)
    assert crossed.mean() == pytest.approx(LEVEL, abs=0.005)


def test_a_single_look_has_the_whole_level() -> None:
    assert looks(FIRST) == {FIRST: pytest.approx(LEVEL, abs=1e-6)}


@pytest.mark.parametrize("horizon", [3, 10, 1000])
def test_the_last_look_is_at_the_horizon(horizon: int) -> None:
    levels = looks(horizon)
    assert max(levels) == horizon
    assert min(levels) >= FIRST
    assert all(0 < level <= LEVEL + 1e-6 for level in levels.values())
