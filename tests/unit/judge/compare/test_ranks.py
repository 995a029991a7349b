"""The rank test: exact for few runs, and the same answer however the values are written."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from math import comb
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.judge.compare import statistics
from ml_metrics.judge.compare.statistics import arms_of

if TYPE_CHECKING:
    from ml_metrics.judge.compare.statistics import Block

SMALL = st.lists(st.integers(1, 6).map(float), min_size=1, max_size=4)
TWO = st.lists(st.integers(1, 9).map(float), min_size=2, max_size=2)


def by_enumeration(blocks: list[Block]) -> tuple[float, float]:
    """The same probabilities, from every order of the runs of each block."""
    arms = arms_of(blocks)
    doubled = statistics._doubled_ranks(statistics._aligned(arms, 0.0))
    found = int(doubled[arms.is_candidate].sum())
    parts = []
    for first, end in pairwise((0, *arms.ends)):
        chosen = int(arms.is_candidate[first:end].sum())
        parts.append([sum(some) for some in combinations(doubled[first:end].tolist(), chosen)])
    sums = [sum(one) for one in product(*parts)]
    return sum(one >= found for one in sums) / len(sums), sum(one <= found for one in sums) / len(sums)


@given(SMALL, SMALL)
def test_one_block_is_exact_with_ties(base: list[float], candidate: list[float]) -> None:
    blocks = [(base, candidate)]
    assert statistics.tail_probabilities(arms_of(blocks), 0.0) == pytest.approx(by_enumeration(blocks))


@given(st.lists(st.tuples(TWO, TWO), min_size=2, max_size=4))
def test_blocks_are_exact_with_ties(blocks: list[Block]) -> None:
    assert statistics.tail_probabilities(arms_of(blocks), 0.0) == pytest.approx(by_enumeration(blocks))


def see_saw(first: float, count: int) -> list[float]:
    """Values that do not resemble the ones before."""
    return [first + (place if place % 2 else count - place) for place in range(count)]


@pytest.mark.parametrize(("base", "candidate"), [(3, 3), (4, 4), (5, 5), (2, 30), (10, 7)])
def test_separate_arms_have_the_least_probability(base: int, candidate: int) -> None:
    arms = arms_of([(see_saw(1.0, base), see_saw(1000.0, candidate))])
    assert statistics.tail_probabilities(arms, 0.0)[0] == pytest.approx(1 / comb(base + candidate, base))


def test_many_runs_are_nearly_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    for shift in (0.0, 0.3, 0.6):
        arms = arms_of([(random.normal(9, 1, 25).tolist(), random.normal(9 + shift, 1, 25).tolist())])
        exact = statistics.tail_probabilities(arms, 0.0)
        with monkeypatch.context() as patched:
            patched.setattr(statistics, "EXACT_STEPS", 0)
            assert statistics.tail_probabilities(arms, 0.0) == pytest.approx(exact, rel=0.1, abs=0.001)


def test_a_block_aligned_at_its_median_forgets_the_host() -> None:
    calm = [([1.0, 2.0], [5.0, 6.0]), ([2.0, 1.5], [6.5, 5.5])]
    moved = [calm[0], tuple([value + 100 for value in arm] for arm in calm[1])]
    assert statistics.tail_probabilities(arms_of(calm), 0.0)[0] == pytest.approx(1 / 36)
    assert statistics.tail_probabilities(arms_of(moved), 0.0)[0] == pytest.approx(1 / 36)  # type: ignore[arg-type]


def test_values_that_resemble_the_ones_before_widen_the_noise() -> None:
    random = np.random.default_rng(5)
    steps = np.cumsum(random.normal(size=40)) * 0.3 + 100
    drifting = arms_of([(steps[:20].tolist(), steps[20:].tolist())])
    shuffled = random.permutation(steps)
    assert drifting.widening > 2
    assert arms_of([(shuffled[:20].tolist(), shuffled[20:].tolist())]).widening == 1
    assert arms_of([(steps[:5].tolist(), steps[5:10].tolist())]).widening == 1  # too few to tell
