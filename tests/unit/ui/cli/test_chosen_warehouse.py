"""The choice of the warehouse; unknown tests; and that reading creates nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import golden
from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.ui import cli
from ml_metrics.warehouse import open_warehouse, run_record
from unit.ui.cli.shell import Shell
from unit.warehouse.records import TEST

READING = [
    ["tests"],
    ["history", TEST],
    ["alerts"],
    ["alerts", TEST],
    ["ack", TEST],
    ["accept", TEST, "total_wall_time", "--reason", "x"],
    ["report", "report"],
]
OF_ONE_TEST = [
    ["history", "{}"],
    ["history", "{}", "total_wall_time"],
    ["history", "{}", "--jsonl"],
    ["alerts", "{}"],
    ["ack", "{}"],
    ["accept", "{}", "total_wall_time", "--reason", "x"],
    ["report", "report", "{}"],
]

NOTHING = {"test_type": "", "accelerator": "", "framework_version": ""}


def name(argv: list[str]) -> str:
    return " ".join(argv[:3])


def test_standard_error_is_for_problems(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["tests"], ["tests", "--json"], ["history", TEST]):
        assert cli.main([*argv, "--warehouse", address]) == 0
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("argv", [["tests"], ["tests", "--warehouse", "airflow"]])
def test_a_connection_that_a_variable_defines_is_the_warehouse(
    argv: list[str], address: str, monkeypatch: pytest.MonkeyPatch, ml: Shell
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_ML_METRICS_WAREHOUSE", address)
    printed = ml(*argv)
    assert TEST in printed


@pytest.mark.parametrize("address", ["nonsense", "mysql://host/database", "postgres://host/database"])
def test_an_address_of_no_database(address: str, ml: Shell) -> None:
    assert "cannot be opened: should be sqlite:///FILE, postgresql+psycopg://" in ml(
        "tests", "--warehouse", address, code=2
    )


def test_the_file_of_the_settings_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ml: Shell) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_FILE", f"{tmp_path}/mine.db")
    with open_warehouse(f"sqlite:///{tmp_path}/mine.db") as warehouse:
        warehouse.ensure_schema()
        run, workload = Run("mine", "mine", "r", "local"), Workload(JobStatus.SUCCESS)
        warehouse.load(run_record(run, workload, [], [], {}, **NOTHING))
    assert "mine" in ml("tests")


@pytest.mark.parametrize("argv", READING, ids=name)
def test_reading_creates_nothing(argv: list[str], empty_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for address in ("sqlite:///typo/warehouse.db", f"sqlite:///{empty_home}/typo.db"):
        assert cli.main([*argv, "--warehouse", address]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert address.removeprefix("sqlite:///") in printed.err
    assert list(empty_home.iterdir()) == []


@pytest.mark.parametrize("argv", READING, ids=name)
def test_a_fresh_machine_stays_as_it_is(argv: list[str], empty_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(argv)
    printed = capsys.readouterr()
    assert code == (0 if argv in [["tests"], ["alerts"]] else 2)
    assert code == 0 or "no run was recorded yet in " in printed.err
    assert list(empty_home.iterdir()) == []


@pytest.mark.parametrize("json", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("argv", OF_ONE_TEST, ids=name)
def test_an_unknown_test_is_one_error(
    argv: list[str], json: list[str], address: str, empty_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--jsonl" in argv:
        json = []
    argv = [word.format("tf-mnist-exmple-cpu") for word in argv]
    assert cli.main([*argv, *json, "--warehouse", address]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1] == (
        f"ml-metrics {argv[0]}: no run of a test 'tf-mnist-exmple-cpu' was recorded; did you mean '{TEST}'? "
        "`ml-metrics tests` lists the tests"
    )
    assert list(empty_home.iterdir()) == []


@pytest.mark.parametrize("argv", [["history", TEST, "{}"], ["accept", TEST, "{}", "--reason", "x"]], ids=name)
def test_an_unknown_metric_is_one_error(argv: list[str], address: str, ml: Shell) -> None:
    assert "has no value of a metric 'total_wal_time'; did you mean 'total_wall_time'?" in ml(
        *(word.format("total_wal_time") for word in argv), "--warehouse", address, code=2
    )


@pytest.mark.parametrize(
    "argv", [["load", "typo"], ["backfill", "typo"], ["import", "sqlite:///typo.db"]], ids=lambda argv: argv[0]
)
def test_a_mistyped_source_creates_no_warehouse(
    argv: list[str], empty_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(argv) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "typo" in printed.err
    assert list(empty_home.iterdir()) == []


@pytest.mark.parametrize("argv", READING, ids=name)
def test_a_command_reads_the_runs_of_a_deployment(
    argv: list[str], address: str, empty_home: Path, ml: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    assert empty_home.is_dir()
    with open_warehouse(address, deployment="prod") as warehouse:
        warehouse.load(run_record(Run("x", "x", "x", "prod"), Workload(JobStatus.SUCCESS), [], [], {}, **NOTHING))
    assert "no run of a deployment 'prdo' was recorded; did you mean 'prod'" in ml(
        *argv, "--warehouse", address, "--deployment", "prdo", code=2
    )
    cli.main([*argv, "--warehouse", address, "--deployment", "prod"])
    assert TEST not in capsys.readouterr().out


def test_the_settings_name_the_deployment(address: str, monkeypatch: pytest.MonkeyPatch, ml: Shell) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DEPLOYMENT", "prod")
    assert TEST not in ml("tests", "--warehouse", address)
    assert TEST in ml("tests", "--warehouse", address, "--deployment", "local")


def test_runs_of_an_older_version_are_claimed(address: str, ml: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    with open_warehouse(address) as warehouse:
        runs = len(warehouse.runs.newest(TEST, limit=1000))
        warehouse.database.change("UPDATE job_history SET deployment = NULL WHERE test_name = :test", test=TEST)
    assert cli.main(["schema", "--warehouse", address, "--claim", "--deployment", "prod"]) == 0
    left = f"{runs} runs of others, or without a proof, still belong to every deployment"
    assert capsys.readouterr().out.endswith(f"0 runs claimed; {left}\n")
    assert ml("schema", "--warehouse", address, "--claim").endswith(f"{runs} runs claimed\n")


@pytest.mark.parametrize(("name", "option"), [("schema-of-a-warehouse", []), ("schema-show", ["--show"])])
def test_output(name: str, option: list[str], address: str, ml: Shell) -> None:
    out = ml("schema", *(option or ["--warehouse", address]))
    assert max(map(len, out.splitlines())) <= 80
    golden.check(f"cli/{name}.txt", out)
