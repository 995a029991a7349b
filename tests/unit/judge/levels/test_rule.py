"""Which changes are losses, and how many runs must have them."""

from __future__ import annotations

import numpy as np
import pytest

from ml_metrics.config.conditions import ChangePoint
from ml_metrics.judge.level import LevelRule, Size, follow
from unit.judge.cases import noisy


def test_a_rule_is_that_of_a_condition_that_states_nothing_else() -> None:
    usual, rule = ChangePoint(), LevelRule(worse=1)
    assert (rule.p_value, rule.min_change_percent, rule.min_runs, rule.min_change) == (
        usual.p_value, usual.min_change_percent, usual.min_runs, 0
    )  # fmt: skip


@pytest.mark.parametrize(("worse", "directions"), [(1, (1,)), (-1, (-1,)), (0, (1, -1))])
def test_without_a_worse_side_both_are(worse: int, directions: tuple[int, ...]) -> None:
    assert LevelRule(worse=worse).directions == directions


def test_the_smallest_change_is_the_larger_of_both_sizes_and_never_nothing() -> None:
    levels = np.array([-200.0, 0.0, 10.0, 100.0])
    assert LevelRule(1, 5.0, 2.0).smallest_change(levels).tolist() == [10, 2, 2, 5]
    assert LevelRule(1, 0.0).smallest_change(levels).tolist() == [np.finfo(float).tiny] * 4


@pytest.mark.parametrize(
    ("runs", "sizes"),
    [
        (2, [(2, 2, 3.0), (3, 3, 3), (4, 3, 3), (5, 3, 3.25), (6, 4, 4), (8, 5, 4), (10, 6, 4), (15, 8, 4)]),
        (3, [(3, 3, 3.0), (4, 3, 3), (5, 3, 3.25), (6, 4, 4), (8, 5, 4), (10, 6, 4), (15, 8, 4)]),
        (5, [(5, 5, 3.25), (6, 5, 4), (8, 5, 4), (10, 6, 4), (15, 8, 4)]),
        (7, [(7, 7, 4.0), (8, 7, 4), (10, 7, 4), (15, 8, 4)]),
        (20, [(20, 20, 4.0)]),
    ],
)
def test_a_new_level_has_at_least_as_many_runs_as_asked(runs: int, sizes: list[tuple[int, int, float]]) -> None:
    assert LevelRule(worse=1, min_runs=runs).sizes() == [Size(*size) for size in sizes]


@pytest.mark.parametrize(("worse", "below", "above"), [(1, 0, 2), (-1, 2, 0), (0, 2, 2)])
def test_the_newest_runs_beyond_the_margin_are_counted_while_no_loss_is_open(
    worse: int, below: int, above: int
) -> None:
    """Among the last six, in the direction that is worse."""
    steady = noisy([(100, 40)])
    rule = LevelRule(worse=worse)
    assert follow(steady, rule).at(-1).suspected == 0
    assert follow([*steady, 130.0, 131.0], rule).at(-1).suspected == above
    assert follow([*steady, 70.0, 69.0], rule).at(-1).suspected == below
    later = follow([*steady, 130.0, 131.0, *steady[:4], *steady[:3]], rule)
    assert [later.at(run).suspected for run in range(39, 49)] == [0, above // 2, *[above] * 5, above // 2, 0, 0]


@pytest.mark.parametrize("runs", [41, 42])
def test_the_newest_run_has_the_state_that_it_has_in_a_longer_series(runs: int) -> None:
    values = noisy([(100, 60)])
    assert follow(values[:runs], LevelRule(worse=1)).at(-1) == follow(values, LevelRule(worse=1)).at(runs - 1)
