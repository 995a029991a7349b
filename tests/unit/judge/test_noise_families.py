"""The default rule in each family of noise: losses are found, healthy runs pass."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.detectors.noise import FAMILIES
from benchmarks.detectors.scores import Score
from benchmarks.detectors.stories import RUNS, cases
from ml_metrics.core.model import Outcome
from ml_metrics.judge import replay
from ml_metrics.judge.level import LevelRule, follow
from unit.judge.cases import TEST, condition, config, history

SEED = 7
WAIT = {"wait_for_n_points_of_history": 10}
RULES = {
    "mads": condition({"mads_from_median": 5}, "less", min_change={"percent": 3}, **WAIT),
    "best": condition({"percent_difference": 5}, "less", against="best", **WAIT),
    "sd": condition({"stddevs_from_mean": 4}, "less", **WAIT),
}


def score(family: str, *stories: str) -> Score:
    total = Score()
    for case in cases(SEED, (family,), stories):
        total.add(case, np.asarray(follow(case.values, LevelRule(worse=1)).failing))
    return total


@pytest.mark.parametrize("family", FAMILIES)
def test_losses_are_found_within_fifteen_runs(family: str) -> None:
    total = score(family, "step", "recovery", "gain, then loss", "loss beside bad nights", "back and forth")
    assert (total.within(15), total.blind, total.stuck) == (100, 0, 0)
    assert total.within(5) >= 80


def test_healthy_runs_pass() -> None:
    scores = {family: score(family, "nothing", "nothing again", "gain", "bad nights") for family in FAMILIES}
    assert [family for family, each in scores.items() if each.stuck] == []
    assert [family for family, each in scores.items() if each.starts > 3] == []
    # one false start in 10,000 healthy runs
    assert sum(each.starts for each in scores.values()) <= sum(each.healthy for each in scores.values()) / 10_000 + 2


@pytest.mark.parametrize("rule", RULES)
def test_a_constant_never_fails_by_bounds(rule: str) -> None:
    runs = replay(config({"default": RULES[rule]}), history([7.0] * RUNS, outcome=None), test=TEST).runs
    assert all(verdict.outcome is not Outcome.FAIL for run in runs for verdict in run.judgement.verdicts)


def test_lucky_runs_during_a_loss_set_no_level() -> None:
    values = 100 + np.random.default_rng(1).normal(size=200)
    values[60:120] += 15
    for first in (70, 85, 100, 112):
        values[first : first + 3] = 40
    failing = np.asarray(follow(values, LevelRule(worse=1)).failing)
    assert failing[62:70].all()
    assert not failing[123:].any()
