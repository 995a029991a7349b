"""Change points compared with those of apache-otava, on series with known changes.

`run_otava.py` generated the results of apache-otava.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import pytest

from golden import GOLDEN
from ml_metrics.judge.changepoint import change_points
from unit.judge.planted import RUNS, Planted, series

if TYPE_CHECKING:
    from collections.abc import Callable

NEAR = 2
OTAVA = json.loads((GOLDEN / "judge" / "otava.json").read_text())
SEEDS = [int(seed) for seed in OTAVA["default"]]


def ours(seed: int, planted: Planted) -> list[int]:
    return found_by_us()[seed, planted.kind]


@cache
def found_by_us() -> dict[tuple[int, str], list[int]]:
    return {(seed, planted.kind): change_indexes(planted) for seed in SEEDS for planted in series(seed)}


def change_indexes(planted: Planted) -> list[int]:
    steps = change_points(planted.values, p_value=0.001, min_change_percent=5, min_runs=3)
    return [step.index for step in steps]


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
    assert our_false.total() * 3 < false.total(), (our_false, false)
    assert our_false["slope"] * 10 < false["slope"]


def test_every_planted_change_is_found_and_noise_has_none() -> None:
    hits, false = score(ours)
    planted = Counter({kind: len(SEEDS) * changes for kind, changes in _changes().items()})
    assert hits == planted
    assert {kind for kind, count in false.items() if count} <= {"season", "spikes"}
    assert false["spikes"] < len(SEEDS) / 5


def test_the_series_are_those_given_to_otava() -> None:
    assert all(max(found, default=0) < RUNS for kinds in OTAVA["default"].values() for found in kinds.values())
    assert {planted.kind for planted in series(0)} == set(OTAVA["default"]["0"])


def _changes() -> dict[str, int]:
    return {planted.kind: len(planted.changes) for planted in series(SEEDS[0])}
