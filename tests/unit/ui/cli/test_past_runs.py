"""The past runs and the conditions that a command line names, in each of its forms."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from ml_metrics import MlMetricsError
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.ui import cli
from ml_metrics.ui.cli.arguments import Parser, UsageError
from ml_metrics.ui.cli.inputs import PastRuns, add_past_runs, past_runs
from ml_metrics.warehouse import open_warehouse
from unit.warehouse.records import TEST, run_of

CONDITIONS = "{metric_success_conditions: {total_wall_time: {comparison: less, success_threshold: {fixed_value: 290}}}}"
METRIC_CONFIG = f"regression_test_config: {CONDITIONS}\n"
TEST_FILE = f"{{name: {TEST}, image: i, command: [c], regression_test_config: {CONDITIONS}}}\n"
SWEEP = "{name: a, image: i, command: [c], sweep: {batch_size: [1, 2]}}\n"


@pytest.fixture
def home(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a metric config, and a folder of registered test files."""
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", "configs")
    Path("configs").mkdir()
    Path("conditions.yaml").write_text(METRIC_CONFIG)
    return empty_home


def parsed(*argv: str) -> argparse.Namespace:
    parser = Parser(prog="a-command")
    add_past_runs(parser)
    return parser.parse(argv)


def read(*argv: str, config_required: bool = True) -> PastRuns:
    return past_runs(parsed(*argv), config_required=config_required)


def exported(address: str, *form: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Print a history with `ml-metrics history` into a file."""
    capsys.readouterr()
    assert cli.main(["history", TEST, *form, "--warehouse", address]) == 0
    Path("history").write_text(capsys.readouterr().out)
    return "history"


@pytest.mark.usefixtures("home")
def test_a_test_of_the_warehouse_with_the_conditions_of_its_file(address: str) -> None:
    Path("configs/mnist.yaml").write_text(TEST_FILE)
    with open_warehouse(address) as warehouse:
        warehouse.acceptances.add(run_of(9).key, "total_wall_time", reason="more data", by="jane")
    found = read(TEST, "--warehouse", address)
    assert (found.test, found.file) == (TEST, Path("configs/mnist.yaml"))
    assert set(found.config.metric_success_conditions) == {"total_wall_time"}
    assert len({row.run_key for row in found.rows}) == 13
    assert [one.metric for one in found.acceptances] == ["total_wall_time"]
    assert set(found.attributes) == {row.run_key for row in found.rows}


@pytest.mark.usefixtures("home")
def test_a_test_without_a_file_has_no_conditions(address: str) -> None:
    found = read(TEST, "--warehouse", address, config_required=False)
    assert (found.test, found.file, found.config.metric_success_conditions) == (TEST, None, {})
    with pytest.raises(UsageError, match=r"conditions of .* are unknown: .*; give a file with conditions: CONFIG"):
        read(TEST, "--warehouse", address)


@pytest.mark.usefixtures("home")
def test_the_runs_of_a_test_with_the_conditions_of_another_file(address: str) -> None:
    found = read("conditions.yaml", "--test", TEST, "--runs", "3", "--warehouse", address)
    assert (found.test, found.file) == (TEST, Path("conditions.yaml"))
    assert {row.run_key for row in found.rows} == {run_of(day).key for day in (10, 11, 12)}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("argv", [["conditions.yaml"], ["configs/mnist.yaml"], [TEST], []], ids=" ".join)
@pytest.mark.parametrize("form", ["--json", "--jsonl"])
def test_an_exported_history(argv: list[str], form: str, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("configs/mnist.yaml").write_text(TEST_FILE)
    place = exported(address, form, capsys=capsys)
    found = read(*argv, "--history", place, config_required=bool(argv))
    assert found.test == TEST
    assert len({row.run_key for row in found.rows}) == 13
    assert bool(found.config.metric_success_conditions) == bool(argv)
    newest = read(*argv, "--history", place, "--runs", "2", config_required=bool(argv))
    assert {row.run_key for row in newest.rows} == {run_of(day).key for day in (11, 12)}


@pytest.mark.usefixtures("home")
def test_a_history_that_names_no_test_belongs_to_the_config() -> None:
    Path("history").write_text('{"metric_name": "m", "metric_value": 1}\n')
    assert read("conditions.yaml", "--history", "history").test == "conditions"
    assert read("--history", "history", "--test", "t", config_required=False).test == "t"


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "give the name of a test, or a file with its conditions"),
        (["none.yaml"], "none.yaml"),
        (["conditions.yaml"], "conditions.yaml: defines no test; --test NAME"),
        (["sweep.yaml"], "defines several tests; choose one with --test: a-"),
        (["registred"], "did you mean 'registered'? give a file with conditions: CONFIG --test NAME"),
        (["tf-mnist", "--test", "t"], "'tf-mnist' is no file"),
        (["conditions.yaml", "--test", f"{TEST}s"], f"did you mean '{TEST}'"),
        (["conditions.yaml", "--history", "two"], "several tests; choose one with --test: a, b"),
        (["conditions.yaml", "--history", "two", "--test", "c"], "has no row of test 'c'"),
        (["conditions.yaml", "--history", "none"], "none"),
        (["x" * 5000, "--history", "two"], "are unknown"),
    ],
)
def test_errors_state_what_to_give(argv: list[str], message: str, address: str) -> None:
    Path("sweep.yaml").write_text(SWEEP)
    Path("configs/registered.yaml").write_text("{name: registered, image: i, command: [c]}")
    Path("two").write_text(
        "".join(f'{{"metric_name": "m", "metric_value": 1, "test_name": "{name}"}}\n' for name in "ab")
    )
    with pytest.raises(MlMetricsError) as error:
        read(*argv, "--warehouse", address)
    assert message in str(error.value)


@pytest.mark.usefixtures("home")
def test_a_history_alone_suffices_where_conditions_are_not_required(address: str) -> None:
    with pytest.raises(UsageError, match="give the name of a test, or --history FILE"):
        read("--warehouse", address, config_required=False)
    with pytest.raises((UnreadableInputError, MlMetricsError)):
        read("--history", "none", config_required=False)
