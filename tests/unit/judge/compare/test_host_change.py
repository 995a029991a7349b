"""A host that became slower in the middle: found by its calibration loop, and rarely where it did not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ml_metrics.judge.compare import (
    BASE,
    CANDIDATE,
    Answer,
    MeasuredRun,
    Plan,
    answers,
    apart,
    changed_at,
    notes_of_hosts,
)
from ml_metrics.judge.compare.plan import AFTER, BEFORE


def runs_of(values: Sequence[float], versions: float = 1.0, blocks: int = 6) -> list[MeasuredRun]:
    """Runs of a plan whose values are those of the host, times a factor for the candidate."""
    plan = Plan(2.0, 60)
    order = [arm for block in range(blocks) for arm in plan.order(block)]
    return [
        MeasuredRun(arm, {"m": value * (versions if arm == CANDIDATE else 1.0)})
        for arm, value in zip(order, values, strict=False)
    ]


def test_an_unchanged_host_is_not_reported() -> None:
    random = np.random.default_rng(3)
    noise = 1 + 0.02 * random.normal(size=(300, 2, 24))
    assert not any(changed_at(runs_of(values), seconds.tolist(), 1.0) for values, seconds in noise)


@pytest.mark.parametrize("share", [0.03, 0.1, 0.3])
def test_a_loop_that_drifts_alone_is_no_change(share: float) -> None:
    """The times of a loop are not those of a metric: neighbours and clocks move them by more than what matters."""
    random = np.random.default_rng(5)
    for place in range(6, 19):
        seconds = 0.001 * (1 + 0.005 * random.normal(size=24))
        seconds[place:] *= 1 + share
        values = 1 + 0.01 * random.normal(size=24)
        assert changed_at(runs_of(values, 1.3), seconds.tolist(), 2.0) is None


@pytest.mark.parametrize("versions", [1.0, 1.02, 1.5])
@pytest.mark.parametrize("factor", [0.7, 1.1, 1.3])
def test_a_changed_host_is_found_where_it_changed(factor: float, versions: float) -> None:
    random = np.random.default_rng(4)
    seconds, values = 1 + 0.01 * random.normal(size=(2, 24))
    seconds[9:] *= factor
    values[8:] *= factor  # from the run on before which the loop was still as fast as ever
    found = changed_at(runs_of(values, versions), seconds.tolist(), 2.0)
    assert found is not None
    assert (found[0], found[1]) == (9, pytest.approx(factor, rel=0.02))
    assert changed_at(runs_of(values, versions), seconds.tolist(), 40.0) is None, "smaller than what matters"
    assert changed_at(runs_of(values[:11]), seconds[:11].tolist(), 2.0) is None, "too few runs"


def test_a_metric_that_moves_less_than_what_matters_is_no_reason_to_cut_a_block() -> None:
    seconds, values = np.ones(24), np.ones(24)
    seconds[9:], values[9:] = 1.3, 1.01
    assert changed_at(runs_of(values), seconds.tolist(), 2.0) is None
    values[9:] = 1.03
    assert changed_at(runs_of(values), seconds.tolist(), 2.0) == (9, 1.3)


def test_versions_that_move_apart_are_no_change_of_the_host() -> None:
    seconds = np.ones(24)
    seconds[9:] = 1.3
    runs = runs_of(np.ones(24))
    apart_ = [
        MeasuredRun(run.arm, {"m": 1.0 if number < 9 else 1.3 if run.arm == BASE else 0.7})
        for number, run in enumerate(runs)
    ]
    assert changed_at(apart_, seconds.tolist(), 2.0) is None
    broken = [run if number < 9 else MeasuredRun(run.arm) for number, run in enumerate(runs)]
    assert changed_at(broken, seconds.tolist(), 2.0) is None


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
