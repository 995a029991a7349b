"""`ml-metrics calibrate`, for people, as JSON, and into a test file."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from pathlib import Path
from random import Random

import pytest

from golden import check
from ml_metrics.config.conditions import Comparison, Condition
from ml_metrics.config.loading import load_file
from ml_metrics.core.model import JobStatus, StoredMetric, Workload
from ml_metrics.judge import Acceptance, Calibration, calibrate
from ml_metrics.ui.cli import calibrate as command
from ml_metrics.warehouse import open_warehouse, run_record
from unit.judge.test_calibration import few
from unit.ui.cli.shell import Shell, history_file
from unit.warehouse.records import MONDAY, metric, run_of

CONFIG = """\
name: a-test  # of the examples
image: i
command: [c]

regression_test_config:
  metric_success_conditions:
    # per second
    examples_average:
      comparison: greater
      success_threshold: {stddevs_from_mean: 4}  # by hand
      severity: warn
    accuracy_final: {comparison: greater, success_threshold: {fixed_value: 0.5}}
    default: {comparison: less_or_equal, success_threshold: {mads_from_median: 5}}
"""


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate few series, and each metric once: the numbers are checked in tests/unit/judge."""
    few(monkeypatch)
    monkeypatch.setattr(
        command,
        "calibrate",
        lambda metric, rows, comparison, *, test, acceptances: calibrated(
            metric, tuple(rows), comparison, test, tuple(acceptances)
        ),
    )


@cache
def calibrated(
    metric: str, rows: tuple[StoredMetric, ...], comparison: Comparison, test: str, acceptances: tuple[Acceptance, ...]
) -> Calibration:
    return calibrate(metric, rows, comparison, test=test, acceptances=acceptances)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "a.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def history(tmp_path: Path) -> Path:
    random = Random(1)
    values: dict[str, list[float]] = {
        "examples_average": [1000 * random.gauss(1, 0.02) for _ in range(90)],
        "total_wall_time": [random.gauss(60, 1) if random.random() < 0.7 else random.gauss(70, 1) for _ in range(90)],
        "accuracy_final": [round(random.gauss(0.9, 0.01), 2) for _ in range(90)],
        "loss_final": [0.25] * 90,
        "new_final": [random.random() for _ in range(7)],
    }
    return history_file(tmp_path, values)


def test_what_people_read(config: Path, history: Path, ml: Shell) -> None:
    check("cli/calibrated-metrics.txt", ml("calibrate", config, "--history", history))


def test_each_metric_has_noise_rules_and_a_proposal(config: Path, history: Path, ml: Shell) -> None:
    found = ml.json("calibrate", config, "--history", history)
    assert found["test"] == "a-test"
    assert found["applied"] is None
    examples = found["metrics"]["examples_average"]
    assert (examples["comparison"], examples["comparison_from"]) == ("greater", "its condition")
    assert examples["noise"]["kind"] == "normal"
    assert examples["noise"]["percent"] == pytest.approx(2, rel=0.3)
    assert examples["noise"]["since"] is None
    smallest = min(rule["smallest_change"] for rule in examples["rules"] if rule["condition"])
    (proposed,) = (rule for rule in examples["rules"] if rule["name"] == examples["proposed"])
    assert proposed["smallest_change"] == smallest
    assert 2 < proposed["smallest_change_percent"] < 12
    assert proposed["past"]["alerts"] <= 2
    assert Condition.model_validate(proposed["condition"])
    wall = found["metrics"]["total_wall_time"]
    assert (wall["comparison"], wall["comparison_from"]) == ("less", "the condition `default`")
    assert [mode["share"] for mode in wall["noise"]["modes"]] == pytest.approx([0.7, 0.3], abs=0.15)
    assert found["metrics"]["loss_final"]["rules"] == []
    assert "never varied" in found["metrics"]["loss_final"]["reason"]
    assert "from 20 runs on, and it has 7" in found["metrics"]["new_final"]["reason"]


def test_without_a_direction_both_count(history: Path, ml: Shell) -> None:
    argv = ("--history", history, "--metric", "examples_average")
    both = ml.json("calibrate", *argv)["metrics"]["examples_average"]
    assert both["comparison"] == "within"
    assert "no condition covers it" in both["comparison_from"]
    one = ml.json("calibrate", *argv, "--comparison", "less")["metrics"]["examples_average"]
    assert (one["comparison"], one["comparison_from"]) == ("less", "--comparison")


def test_apply_writes_conditions_and_keeps_the_rest(config: Path, history: Path, ml: Shell) -> None:
    printed = ml("calibrate", config, "--history", history, "--apply")
    text = config.read_text()
    assert f"Written into {config}:" in printed
    assert "-      success_threshold: {stddevs_from_mean: 4}  # by hand" in printed
    assert "note: accuracy_final: its condition has a fixed value; --metric accuracy_final replaces it" in printed
    assert "note: total_wall_time: was covered by `default`, which stays for the other metrics" in printed
    for kept in ("name: a-test  # of the examples", "    # per second", "# by hand", "      severity: warn"):
        assert kept in text
    rules = load_file(config).regression_test_config.metric_success_conditions
    assert rules["examples_average"].severity == "warn"
    assert rules["accuracy_final"].success_threshold.fixed_value == 0.5
    assert rules["total_wall_time"].comparison == "less"
    assert "loss_final" not in rules
    assert [path.name for path in sorted(config.parent.iterdir())] == ["a.yaml", "history.jsonl"]


def test_apply_replaces_a_fixed_value_that_is_named(config: Path, history: Path, ml: Shell) -> None:
    found = ml.json("calibrate", config, "--history", history, "--metric", "accuracy_final", "--apply")
    assert found["applied"]["file"] == str(config)
    assert "fixed_value" in found["applied"]["diff"]
    rules = load_file(config).regression_test_config.metric_success_conditions
    assert rules["accuracy_final"].success_threshold.fixed_value is None


def test_nothing_to_apply_is_stated(config: Path, history: Path, ml: Shell) -> None:
    printed = ml("calibrate", config, "--history", history, "--metric", "loss_final", "--apply")
    assert "note: no condition to write" in printed
    assert config.read_text() == CONFIG


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--apply"], "--apply needs the test file"),
        (["--metric", "examples_avrage"], "has a value of it; did you mean 'examples_average'?"),
    ],
)
def test_wrong_usage(argv: list[str], message: str, history: Path, ml: Shell) -> None:
    assert message in ml("calibrate", "--history", str(history), *argv, code=2)


def test_from_the_warehouse_with_a_sweep(tmp_path: Path, ml: Shell) -> None:
    address = f"sqlite:///{tmp_path}/warehouse.db"
    random = Random(2)
    with open_warehouse(address) as warehouse:
        for day in range(40):
            ended = MONDAY + timedelta(days=day)
            workload = Workload(JobStatus.SUCCESS, started_at=ended, ended_at=ended)
            about = {"test_type": "", "accelerator": "", "framework_version": ""}
            values = [metric("loss_final", random.gauss(1, 0.02))]
            warehouse.load(run_record(run_of(day), workload, values, [], {}, **about))
        test = run_of(0).test
    argv = (test, "--warehouse", address, "--comparison", "less")
    assert ml.json("calibrate", *argv)["metrics"]["loss_final"]["runs"] == 40
    path = tmp_path / "shared.yaml"
    path.write_text("description: for all\n")
    argv = (path, "--test", test, "--warehouse", address, "--metric", "loss_final", "--apply")
    assert f"note: the conditions apply to every test that uses {path}" in ml("calibrate", *argv)
    assert path.read_text().startswith("description: for all\nregression_test_config:\n")
