"""The bench of detectors: its series, its scores, its rules, and the page that it writes."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks.detectors import rules
from benchmarks.detectors.__main__ import OF_OURS, OF_RULES, PAGES, planted, tcpd
from benchmarks.detectors.noise import FAMILIES
from benchmarks.detectors.page import begin, has, in_page, names_in
from benchmarks.detectors.real import Labelled, tcpd_series
from benchmarks.detectors.rules import OURS, RULES, rule
from benchmarks.detectors.scores import Score, agreement_of, covering_of, f1_of
from benchmarks.detectors.stories import AFTERMATH, Case, cases
from benchmarks.detectors.weights import Candidates, fitted_weights
from ml_metrics.judge.level import LevelRule, follow

if TYPE_CHECKING:
    from benchmarks.detectors.rules import Search

PEOPLE = [[20, 60], [21, 60], [22], [40], []]
STEP = np.repeat([100.0, 115.0], [40, 20]) + np.random.default_rng(4).normal(0, 0.3, 60)
SINGLE_RUNS = [name for name, one in RULES.items() if not one.needs]


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


@pytest.mark.parametrize("delay", [0, 1, 4, 5, 14, 15])
def test_a_loss_is_found_by_its_first_failing_run(delay: int) -> None:
    found = score(case(losses=((40, 80),)), range(40 + delay, 80))
    assert [found.within(runs) for runs in (delay, delay + 1)] == [0, 100]
    assert (found.starts, found.blind) == (0, 0)


@pytest.mark.parametrize(("length", "blind"), [(19, 0), (20, 1)])
def test_a_rule_is_blind_to_a_long_loss_that_never_fails(length: int, blind: int) -> None:
    found = score(case(losses=((40, 40 + length),)))
    assert (found.blind, found.found()) == (blind, "0/0/0/0")


def test_a_healthy_run_that_begins_to_fail_is_a_false_start() -> None:
    assert score(case(losses=((40, 60),)), range(42, 64)).starts == 0
    assert score(case(losses=((40, 60),)), range(42, 61), range(63, 64)).false_starts() == 1_000 / 80


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


@pytest.mark.parametrize("name", SINGLE_RUNS)
def test_each_rule_sees_a_large_step_and_no_rule_sees_the_future(name: str) -> None:
    (flags,) = RULES[name].fails([STEP], [0])
    (early,) = RULES[name].fails([STEP[:45]], [0])
    assert flags[40:56].any()
    assert flags[:45].tolist() == early.tolist()
    (late,) = RULES[name].fails([STEP], [40])
    assert late[40:].tolist() == flags[40:].tolist()


@pytest.mark.parametrize("name", [name for name in SINGLE_RUNS if RULES[name].places])
def test_each_search_finds_the_place_of_a_step_in_both_directions(name: str) -> None:
    search = RULES[name].places
    assert search is not None
    for values in (STEP, 215 - STEP):
        assert any(abs(place - 40) <= 1 for place in search(values))


def test_ours_is_judged_as_it_is_shipped() -> None:
    many = [each.values[-150:] for each in cases(3, ("heavy tails",), ("late",))]
    for values, flags in zip(many, RULES[OURS].fails(many, [0]), strict=True):
        assert flags.tolist() == follow(values, LevelRule(worse=1)).failing.tolist()


def test_a_stranger_adds_a_rule_and_gets_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of the rules' module, as it stands there."""
    monkeypatch.setattr(rules, "RULES", RULES.copy())
    lines = (rules.__doc__ or "").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("    @rule"))
    example = "\n".join(line[4:] for line in lines[first : first + 3])
    known = {"rule": rule, "Values": object}
    exec(example, known)
    name = "three runs above the thirty before"
    assert np.flatnonzero(rules.RULES[name].fails([STEP], [0])[0]).tolist()[0] == 42
    monkeypatch.setitem(RULES, name, rules.RULES[name])
    monkeypatch.setattr("benchmarks.detectors.__main__.COMPARED", ("step",))
    (row,) = planted(name, ("normal",)).values()
    page = in_page(page_with("planted"), "planted", {name: row}, [*RULES])
    assert name in names_in(page, "planted")


