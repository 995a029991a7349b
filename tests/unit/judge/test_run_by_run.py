"""The benchmark of rules run by run: its cases, its score, and the tables that it writes into the docs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from run_by_run.noise import FAMILIES
from run_by_run.scores import Score
from run_by_run.stories import AFTERMATH, STORIES, Case, cases
from run_by_run.tables import BEGIN, END, compared, in_docs, tables

PROJECT = Path(__file__).parents[3]
PAGE = PROJECT / "docs" / "semantics.md"
MEASURED = PROJECT / "benchmarks" / "run_by_run" / "measured.json"


def case(runs: int = 100, losses: tuple[tuple[int, int], ...] = (), creep: int | None = None) -> Case:
    healthy, aftermath = np.ones(runs, dtype=np.bool_), np.zeros(runs, dtype=np.bool_)
    for first, end in losses:
        healthy[first:end] = False
        aftermath[end : end + AFTERMATH] = True
    if creep is not None:
        healthy[creep:] = False
    crept = np.maximum(0.0, np.arange(runs) - (creep or 0)) * 0.5
    return Case("normal", "step", np.ones(runs), healthy, aftermath, losses, creep, crept, 1.0)


def score(of: Case, *failing: range) -> Score:
    flags = np.zeros(len(of.values), dtype=np.bool_)
    for runs in failing:
        flags[runs.start : runs.stop] = True
    result = Score()
    result.add(of, flags)
    return result


@pytest.mark.parametrize(("delay", "soon", "late"), [(0, 1, 1), (4, 1, 1), (5, 0, 1), (14, 0, 1), (15, 0, 0)])
def test_a_loss_is_found_by_its_first_failing_run(delay: int, soon: int, late: int) -> None:
    found = score(case(losses=((40, 80),)), range(40 + delay, 80))
    assert (found.soon, found.late, found.delays, found.starts) == (soon, late, [delay], 0)


@pytest.mark.parametrize(("length", "blind"), [(19, 0), (20, 1)])
def test_a_rule_is_blind_to_a_long_loss_that_never_fails(length: int, blind: int) -> None:
    assert score(case(losses=((40, 40 + length),))).blind == blind


def test_runs_shortly_after_a_recovery_may_still_fail() -> None:
    patient = score(case(losses=((40, 60),)), range(42, 60 + AFTERMATH))
    assert (patient.starts, patient.failing, patient.stuck) == (0, 0, 0)
    assert score(case(losses=((40, 60),)), range(42, 60 + AFTERMATH + 3)).failing == 3


def test_a_new_failure_shortly_after_a_recovery_is_a_false_start() -> None:
    assert score(case(losses=((40, 60),)), range(42, 61), range(63, 64)).starts == 1


@pytest.mark.parametrize(("length", "stuck"), [(29, 0), (30, 1)])
def test_a_metric_is_stuck_after_thirty_failing_healthy_runs(length: int, stuck: int) -> None:
    result = score(case(), range(20, 20 + length))
    assert (result.stuck, result.starts, result.noisy, result.failing) == (stuck, 1, 1, length)


def test_a_creep_is_found_at_the_rise_of_its_first_failing_run() -> None:
    assert score(case(creep=50), range(58, 60), range(80, 90)).crept == [4.0]


def test_scores_are_added() -> None:
    total = score(case(losses=((40, 80),)), range(43, 80))
    total.merge(score(case(), range(5)))
    assert total.figures() | {"delay p50": None, "delay p90": None} == {
        "cases": 2,
        "losses": 1,
        "soon": 100.0,
        "late": 100.0,
        "ever": 100.0,
        "delay p50": None,
        "delay p90": None,
        "starts": round(1_000 / 160, 2),
        "failing": round(5_000 / 160, 1),
        "noisy": 1,
        "stuck": 0,
        "blind": 0,
        "creeps": 0,
        "creeps found": 0,
        "crept": None,
        "most crept": None,
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_losses_begin_and_end_at_runs_of_the_series(family: str) -> None:
    for each in cases(1, (family,)):
        assert np.isfinite(each.values).all()
        assert len(each.values) == len(each.healthy) == len(each.aftermath) == len(each.crept)
        for first, end in each.losses:
            assert not each.healthy[first:end].any()
            assert each.healthy[first - 1]
            assert end == len(each.values) or each.healthy[end]


@pytest.mark.parametrize("family", FAMILIES)
def test_noise_has_about_the_stated_spread(family: str) -> None:
    noise = FAMILIES[family].noise(np.random.default_rng(3), 20_000)
    assert abs(float(noise.mean())) < 0.25
    assert 0.8 < float(noise.std()) < 1.3


def test_a_case_does_not_depend_on_the_others() -> None:
    one = cases(7, ("skewed",), ("step",))[0]
    (same,) = (each for each in cases(7, stories=("step",)) if each.family == "skewed")
    assert one.values.tolist() == same.values.tolist()
    assert one.losses == same.losses
    assert len(cases(7, ("normal",))) == len(STORIES)


def test_the_docs_have_the_measured_figures() -> None:
    page = PAGE.read_text()
    assert page == in_docs(page, json.loads(MEASURED.read_text())), "python benchmarks/online_rules.py --docs"


def test_a_page_keeps_what_is_around_the_tables() -> None:
    figures = json.loads(MEASURED.read_text())
    page = in_docs(f"before\n{BEGIN}\nold\n{END}\nafter\n", figures)
    assert page == f"before\n{BEGIN}\n{compared(figures)}\n{END}\nafter\n"


def test_there_is_no_table_of_real_windows_without_them() -> None:
    figures = json.loads(MEASURED.read_text())
    assert "Real windows" in tables(figures)
    assert "in each family of noise" in tables(figures).removeprefix(compared(figures))
    assert "Real windows" not in tables({**figures, "real": {}})
