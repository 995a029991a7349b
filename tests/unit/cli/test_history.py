"""`tests`, `history`, `accept`, `schema` and `import`, as a person sees them on a terminal of 80 columns."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import golden
from ml_metrics import cli
from ml_metrics.cli.table import cut, duration, sparkline, table
from ml_metrics.model import JobStatus, Outcome, Workload
from ml_metrics.warehouse import open_warehouse, run_record
from unit.warehouse.records import MONDAY, TEST, metric, record, run_of, verdict

if TYPE_CHECKING:
    from pathlib import Path

LONG = "tf-nightly-efficientnet-b7-convergence-v5lite-"
COMMANDS = {
    "tests-of-a-warehouse": ["tests"],
    "history-of-a-test": ["history", TEST],
    "history-of-a-metric": ["history", TEST, "epoch/val_accuracy_final"],
    "history-of-hostile-names": ["history", "red \x1b[31m"],
    "schema-of-a-warehouse": ["schema"],
    "schema-show": ["schema", "--show"],
}


@pytest.fixture
def address(tmp_path: Path) -> str:
    place = f"sqlite:///{tmp_path}/warehouse.db"
    with open_warehouse(place) as warehouse:
        warehouse.load_all([_run(day) for day in range(12)])
        failed = Workload(
            JobStatus.FAILURE,
            failure_reason="OOMKilled",
            started_at=MONDAY + timedelta(days=12),
            ended_at=MONDAY + timedelta(days=12, hours=3, minutes=4),
        )
        warehouse.load(
            run_record(run_of(12), failed, [], [], {}, test_type="", accelerator="", framework_version="", owner="me")
        )
        warehouse.load(record(0, {"x_final": 1.0}, test=LONG, outcomes={"x_final": Outcome.PASS}))
        warehouse.load(record(1, {"tag\n\x1b[2J_final": 1e308}, test="red \x1b[31m"))
        warehouse.incidents.report(TEST, run_of(12).key, fingerprint="job", reasons=["job_status"])
    return place


def _run(day: int) -> object:
    values = {"epoch/val_accuracy_final": 0.95 + day / 1000, "total_wall_time": 300.0 - 20 * (day == 7)}
    if day == 3:
        values["epoch/val_accuracy_final"] = float("nan")
    ended = MONDAY + timedelta(days=day)
    workload = Workload(JobStatus.SUCCESS, started_at=ended - timedelta(seconds=300 + day), ended_at=ended)
    return run_record(
        run_of(day),
        workload,
        [metric(name, value) for name, value in values.items()],
        [verdict("epoch/val_accuracy_final", Outcome.NON_FINITE if day == 3 else Outcome.PASS)],
        {},
        test_type="example",
        accelerator="cpu",
        framework_version="tf",
        goodput=97.25,
        owner="vision-team",
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_person_sees(name: str, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = COMMANDS[name]
    assert cli.main([*words, *([] if "--show" in words else ["--warehouse", address])]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "\x1b" not in out
    golden.check(f"cli/{name}.txt", out)


@pytest.mark.parametrize("words", [["tests"], ["history", TEST], ["history", TEST, "total_wall_time"], ["schema"]])
def test_json_is_one_document(words: list[str], address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*words, "--warehouse", address, "--json"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), dict)


def test_a_warehouse_without_runs_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tests", "--warehouse", f"sqlite:///{tmp_path}/new/one.db"]) == 0
    assert capsys.readouterr().out == "No test has run yet.\n"


def test_the_warehouse_of_the_settings_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_FILE", f"{tmp_path}/mine.db")
    assert cli.main(["tests"]) == 0
    assert (tmp_path / "mine.db").exists()
    capsys.readouterr()


def test_a_person_is_told_which_warehouse_it_is(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tests", "--warehouse", address]) == 0
    assert capsys.readouterr().err == f"warehouse: {address}\n"
    assert cli.main(["tests", "--warehouse", address, "--json"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", [["tests"], ["tests", "--warehouse", "airflow"]])
def test_a_connection_that_a_variable_defines_is_the_warehouse(
    words: list[str], address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_ML_METRICS_WAREHOUSE", address)
    assert cli.main(words) == 0
    said = capsys.readouterr()
    assert said.err.endswith(f"warehouse: {address}\n")
    assert TEST in said.out


@pytest.mark.parametrize("words", [["history", "nope"], ["history", TEST, "nope"], ["accept", TEST, "nope"]])
def test_what_is_not_there_is_a_no(words: list[str], address: str, capsys: pytest.CaptureFixture[str]) -> None:
    reason = ["--reason", "x"] if words[0] == "accept" else []
    assert cli.main([*words, *reason, "--warehouse", address]) == 1
    said = capsys.readouterr()
    assert "nope" in said.out + said.err
    assert "`ml-metrics" in said.out + said.err


def test_an_address_that_leads_nowhere_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tests", "--warehouse", "nonsense"]) == 2
    assert "cannot be opened" in capsys.readouterr().err


def test_accepting_a_level(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["accept", TEST, "total_wall_time", "--reason", "larger data", "--by", "a new user", "--warehouse", address]
    assert cli.main(words) == 0
    first = capsys.readouterr().out
    assert first == f"Accepted: total_wall_time = 300, run {run_of(11).key[:8]} of 2026-03-13 12:00.\n"
    assert cli.main(words) == 0
    assert capsys.readouterr().out.startswith("Already accepted by a new user: total_wall_time = 300")
    assert cli.main([*words, "--run", run_of(7).key[:8], "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["new"], document["accepted"]["value"]) == (True, 280.0)
    with open_warehouse(address) as warehouse:
        assert [each.value for each in warehouse.acceptances.of_test(TEST)] == [280.0, 300.0]


def test_a_run_that_is_not_meant_clearly_is_not_accepted(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["accept", TEST, "total_wall_time", "--reason", "x", "--warehouse", address]
    assert cli.main([*words, "--run", "zzz"]) == 1
    assert "no run of this metric begins with zzz" in capsys.readouterr().err


def test_importing_needs_a_source_of_the_older_shape(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["import", f"sqlite:///{tmp_path}/nothing.db", "--warehouse", address]) == 2
    assert "no such table: job_history" in capsys.readouterr().err


def test_a_curve() -> None:
    assert sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([1, None, float("nan"), 8], 80) == "▁··█"
    assert sparkline([5, 5], 80) == "▅▅"
    assert sparkline([-1e308, 1e308], 80) == "▁█"
    assert sparkline([1, 2, 3], 2) == "▁█"
    assert sparkline([None], 80) == "·"


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0, 59.6, 61, 3600, 90061)] == ["0s", "1m00s", "1m01s", "1h00m", "25h01m"]


def test_a_long_name_gives_way_in_its_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cut("abcdefghij", 5) == "ab…ij"
    assert len(cut("x" * 100, 46)) == 46
    lines = table(("name", "value"), [("n" * 200, "1"), ("short", "2")], right=(1,)).splitlines()
    assert {len(line) for line in lines} == {80}
    for terminal, expected in (("20", 80), ("120", 120)):
        monkeypatch.setenv("COLUMNS", terminal)
        lines = table(("name", "value"), [("n" * 200, "1"), ("short", "2")], right=(1,)).splitlines()
        assert {len(line) for line in lines} == {expected}