@pytest.mark.parametrize(
    ("find", "failing"),
    [
        (lambda _: [40], [40, 41, 42, 43, 44]),
        (lambda values: [40] if len(values) > 42 else [], [42, 43, 44]),
        (lambda values: [40] if len(values) > 50 else [], [50]),
        (lambda values: [40 - len(values) % 5] if len(values) > 50 else [], [50]),
        (lambda values: [38, 39, 41][: len(values) - 50] if len(values) > 50 else [], [50, 52]),
        (lambda _: [], []),
    ],
)
def test_a_search_alarms_once_about_a_place_and_only_for_the_worse(find: Search, failing: list[int]) -> None:
    spike = STEP + 50 * (np.arange(60) == 38)
    assert np.flatnonzero(rules.reports(lambda v: find(v) if len(v) > 40 else [], spike)).tolist() == failing
    assert not rules.reports(lambda v: [40] if len(v) > 40 else [], -STEP).any()


def test_rows_that_are_not_measured_stay() -> None:
    page = f"before\n{begin('t')}\n\n| rule | x |\n| --- | --- |\n| old | 1 |\n| gone | 2 |\n\n<!-- end -->\nafter"
    both = in_page(page, "t", {"new": ["3"]}, ["new", "old"])
    assert names_in(both, "t") == ["new", "old"]
    assert in_page(both, "t", {"old": ["1"], "new": ["3"]}, ["new", "old"]) == both
    assert (both[:7], both[-6:]) == ("before\n", "\nafter")
    assert "| new | 3 |\n| old | 1 |\n" in both


def page_with(table: str) -> str:
    (page,) = (text for text in (each.read_text() for each in PAGES) if has(text, table))
    return page


def test_the_pages_have_a_row_for_each_rule() -> None:
    with_places = [name for name, one in RULES.items() if one.places]
    for table in (one.__name__ for one in OF_RULES if one is not tcpd):
        rows = [name for name in names_in(page_with(table), table) if name in RULES]
        assert rows == (list(RULES) if table == "planted" else with_places)
    for table, names in OF_OURS.values():
        assert not names or names_in(page_with(table), table) == names


def series(people: list[list[int]], *levels: tuple[float, int], seed: int = 0) -> Labelled:
    random = Random(seed)
    values = [random.gauss(level, 1) for level, runs in levels for _ in range(runs)]
    return Labelled(f"sap_{seed}_split1", values, people)


@pytest.mark.parametrize(
    ("found", "right", "wrong", "missed"),
    [([], 0, 0, 1), ([18], 1, 0, 0), ([18, 20], 1, 0, 0), ([40, 60], 0, 0, 1), ([5, 23, 75], 1, 2, 0)],
)
def test_a_place_near_marks_of_a_few_counts_neither_way(found: list[int], right: int, wrong: int, missed: int) -> None:
    agreement = agreement_of([(series(PEOPLE, (0, 80)), found)])
    assert (agreement.right, agreement.wrong, agreement.missed, agreement.silent) == (right, wrong, missed, 0)


def test_f1_and_covering_of_what_people_mark_themselves() -> None:
    assert f1_of([[20, 60]] * 3, [20, 60]) == 1
    assert f1_of([[20, 60]] * 3, []) == pytest.approx(0.5)
    assert covering_of([[20, 60]] * 3, [20, 60], 80) == 1
    assert covering_of([[40]] * 3, [], 80) == pytest.approx(0.5)


def test_series_of_the_turing_data_set_are_read_without_what_is_missing(tmp_path: Path) -> None:
    raw = [1342, 1886, None, 2048, 2429, 2336]
    for name, several in (("centralia", 1), ("run_log", 2)):
        (tmp_path / "datasets" / name).mkdir(parents=True)
        document = {"name": name, "n_obs": 6, "n_dim": several, "series": [{"label": "V1", "raw": raw}] * several}
        (tmp_path / "datasets" / name / f"{name}.json").write_text(json.dumps(document))
    marks = {name: {"6": [4], "7": []} for name in ("centralia", "run_log", "bitcoin")}
    (tmp_path / "annotations.json").write_text(json.dumps(marks))
    assert tcpd_series(tmp_path) == [Labelled("centralia", [1342, 1886, 2048, 2429, 2336], [[3], []])]
    assert tcpd_series(tmp_path / "absent") == []


def test_weights_are_fitted_to_marks() -> None:
    marked = [series([[60]] * 5, (0, 60), (4, 60), seed=seed) for seed in range(8)]
    unmarked = [series([[]] * 5, (0, 60), (1.5, 60), seed=seed) for seed in range(8, 16)]
    candidates = [Candidates(one) for one in [*marked, *unmarked]]
    weights = fitted_weights(candidates)
    found = [[edge for _, edge, _ in one.remaining(weights, 0.5)] for one in candidates]
    assert all(len(edges) == 1 and abs(edges[0] - 60) <= 2 for edges in found[:8])
    assert sum(map(len, found[8:])) <= 1
