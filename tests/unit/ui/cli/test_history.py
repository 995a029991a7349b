"""`ml-metrics history`, on a terminal of 80 columns."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import golden
from ml_metrics.core.model import Bounds, JobStatus, Metric, Outcome, Run, Severity, Verdict, Workload
from ml_metrics.core.values import storable_name
from ml_metrics.judge import HistoryNeeds
from ml_metrics.measure import ContainerLog, Role, write_logs
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui import cli
from ml_metrics.ui.cli.inputs import read_history
from ml_metrics.warehouse import open_warehouse, run_record
from unit.ui.cli.conftest import HOSTILE_NAME
from unit.warehouse.records import TEST

COMMANDS = {
    "history-of-a-test": ["history", TEST],
    "history-of-a-metric": ["history", TEST, "epoch/val_accuracy_final"],
    "history-of-hostile-names": ["history", storable_name(HOSTILE_NAME)],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_output(name: str, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*COMMANDS[name], "--warehouse", address]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "\x1b" not in out
    golden.check(f"cli/{name}.txt", out)


def test_a_warning_is_not_shown_as_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = datetime(2026, 1, 2, tzinfo=UTC)
    run = Run("warned", "warned", "r", "local")
    memory = Metric("memory_final", 9.0, "memory", "final")
    verdict = Verdict("memory_final", Outcome.FAIL, 9.0, Bounds(upper=4), "less than 4", severity=Severity.WARN)
    workload = Workload(JobStatus.SUCCESS, started_at=ended, ended_at=ended)
    address = f"sqlite:///{tmp_path}/w.db"
    with open_warehouse(address) as warehouse:
        warehouse.ensure_schema()
        warehouse.load(
            run_record(run, workload, [memory], [verdict], {}, test_type="", accelerator="", framework_version="")
        )
    for argv, number in ((["history", "warned"], 2), (["history", "warned", "memory_final"], 1)):
        assert cli.main([*argv, "--warehouse", address]) == 0
        out = capsys.readouterr().out
        assert out.count("warn") >= number
        assert "fail (warn)" in out
        assert "fail" not in out.replace("fail (warn)", "")


@pytest.mark.parametrize("argv", [["history", TEST], ["history", TEST, "total_wall_time"]])
def test_json_is_one_document(argv: list[str], address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*argv, "--warehouse", address, "--json"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), dict)


def test_json_lines_hold_every_value_oldest_first(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", TEST, "--jsonl", "--warehouse", address]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 12 * 2 + 1
    assert [row["timestamp"] for row in rows] == sorted(row["timestamp"] for row in rows)
    keys = {"uuid", "timestamp", "test_name", "metric_name", "metric_value", "job_status", "verdict", "non_finite"}
    assert {frozenset(row) for row in rows} == {frozenset(keys)}
    assert (rows[-1]["metric_name"], rows[-1]["job_status"]) == (None, "failure")
    assert cli.main(["history", TEST, "total_wall_time", "--jsonl", "--limit", "5", "--warehouse", address]) == 0
    values = [json.loads(line)["metric_value"] for line in capsys.readouterr().out.splitlines()]
    assert values == [300, 300, 300, 300]  # the newest of the five runs has no value


CONFIG = """
regression_test_config:
  metric_success_conditions:
    total_wall_time: {comparison: less, success_threshold: {fixed_value: 290}}
    default: {comparison: greater, success_threshold: {stddevs_from_mean: 3}}
