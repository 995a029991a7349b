"""Slow nodes across runs: planted ones are found, others are not named, whatever the noise is like."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.measure.efficiency import NodeRun, node_effects, nodes

COUNT = 16


def runs(
    seed: int, *, number: int = 30, tests: int = 4, slow: dict[str, float] | None = None, noise: float = 0.01,
    at_once: int = 1, level: float = 100.0,
) -> list[NodeRun]:  # fmt: skip
    """Runs on random nodes; a run waits for the slowest of its nodes."""
    random = np.random.default_rng(seed)
    found = []
    for test in range(tests):
        for night in range(number):
            chosen = tuple(f"node-{one}" for one in sorted(random.choice(COUNT, at_once, replace=False)))
            slower = max((slow or {}).get(node, 0.0) for node in chosen)
            value = level * (1 + slower) * (1 + noise * random.normal())
            found.append(NodeRun(f"test-{test}", f"{test}-{night}", night, chosen, value))
    return found


def named(found: list[NodeRun]) -> set[str]:
    return {one.name for one in node_effects(found) if one.slow}


@pytest.mark.parametrize("plan", [{"tests": 1, "at_once": 4}, {"tests": 4, "at_once": 1}], ids=["hosts", "tests"])
def test_a_planted_node_is_found(plan: dict[str, int]) -> None:
    """A small version of `benchmarks/slow_nodes.py`: 3 % among 16 nodes, within 30 runs of noise of 1 %."""
    each = [named(runs(seed, slow={"node-5": 0.03}, **plan)) for seed in range(40)]
    assert sum("node-5" in found for found in each) >= 36
    assert sum(bool(found - {"node-5"}) for found in each) <= 2


def test_no_node_is_named_by_chance() -> None:
    assert sum(bool(named(runs(seed))) for seed in range(60)) <= 3


def test_two_slow_nodes() -> None:
    found = runs(1, number=60, slow={"node-2": 0.05, "node-9": 0.03})
    assert named(found) == {"node-2", "node-9"}
    effects = {one.name: one for one in node_effects(found)}
    assert effects["node-2"].percent == pytest.approx(5, abs=1)
    assert effects["node-2"].low < 5 < effects["node-2"].high
    assert not effects["node-3"].slow


def test_hosts_that_ran_beside_a_slow_one_are_not_named() -> None:
    for seed in range(10):
        assert named(runs(seed, number=60, tests=2, at_once=4, slow={"node-5": 0.08})) == {"node-5"}


def test_small_effects_are_not_named() -> None:
    found = runs(1, number=400, slow={"node-5": 0.005}, noise=0.002)
    assert not named(found)
    assert node_effects(found)[0].low > 0


def test_a_change_of_level_that_came_with_a_node() -> None:
    """One long visit counts once, however many runs it has: the change may have any cause."""
    found = [
        NodeRun("test", str(night), night, ("a" if night < 30 else "b",), 100.0 + night % 3) for night in range(30)
    ]
    found += [NodeRun("test", str(night), night, ("b",), 110.0 + night % 3) for night in range(30, 60)]
    assert not named(found)


def test_periods_have_their_own_level() -> None:
    """Half of the runs are on another level; a node with most of its runs there is not slow."""
    random = np.random.default_rng(5)
    found = []
    for night in range(80):
        later = night >= 40
        node = f"node-{random.integers(4) + (2 if later else 0)}"
        value = (130 if later else 100) * (1 + 0.01 * random.normal())
        found.append(NodeRun("test", str(night), night, (node,), value, period=int(later)))
    assert not named(found)


def test_one_node_only() -> None:
    assert not named([NodeRun("test", str(night), night, ("a",), 100.0 + night % 5) for night in range(50)])


def test_constant_values() -> None:
    found = node_effects([NodeRun("test", str(night), night, (f"n{night % 3}",), 7.0) for night in range(30)])
    assert [(one.percent, one.slow) for one in found] == [(0, False)] * 3


def test_an_interval_is_never_inside_out() -> None:
    """Only one node has two visits, and every permutation makes it fast: no limit is below 0."""
    values = [0.0, 0.0, 0.0, 1.0, 1.0, 0.0]
    found = [NodeRun("a", str(at), at, ("x",) if at < 5 else ("x", "y"), value) for at, value in enumerate(values)]
    assert [one.name for one in node_effects(found)] == ["x", "y"]
    assert all(one.low <= one.percent <= one.high for one in node_effects(found))


def test_the_effect_is_the_difference_from_other_nodes() -> None:
    """A quarter of the runs are slowed down by 3 %, and raise the level that all are compared with."""
    found = [
        one.percent
        for seed in range(20)
        for one in node_effects(runs(seed, tests=1, at_once=4, number=60, slow={"node-5": 0.03}))
        if one.name == "node-5"
    ]
    assert sum(found) / len(found) == pytest.approx(3, abs=0.25)


def test_a_node_is_found_where_the_level_drifts() -> None:
    each = []
    for seed in range(20):
        drifting = [
            replace(run, value=run.value * (1 + 0.002 * run.at))
            for run in runs(seed, tests=1, at_once=4, slow={"node-5": 0.03})
        ]
        each.append(named(drifting))
    assert sum("node-5" in found for found in each) >= 17
    assert sum(bool(found - {"node-5"}) for found in each) <= 1


def test_a_table_of_visits_gives_the_sums_of_their_list(monkeypatch: pytest.MonkeyPatch) -> None:
    found = runs(3, slow={"node-5": 0.03})
    dense = node_effects(found)
    monkeypatch.setattr(nodes, "DENSE", 0)
    assert [replace(one, percent=0, low=0, high=0) for one in node_effects(found)] == [
        replace(one, percent=0, low=0, high=0) for one in dense
    ]
    for listed, one in zip(node_effects(found), dense, strict=True):
        assert (listed.percent, listed.low, listed.high) == pytest.approx((one.percent, one.low, one.high))


def test_too_few_runs() -> None:
    assert node_effects([]) == []
    assert node_effects(runs(1, number=5, tests=1)) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sets(st.sampled_from(["x", "y", "z"]), max_size=3),
            st.floats(allow_nan=True) | st.floats(90, 110),
        ),
        max_size=40,
    )
)
@settings(max_examples=50, deadline=None)
def test_any_values(rows: list[tuple[str, set[str], float]]) -> None:
    """Every number is finite or an honest infinity, whatever the values are; the order of rows does not count."""
    nodes.PERMUTATIONS, before = 19, nodes.PERMUTATIONS
    try:
        found = [
            NodeRun(test, str(place), place, tuple(sorted(each)), value)
            for place, (test, each, value) in enumerate(rows)
        ]
        effects = node_effects(found)
        assert effects == node_effects(found[::-1])
        for one in effects:
            assert math.isfinite(one.percent)
            assert one.low <= one.percent <= one.high
            assert not (one.slow and one.low <= 0)
    finally:
        nodes.PERMUTATIONS = before
