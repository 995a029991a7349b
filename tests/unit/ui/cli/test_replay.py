"""`ml-metrics replay`: of the warehouse, and with rules to compare."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

import golden
from unit.ui.cli.shell import Shell
from unit.warehouse.records import TEST

CONFIG = """
regression_test_config:
  metric_success_conditions:
    total_wall_time: {comparison: less, success_threshold: {percent_difference: 5}}
    accuracy: {comparison: greater, success_threshold: {mads_from_median: 5}}
"""
RULES = ["--rule", "4 sd wait 10", "--rule", "tight = less 1 sd wait 10"]


@pytest.fixture
def home(empty_home: Path) -> Path:
    """A config and a history of 100 runs: the wall time rises at run 60."""
    random = Random(3)
    Path("config.yaml").write_text(CONFIG)
    rows = [
        {
            "uuid": f"run-{run:03}",
            "timestamp": f"2026-{1 + run // 28:02}-{1 + run % 28:02}T06:00:00Z",
            "test_name": "vision",
            "metric_name": name,
            "metric_value": round(random.gauss(level + 60 * (run >= 60 and name == "total_wall_time"), noise), 3),
        }
        for run in range(100)
        for name, level, noise in (("total_wall_time", 300, 4), ("accuracy", 0.95, 0.01))
    ]
    Path("history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return empty_home


@pytest.mark.usefixtures("home")
def test_a_replay_of_the_warehouse(address: str, ml: Shell) -> None:
    argv = ["replay", "config.yaml", "--test", TEST, "--runs", "5", "--warehouse", address]
    assert len(ml.json(*argv, code=1)["runs"]) == 5


@pytest.mark.usefixtures("home")
def test_rules_are_compared(ml: Shell) -> None:
    text = ml("replay", "config.yaml", "--history", "history.jsonl", *RULES)
    assert max(map(len, text.splitlines())) <= 80
    golden.check("cli/replay-rules.txt", text)


@pytest.mark.usefixtures("home")
def test_the_document_of_compared_rules(ml: Shell) -> None:
    compared = ml.json("replay", "config.yaml", "--history", "history.jsonl", *RULES)
    assert list(compared["rules"]) == ["as configured", "4 sd wait 10", "tight"]
    (finding,) = compared["findings"]
    assert (finding["metric"], finding["uuid"]) == ("total_wall_time", "run-060")
    assert finding["runs_late"] == {"as configured": 0, "4 sd wait 10": 0, "tight": 0}
    assert compared["metrics"]["tight"]["accuracy"]["alerts"] > 0


@pytest.mark.usefixtures("home")
def test_a_history_needs_no_conditions_to_compare_rules(ml: Shell) -> None:
    compared = ml.json("replay", "--history", "history.jsonl", "--rule", "4 sd", "--metric", "accuracy")
    assert list(compared["rules"]) == ["4 sd"]
    assert list(compared["metrics"]["4 sd"]) == ["accuracy"]
    assert compared["findings"] == []


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--metric", "accuracy"], "--metric chooses the metrics for --rule"),
        (["--rule", "4 sd", "--metric", "acuracy"], "no value of 'acuracy'; did you mean 'accuracy'?"),
        (["--rule", "4 sd", "--rule", "4  sd"], "'4 sd' is given twice"),
        (["--rule", "as configured=4 sd"], "'as configured' is given twice, or is the name of"),
        (["--rule", "4 apples"], "argument --rule: '4 apples' is not a rule"),
        ([word for sd in range(21) for word in ("--rule", f"{sd} sd")], "at most 20 rules"),
    ],
)
def test_wrong_rules(argv: list[str], message: str, ml: Shell) -> None:
    assert message in ml("replay", "config.yaml", "--history", "history.jsonl", *argv, code=2)
