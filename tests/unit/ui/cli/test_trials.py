"""What the command line shows of trials."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ml_metrics.ui.cli.inputs import read_history
from ml_metrics.warehouse import open_warehouse
from unit.ui.cli.shell import Shell
from unit.warehouse.records import TEST, record, run_of

TRIAL_KEY = run_of(2).key
METRIC = "accuracy_final"


@pytest.fixture
def place(tmp_path: Path) -> str:
    address = f"sqlite:///{tmp_path}/w.db"
    trial = record(2, {METRIC: 0.5}, trial=("image", "size"))
    with open_warehouse(address) as warehouse:
        warehouse.load_all([record(0), record(1), replace(trial, job=replace(trial.job, started_by="alice"))])
    return address


@pytest.fixture
def printed(place: str, ml: Shell) -> Callable[..., str]:
    return lambda *argv, code=0: ml(*argv, "--warehouse", place, code=code)


def test_the_history_of_a_test_marks_its_trials(printed: object) -> None:
    lines = printed("history", TEST).splitlines()
    assert lines[1].startswith(TRIAL_KEY[:8])
    assert lines[2].strip() == "a trial by alice with another image, size"
    assert "trial" not in "".join([lines[1], *lines[3:]])
    document = json.loads(printed("history", TEST, "--json"))
    assert [run["trial"] for run in document["runs"]] == ["image, size", None, None]
    assert [run["started_by"] for run in document["runs"]] == ["alice", None, None]
    assert [value["value"] for value in document["values"]] == [0.97, 0.97]


def test_the_values_of_a_metric_mark_those_of_trials(printed: object, tmp_path: Path) -> None:
    head, first, second, *_ = printed("history", TEST, METRIC).splitlines()[3:]
    assert head.split()[-1] == "verdict"
    assert first.endswith("-, trial")
    assert second.endswith("-")
    text = printed("history", TEST, METRIC, "--json")
    assert [value["trial"] for value in json.loads(text)["values"]] == ["image, size", None, None]
    (tmp_path / "exported.json").write_text(text, encoding="utf-8")
    assert [row.value for row in read_history(str(tmp_path / "exported.json"))] == [0.97, 0.97]


def test_lines_for_other_commands_have_no_trial(printed: object, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in printed("history", TEST, "--jsonl").splitlines()]
    assert [line["metric_value"] for line in lines] == [0.97, 0.97]
    rows = [json.dumps({**line, "trial": trial}) for line, trial in zip(lines, ("image", None), strict=True)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    assert [row.run_key for row in read_history(str(tmp_path / "rows.jsonl"))] == [lines[1]["uuid"]]


def test_tests_count_trials_apart(printed: object, place: str) -> None:
    with open_warehouse(place) as warehouse:
        warehouse.load(record(0, test="only-tried", trial=("size",)))
    out = printed("tests")
    assert out.splitlines()[-1] == f"Trials, which are not counted above: only-tried 1, {TEST} 1."
    document = json.loads(printed("tests", "--json"))
    assert [(one["test"], one["runs"]) for one in document["tests"]] == [(TEST, 2)]
    assert document["trials"] == {"only-tried": 1, TEST: 1}
    assert "a trial with another size" in printed("history", "only-tried")


def test_the_level_of_a_trial_is_not_accepted(printed: object, place: str) -> None:
    accept = ["accept", TEST, METRIC, "--reason", "new image"]
    error = printed(*accept, "--run", TRIAL_KEY[:8], code=2)
    assert f"run {TRIAL_KEY[:8]} is a trial with another image, size" in error
    with open_warehouse(place) as warehouse:
        assert warehouse.acceptances.of_test(TEST) == []
    assert f"run {run_of(1).key[:8]}" in printed(*accept), "the default is the newest regular run"
