"""Losses that could pass for ever are told, and their quiet twins pass: one seed of each row of the table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.detectors.silent import AGAIN, SECOND, SILENT, WANDERING
from ml_metrics.core.kinds import Measure
from ml_metrics.core.model import Outcome
from ml_metrics.judge import Judgement, changes_in, replay
from ml_metrics.judge.level import LevelRule, Levels, LossKind, follow
from unit.judge.cases import TEST, config, history

SEED = 1
KINDS = {
    "two modes 20 % apart, both +15 %": LossKind.MODES,
    "half of the runs at the slow mode, then 95 %": LossKind.MIX,
    "+20 % in 30 % of the nights": LossKind.FLAKY,
}
TOO_SMALL = "lognormal, twice the median"


def levels(name: str, *, quiet: bool = False, **rule: float) -> Levels:
    silent = SILENT[name]
    return follow(silent.quiet(SEED) if quiet else silent.series(SEED), LevelRule(worse=silent.worse, **rule))


@pytest.mark.parametrize("name", sorted(SILENT.keys() - {AGAIN, TOO_SMALL}))
def test_a_loss_is_told_and_its_quiet_twin_passes(name: str) -> None:
    silent, found = SILENT[name], levels(name)
    assert not found.failing[: silent.history].any()
    assert found.failing[silent.history : silent.history + silent.within].any()
    assert not levels(name, quiet=True).failing.any()
    if name in KINDS:
        first = silent.history + int(np.argmax(found.failing[silent.history :]))
        assert KINDS[name] in {found.at(run).kind for run in range(first, len(found.failing))}


def test_a_second_loss_while_one_is_open_is_told() -> None:
    silent, found = SILENT[AGAIN], levels(AGAIN)
    told = [run for run in range(len(found.failing)) if found.at(run).again is not None]
    assert silent.history + SECOND <= told[0] < silent.history + SECOND + 15
    assert found.at(-1).again is not None
    assert found.at(-1).level == pytest.approx(126, abs=2)


def test_a_loss_too_small_to_be_found_is_stated() -> None:
    """Where a run is often half or twice the median, twice the median is not found within 15 runs."""
    state = levels(TOO_SMALL).at(SILENT[TOO_SMALL].history - 1)
    assert state.watched.found_in_3 > state.watched.found_in_15 > state.reference


@pytest.mark.parametrize("name", WANDERING)
def test_a_level_that_wanders_is_named(name: str) -> None:
    for seed in (0, 1, 2):
        found = follow(WANDERING[name](np.random.default_rng(seed), 365), LevelRule(worse=1))
        assert sum(not found.at(run).watched.by_level for run in range(365)) > 365 / 3


def test_a_jump_is_told_even_where_the_level_wanders() -> None:
    walk = WANDERING["a random walk"](np.random.default_rng(2), 200)
    walk[150:] *= 1.5
    found = follow(walk, LevelRule(worse=1))
    assert [found.at(run).kind for run in (149, 152)] == [None, LossKind.JUMP]


@pytest.mark.parametrize(
    ("rule", "floor", "why"),
    [
        ({}, 0.005, "0.5 points"),
        ({"measure": Measure.RATIO}, 0.005, "0.5 points"),
        ({"measure": Measure.QUANTITY}, 0.0095, "1 %, since its noise is small"),
        ({"absolute": 0.003}, 0.003, "0.003, as stated"),
        ({"percent": 5.0}, 0.0475, "5 %, as stated"),
        ({"percent": 1.0, "absolute": 0.02}, 0.02, "0.02, as stated"),
    ],
)
def test_a_floor_fits_the_metric_and_what_is_stated_counts_as_it_says(
    rule: dict[str, float], floor: float, why: str
) -> None:
    watched = levels("accuracy .95 to .93, deviation .002", **rule).at(SILENT[TOO_SMALL].history - 1).watched
    assert watched.floor == pytest.approx(floor, rel=0.06)
    assert watched.floor_is == why


def test_a_ratio_in_percent_has_the_same_floor() -> None:
    values = 100 * SILENT["accuracy .95 to .93, deviation .002"].series(SEED)
    rule = LevelRule(worse=-1, measure=Measure.RATIO)
    assert follow(values, rule).at(-1).watched.floor == pytest.approx(0.5, rel=0.02)
    assert follow(-values, replace(rule, worse=1)).at(-1).watched.floor == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(("events", "fails"), [(1.0, False), (3.0, True)])
def test_of_a_count_one_event_more_is_no_loss(events: float, fails: bool) -> None:
    values = [0.0] * 40 + [events] * 12
    assert follow(values, LevelRule(worse=1, measure=Measure.COUNT)).failing.any() == fails
    assert follow(values, LevelRule(worse=1)).failing.any()


@pytest.mark.parametrize(
    ("min_change", "floor"),
    [(None, "0.5 points"), ({"absolute": 0.003}, "0.003, as stated"), ({"percent": 1.5}, "1.5 %")],
)
def test_an_accuracy_fails_and_the_reason_names_the_floor(min_change: dict[str, float] | None, floor: str) -> None:
    """Ten deviations of noise are 2 % of the value, and 40 % of the errors."""
    silent = SILENT["accuracy .95 to .93, deviation .002"]
    rows = [replace(row, metric="accuracy_final") for row in history(silent.series(SEED).tolist(), None)]
    condition = {"comparison": "greater", **({"min_change": min_change} if min_change else {})}
    runs = replay(config({"accuracy_final": condition}), rows, test=TEST).runs
    failed = [place for place, run in enumerate(runs) if run.judgement.outcome is Outcome.FAIL]
    assert failed == list(range(silent.history + 2, len(rows)))
    (verdict,) = runs[failed[0]].judgement.verdicts
    assert f"; a change counts from {floor}" in verdict.reason
    assert verdict.watched is not None
    assert Judgement.from_document(runs[failed[0]].judgement.document()).verdicts == (verdict,)
    (change,) = changes_in(rows)
    assert (change.index, change.certainty > 0.9) == (silent.history, True)


def test_a_stated_size_is_not_undercut() -> None:
    silent = SILENT["accuracy .95 to .93, deviation .002"]
    assert not levels("accuracy .95 to .93, deviation .002", percent=3.0).failing.any()
    assert not levels("accuracy .95 to .93, deviation .002", absolute=0.03).failing[silent.history :].any()
