"""`ml-metrics validate --with-history`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from ml_metrics.ui import cli
from unit.warehouse.records import TEST

START = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG = """\
name: a-test
image: i
command: [c]
regression_test_config:
  metric_success_conditions:
    # per second
    examples_average:
      comparison: greater
      success_threshold: {percent_difference: 0.5}
    acuracy_final: {comparison: greater, success_threshold: {fixed_value: 0.5}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "a.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def history(tmp_path: Path) -> Path:
    random = Random(1)
    lines = [
        {
            "uuid": f"{day:08}",
            "timestamp": (START + timedelta(days=day)).isoformat(),
            "metric_name": name,
            "metric_value": level * random.gauss(1, 0.02),
        }
        for name, level in {"examples_average": 1000, "accuracy_final": 0.9}.items()
        for day in range(60)
    ]
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_conditions_that_do_not_fit_are_problems_with_their_lines(
    config: Path, history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["validate", str(config)]) == 0
    capsys.readouterr()
    assert cli.main(["validate", str(config), "--with-history", str(history)]) == 1
    first, second, last = capsys.readouterr().out.splitlines()
    place = "regression_test_config.metric_success_conditions"
    assert first.startswith(f"{config}:10: {place}.acuracy_final: no past run produced a metric of this name; did you")
    assert second.startswith(f"{config}:7: {place}.examples_average: fails ")
    assert last == "2 mistakes in 1 of 1 file."
    assert cli.main(["validate", str(config), "--with-history", str(history), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["valid"]
    assert {problem["test"] for problem in found["problems"]} == {"a-test"}


def test_the_history_may_be_in_the_warehouse(config: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", str(config), "--warehouse", address, "--with-history"]) == 2
    assert "no run of a test 'a-test' was recorded" in capsys.readouterr().err
    assert cli.main(["validate", str(config), "--warehouse", address, "--with-history", TEST]) == 1
    assert "no past run produced a metric of this name" in capsys.readouterr().out


def test_tests_of_a_folder_without_past_runs_are_warnings(
    config: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config.with_name(f"{TEST}.yaml").write_text(CONFIG.replace("a-test", TEST))
    assert cli.main(["validate", str(config.parent), "--warehouse", address, "--with-history"]) == 1
    printed = capsys.readouterr()
    assert f"warning: {config}: no run of a test 'a-test' was recorded" in printed.err
    assert f"{TEST}.yaml:10: " in printed.out


def test_an_invalid_file_has_its_own_problems_alone(
    tmp_path: Path, history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("name: wrong\n")
    assert cli.main(["validate", str(path), "--with-history", str(history)]) == 1
    assert "command: is required" in capsys.readouterr().out
