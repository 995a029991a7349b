"""A host that became slower in the middle: found by its calibration loop, and rarely where it did not."""

from __future__ import annotations

import numpy as np
import pytest

from ml_metrics.compare.answer import Answer
from ml_metrics.compare.host_change import AFTER, BEFORE, apart, changed_at, notes_of_hosts
from ml_metrics.compare.plan import BASE, CANDIDATE, MeasuredRun, Plan, answers


def test_an_unchanged_host_is_rarely_reported() -> None:
    random = np.random.default_rng(3)
    found = [changed_at((1 + 0.02 * random.normal(size=24)).tolist(), 1.0) for _ in range(300)]
    assert sum(one is not None for one in found) <= 6


def test_a_slower_host_is_found_where_it_changed() -> None:
    random = np.random.default_rng(4)
    seconds = 0.001 * (1 + 0.01 * random.normal(size=24))
    seconds[9:] *= 1.1
    found = changed_at(seconds.tolist(), 2.0)
    assert found is not None
    assert (found[0], found[1]) == (9, pytest.approx(1.1, rel=0.02))
    assert changed_at(seconds.tolist(), 20.0) is None, "smaller than what matters"
    assert changed_at(seconds[:11].tolist(), 2.0) is None, "too few runs"


def test_sides_are_hosts_of_their_own() -> None:
    runs = apart([MeasuredRun(BASE, {"m": 1.0}), MeasuredRun(CANDIDATE, {"m": 1.0}, "n1")], 1)
    assert [run.host for run in runs] == [BEFORE, f"n1 {AFTER}"]


def test_arms_on_nodes_of_their_own_decide_nothing() -> None:
    """The slow node ran the candidate in each block: nothing tells the version from the node."""
    plan = Plan(2.0, 60)
    order = [arm for block in range(4) for arm in plan.order(block)]
    runs = [MeasuredRun(arm, {"m": 1.0 + 0.1 * (arm == CANDIDATE)}, f"node of the {arm}") for arm in order]
    (found,) = answers(plan, runs, {})
    assert (found.answer, found.interval) == (Answer.UNDECIDED, None)
    assert (
        found.reason == "base and candidate never ran on the same host, so that versions and hosts cannot be told apart"
    )
    assert "in 4 of 4 blocks" in notes_of_hosts([run.host for run in runs])[0]
