"""Comparisons and searches of a test, trial by trial, and the journal from which they go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ml_metrics import ConfigError
from ml_metrics.core.errors import FileMissingError
from ml_metrics.core.model import Run, Sweep, SweepPoint
from ml_metrics.judge import State
from ml_metrics.judge.bisect import Search
from ml_metrics.judge.compare import Plan
from ml_metrics.pipeline.experiments import Journal, TestSearch, TrialRun, open_journal, read_result
from ml_metrics.pipeline.experiments.comparison import Comparison

KEY = Run("ml-metrics-compare", "ml-metrics-compare", "by_hand", "local").key
COMPARISON = Comparison("t", "image", "app:1", "app:2", Plan(2.0, 60, ("step_time",)))


def played(
    experiment: Comparison | TestSearch, root: Path, measure: dict[str, float], hosts: tuple[str, ...] = ("a",)
) -> Journal:
    """Play an experiment to its end, with a journal that is opened anew for each trial, as after a kill."""
    random = np.random.default_rng(7)
    journal = open_journal(str(root), KEY, experiment.question())
    while (version := experiment.next_version(journal.trials)) is not None:
        value = measure[version]
        number = len(journal.trials)
        noisy = {"step_time": value * (1 + 0.01 * random.normal())}
        trial = TrialRun(version, values=noisy, host=hosts[number % len(hosts)])
        if not value:
            trial = TrialRun(version, State.UNTESTABLE, reason="ExitCode:125")
        journal.add(trial)
        journal = open_journal(str(root), KEY, experiment.question())
        assert len(journal.trials) == number + 1
    journal.write(experiment.result(journal.trials))
    return journal


def test_a_comparison_of_versions_that_differ(tmp_path: Path) -> None:
    journal = played(COMPARISON, tmp_path, {"app:1": 1.0, "app:2": 1.1})
    found = read_result(str(tmp_path), KEY)
    assert found["failed"]
    assert found["answer"] == f"1 worse ({len(journal.trials)} runs: every metric is decided)"
    assert found["comment"].startswith("### t: app:2 compared with app:1\n\n1 worse")
    assert "<failure" in found["junit"]
    assert found["notes"] == []


def test_a_curve_is_one_answer_and_survives_the_journal(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    asked = replace(COMPARISON, plan=Plan(2.0, 60))
    journal = open_journal(str(tmp_path), KEY, asked.question())
    while (version := asked.next_version(journal.trials)) is not None:
        worse = {x: 1.3 if version == "app:2" and x > 8 else 1.0 for x in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)}
        points = (SweepPoint(x, (9 + x) * each * (1 + 0.01 * random.normal())) for x, each in worse.items())
        curve = Sweep("ttft", "rate", tuple(points), better="lower")
        journal.add(TrialRun(version, values={"loss": 1 + 0.001 * random.normal()}, curves={"curve/ttft": curve}))
        journal = open_journal(str(tmp_path), KEY, asked.question())
    journal.write(asked.result(journal.trials))
    found = read_result(str(tmp_path), KEY)
    assert found["answer"] == f"1 worse, 1 equivalent ({len(journal.trials)} runs: every metric is decided)"
    assert found["document"]["metrics"]["curve/ttft"]["where"] == "from 16 on (rate)"


def test_a_search_reads_curves_of_trials(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    asked = TestSearch("t", "image", "curve/ttft", Search(tuple(f"app:{number}" for number in range(9)), 60))
    journal = open_journal(str(tmp_path), KEY, asked.question())
    while (version := asked.next_version(journal.trials)) is not None:
        worse = {x: 1.3 if version >= "app:5" and x > 8 else 1.0 for x in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)}
        points = (SweepPoint(x, (9 + x) * each * (1 + 0.01 * random.normal())) for x, each in worse.items())
        curve = Sweep("ttft", "rate", tuple(points))
        journal.add(TrialRun(version, values={"curve/ttft": 100.0}, curves={"curve/ttft": curve}))
        journal = open_journal(str(tmp_path), KEY, asked.question())
    result = asked.result(journal.trials)
    assert result.answer.startswith("the level changed with app:5: from 16 on (rate)")
    values = [(one["candidate"] >= "app:5", one["value"]) for one in result.document["probes"]]
    assert all(abs(value - (130 if is_bad else 100)) < 4 for is_bad, value in values), values


def test_equal_versions_pass(tmp_path: Path) -> None:
    played(COMPARISON, tmp_path, {"app:1": 1.0, "app:2": 1.0})
    found = read_result(str(tmp_path), KEY)
    assert not found["failed"]
    assert found["document"]["metrics"]["step_time"]["verdict"] == "equivalent"


def test_an_image_that_does_not_exist_ends_after_a_block(tmp_path: Path) -> None:
    journal = played(COMPARISON, tmp_path, {"app:1": 1.0, "app:2": 0.0})
    found = read_result(str(tmp_path), KEY)
    assert len(journal.trials) == 4
    assert found["failed"]
    note = "2 runs of app:2 measured nothing: ExitCode:125"
    assert found["answer"] == f"1 undecided (4 runs: every run of the candidate broke; {note})"
    assert found["notes"] == [note]


def test_a_host_that_changes_in_the_middle_is_no_difference_of_the_versions(tmp_path: Path) -> None:
    """The candidate always runs on a slow host: no block has both versions on one host, so nothing is decided."""
    journal = open_journal(str(tmp_path), KEY, COMPARISON.question())
    while (version := COMPARISON.next_version(journal.trials)) is not None:
        slow = version == "app:2"
        value = (1.1 if slow else 1.0) + 0.001 * len(journal.trials)
        journal = journal.add(TrialRun(version, values={"step_time": value}, host="slow" if slow else "fast"))
    result = COMPARISON.result(journal.trials)
    assert result.document["metrics"]["step_time"]["verdict"] == "undecided"
    assert "the host changed in" in result.notes[0]
    same_host = [TrialRun(one.version, values=one.values, host="one") for one in journal.trials[:12]]
    assert COMPARISON.result(same_host).document["metrics"]["step_time"]["verdict"] == "worse"


def test_a_journal_belongs_to_one_question(tmp_path: Path) -> None:
    open_journal(str(tmp_path), KEY, COMPARISON.question())
    other = Comparison("t", "image", "app:1", "app:3", COMPARISON.plan)
    with pytest.raises(ConfigError, match=r"another question before \(candidate\)"):
        open_journal(str(tmp_path), KEY, other.question())
    with pytest.raises(ConfigError, match="has not ended"):
        read_result(str(tmp_path), KEY)
    with pytest.raises(FileMissingError):
        open_journal(str(tmp_path), KEY.replace("-", "0"))


def test_equal_versions_are_no_question() -> None:
    with pytest.raises(ConfigError, match="nothing to compare"):
        Comparison("t", "image", "app:1", "app:1", COMPARISON.plan)


def test_a_search_finds_the_slow_commit_and_leaves_out_what_does_not_build(tmp_path: Path) -> None:
    commits = tuple(f"c{number:03}" for number in range(200))
    levels = {commit: 1.03 if place >= 137 else 1.0 for place, commit in enumerate(commits)} | dict.fromkeys(
        ("c050", "c100", "c150", "c136"), 0.0
    )
    search = TestSearch("t", "commit", "step_time", Search(commits, 64, (1.0, 1.01, 0.99), (1.03, 1.04, 1.02)))
    journal = played(search, tmp_path, levels)
    assert TestSearch.from_question(journal.question) == search
    found = read_result(str(tmp_path), KEY)
    assert (found["document"]["good"], found["document"]["bad"]) == ("c135", "c137")
    assert found["document"]["between"] == ["c136"]
    assert not found["failed"]
    assert any(note.endswith("cannot be tested, ExitCode:125") for note in found["notes"])
    assert "| 138 | c137 |" in found["comment"]


def test_a_search_without_a_change_answers_noise(tmp_path: Path) -> None:
    commits = tuple(f"c{number}" for number in range(50))
    search = TestSearch("t", "commit", "step_time", Search(commits, 64))
    played(search, tmp_path, dict.fromkeys(commits, 1.0))
    found = read_result(str(tmp_path), KEY)
    assert not found["failed"], "that there is no change is an answer"
    assert found["answer"].startswith("nothing found: between c0 and c49, there is no more than noise")


def test_a_search_whose_end_cannot_be_built_has_no_answer(tmp_path: Path) -> None:
    search = TestSearch("t", "commit", "step_time", Search(("c0", "c1", "c2"), 64))
    played(search, tmp_path, {"c0": 0.0, "c1": 1.0, "c2": 1.0})
    found = read_result(str(tmp_path), KEY)
    assert found["failed"]
    assert "cannot be measured" in found["answer"]