"""


@pytest.mark.parametrize("form", [["--jsonl"], ["--json"]], ids=" ".join)
def test_an_exported_history_is_that_of_the_warehouse(
    form: list[str], address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse = ["--warehouse", address]
    assert cli.main(["history", TEST, *form, *warehouse]) == 0
    (tmp_path / "history").write_text(capsys.readouterr().out)
    (tmp_path / "config.yaml").write_text(CONFIG)
    config = [str(tmp_path / "config.yaml"), "--test", TEST, "--json"]
    assert cli.main(["replay", *config, *warehouse]) == 1
    stored = json.loads(capsys.readouterr().out)
    assert cli.main(["replay", *config, "--history", str(tmp_path / "history")]) == 1
    assert json.loads(capsys.readouterr().out) == stored
    assert set(stored["summary"]) == {"total_wall_time", "epoch/val_accuracy_final"}
    with open_warehouse(address) as opened:
        rows = opened.metrics.history(HistoryNeeds(tests=(TEST,), window=0, recent=99, earliest=None))
    assert sorted(map(repr, read_history(str(tmp_path / "history")))) == sorted(map(repr, rows))


@pytest.mark.parametrize("export", [["--jsonl"], ["--json"], ["total_wall_time", "--json"]], ids=" ".join)
def test_judge_reads_an_exported_history(
    export: list[str], address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["history", TEST, *export, "--warehouse", address]) == 0
    (tmp_path / "history").write_text(capsys.readouterr().out)
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "metrics.json").write_text('{"total_wall_time": 100, "epoch/val_accuracy_final": 1}')
    files = [str(tmp_path / "config.yaml"), "--history", str(tmp_path / "history"), "--test", TEST, "--json"]
    assert cli.main(["judge", *files, "--metrics", str(tmp_path / "metrics.json")]) == 0
    by_name = {one["metric"]: one for one in json.loads(capsys.readouterr().out)["verdicts"]}
    assert by_name["epoch/val_accuracy_final"]["baseline_points"] == (0 if "total_wall_time" in export else 11)


def test_each_run_has_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A metric with its change, from the first shifted run on, and the last error of the log of a crash."""
    address, start = f"sqlite:///{tmp_path}/w.db", datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", f"{tmp_path}/runs")
    records = []
    for day in range(15):
        run, ended = Run("t", "t", f"run {day}", "local"), start + timedelta(days=day)
        crashed, value = day == 14, 10.84 if day >= 11 else 10.0
        outcome = Outcome.SKIPPED if crashed else Outcome.FAIL if day == 13 else Outcome.PASS
        verdict = Verdict("loss", outcome, value, Bounds(upper=10.5), "the level", reference=10.0, baseline_points=day)
        status, reason = (JobStatus.FAILURE, "ExitCode:1") if crashed else (JobStatus.SUCCESS, None)
        workload = Workload(status, reason, started_at=ended, ended_at=ended, image=f"app:{1 + (day >= 11)}")
        metrics = [] if crashed else [Metric("loss", value, "loss", "final")]
        records.append(
            run_record(run, workload, metrics, [verdict], {}, test_type="", accelerator="", framework_version="")
        )
    folder = RunFolder.of(run, f"{tmp_path}/runs")
    write_logs(folder, [ContainerLog(1, "base", Role.WORKLOAD, exit_code=1, saved=True)])
    logs = Path(folder.path, "_ml_metrics", "logs")
    logs.mkdir()
    (logs / "attempt-1-base.log").write_text("x\nValueError: the shapes differ\n\n")
    with open_warehouse(address) as warehouse:
        warehouse.ensure_schema()
        warehouse.load_all(records)
    assert cli.main(["history", "t", "--warehouse", address, "--json"]) == 0
    reasons = [row["why"] for row in json.loads(capsys.readouterr().out)["runs"]]
    change = "+8.4 % against 10; since 2026-01-12, image: app:1 -> app:2"
    assert reasons == [
        "failure: ExitCode:1: ValueError: the shapes differ",
        f"loss = 10.84, must be below 10.5, {change}",
        *[f"loss = 10.84, {change}"] * 2,
        *[""] * 11,
    ]
    assert cli.main(["history", "t", "--warehouse", address]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "failure: ExitCode:1: ValueError: the shapes differ" in lines
    assert f"loss = 10.84, {change}" in " ".join(lines)
