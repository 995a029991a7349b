"""Every command judges, describes and proposes by the quotient where a condition has `relative_to`."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING

import pytest

from unit.ui.cli.shell import Shell, history_file

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
regression_test_config:
  metric_success_conditions:
    step_time: {comparison: less, relative_to: REFERENCE}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with conditions and the history of a loss of 8 % in run 60, on machines that become faster there."""
    monkeypatch.chdir(tmp_path)
    random, machines = Random(3), [(1.3, 1.0)] * 60 + [(1.0, 1.08)] * 20
    nights = [
        (0.8 * slow * loss * random.gauss(1, 0.01), 0.65 * slow * random.gauss(1, 0.01)) for slow, loss in machines
    ]
    history_file(tmp_path, dict(zip(("step_time", "matmul"), zip(*nights, strict=True), strict=True)))
    (tmp_path / "test.yaml").write_text(CONFIG.replace("REFERENCE", "matmul"))
    (tmp_path / "metrics.json").write_text(json.dumps({"step_time": 0.8 * 1.08, "matmul": 0.65}))
    return tmp_path


def printed(ml: Shell, *argv: str, code: int = 0) -> str:
    return " ".join(ml(*argv, code=code).split())


@pytest.mark.usefixtures("place")
def test_a_run_is_judged(ml: Shell) -> None:
    judge = ("judge", "test.yaml", "--metrics", "metrics.json", "--history", "history.jsonl")
    (verdict,) = ml.json(*judge, code=1)["verdicts"]
    assert verdict["verdict"] == "fail"
    assert verdict["reason"].startswith("relative to matmul, the level rose from 1.2")
    assert 0.8 < verdict["upper"] < verdict["value"] == 0.8 * 1.08


@pytest.mark.usefixtures("place")
def test_the_past_is_replayed_and_compared(ml: Shell) -> None:
    replay = ("replay", "test.yaml", "--history", "history.jsonl")
    found = ml.json(*replay, code=1)
    failed = [run["uuid"] for run in found["runs"] if run["verdicts"][0]["verdict"] == "fail"]
    assert failed[0] in {"run-62", "run-63"}
    compared = ml.json(*replay, "--rule", "4 sd wait 10")["metrics"]
    assert [compared[rule]["step_time"]["found"] for rule in ("as configured", "4 sd wait 10")] == [1, 1]


@pytest.mark.usefixtures("place")
def test_changes_are_those_of_the_quotient(ml: Shell) -> None:
    changes = ("changes", "test.yaml", "--history", "history.jsonl", "--metric", "step_time")
    assert "step_time relative to matmul: the level rose from 1.2" in printed(ml, *changes)
    assert [each["uuid"] for each in ml.json(*changes)["series"]["step_time"]] == ["run-60"]
    assert "the level fell from" in printed(ml, "changes", "--history", "history.jsonl", "--metric", "step_time")


def test_a_proposal_keeps_the_reference(place: Path, ml: Shell) -> None:
    calibrate = ("calibrate", "test.yaml", "--history", "history.jsonl", "--metric", "step_time")
    found = ml.json(*calibrate, "--apply")["metrics"]["step_time"]
    assert found["comparison_from"] == "its condition, relative to matmul"
    assert 1.2 < found["noise"]["level"] < 1.4
    assert "relative_to: matmul" in (place / "test.yaml").read_text()
    assert "no problems" in printed(ml, "validate", "test.yaml")


def test_a_reference_that_no_run_has_is_named(place: Path, ml: Shell) -> None:
    validate = ("validate", "test.yaml", "--with-history", "history.jsonl")
    assert "no problems" in printed(ml, *validate)
    (place / "test.yaml").write_text(CONFIG.replace("REFERENCE", "matmull"))
    text = printed(ml, *validate, code=1)
    assert "step_time: relative_to: no past run produced a metric 'matmull'; did you mean 'matmul'?" in text
    assert text.startswith("test.yaml:4:")
