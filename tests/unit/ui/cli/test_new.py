"""`ml-metrics new`: what it writes is a valid test file, and what is wrong leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ml_metrics.config.loading import load_tests
from ml_metrics.core.model import Run
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui import cli


@pytest.fixture
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "configs"
    folder.mkdir()
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(folder))
    return folder


def test_options_become_a_test(configs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = """python3 -c 'print("a: b # c")'"""
    assert (
        cli.main(["new", "hello-cpu", "--image", "python:3.11", "--command", command, "--schedule", "0 3 * * *"]) == 0
    )
    loaded = load_tests(configs)
    assert not loaded.problems
    (test,) = loaded.tests
    assert (test.name, test.image, test.schedule) == ("hello-cpu", "python:3.11", "0 3 * * *")
    assert test.command == ("python3", "-c", 'print("a: b # c")')
    assert "ml-metrics run hello-cpu" in capsys.readouterr().out


def test_a_finished_run_gives_program_and_conditions(configs: Path, tmp_path: Path) -> None:
    root = str(tmp_path / "runs")
    folder = RunFolder.of(Run("old", "old", "r", "local"), root)
    content = {"image": "i:1", "command": ["train", "--steps={{ params.steps }}"], "params": {"steps": {"default": 5}}}
    folder.write("run", {"test_file": {**content, "owner": "vision"}})
    Path(folder.path, "train.jsonl").write_text(
        "".join(json.dumps({"step": step, "loss": 1 / step, "accuracy": 0.9, "odd": 1.0}) + "\n" for step in (1, 2))
    )
    assert cli.main(["new", "mine", "--from", str(folder.path)]) == 0
    (test,) = load_tests(configs).tests
    assert (test.image, test.owner, test.command) == ("i:1", "vision", ("train", "--steps={{ params.steps }}"))
    conditions = test.regression_test_config.metric_success_conditions
    assert {name: str(one.comparison) for name, one in conditions.items()} == {
        "accuracy_final": "greater",
        "loss_final": "less",
        "total_wall_time": "less",
    }


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "give NAME and --command"),
        (["../x", "--command", "c"], "lower-case letters"),
        (["x", "--command", "a 'b"], "No closing quotation"),
        (["x", "--command", "c", "--schedule", "hourly-ish"], "schedule: "),
        (["x", "--command", "c", "--from", "no-such-folder"], "there is no such folder"),
        (["there", "--command", "c"], "there is a test 'there' already"),
        (["file", "--command", "c"], "there is a file already"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    argv: list[str], message: str, configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (configs / "other.yaml").write_text("{name: there, image: i, command: [c]}")
    (configs / "file.yaml").write_text("not a test")
    before = {path: path.read_bytes() for path in configs.iterdir()}
    assert cli.main(["new", *argv]) == 2
    assert message in capsys.readouterr().err
    assert {path: path.read_bytes() for path in configs.iterdir()} == before
