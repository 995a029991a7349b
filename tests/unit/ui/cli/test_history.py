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
from ml_metrics.ui.cli.inputs import read_history
from ml_metrics.warehouse import open_warehouse, run_record
from unit.ui.cli.conftest import HOSTILE_NAME
from unit.ui.cli.shell import Shell
from unit.warehouse.records import TEST

COMMANDS = {
    "history-of-a-test": ["history", TEST],
    "history-of-a-metric": ["history", TEST, "epoch/val_accuracy_final"],
    "history-of-hostile-names": ["history", storable_name(HOSTILE_NAME)],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_output(name: str, address: str, ml: Shell) -> None:
    out = ml(*COMMANDS[name], "--warehouse", address)
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "\x1b" not in out
    golden.check(f"cli/{name}.txt", out)


def test_a_warning_is_not_shown_as_a_failure(tmp_path: Path, ml: Shell) -> None:
    ended = datetime(2026, 1, 2, tzinfo=UTC)
    run = Run("warned", "warned", "r", "local")
    memory = Metric("memory_final", 9.0, "memory", "final")
    verdict = Verdict("memory_final", Outcome.FAIL, 9.0, Bounds(upper=4), "less than 4", severity=Severity.WARN)
    workload = Workload(JobStatus.SUCCESS, started_at=ended, ended_at=ended)
    address = f"sqlite:///{tmp_path}/w.db"
    with open_warehouse(address) as warehouse:
        warehouse.ensure_schema()
        warehouse.load(run_record(run, workload, [memory], [verdict], {}))
    for argv, number in ((["history", "warned"], 2), (["history", "warned", "memory_final"], 1)):
        out = ml(*argv, "--warehouse", address)
        assert out.count("warn") >= number
        assert "fail (warn)" in out
        assert "fail" not in out.replace("fail (warn)", "")


def test_json_lines_hold_every_value_oldest_first(address: str, ml: Shell) -> None:
    rows = [json.loads(line) for line in ml("history", TEST, "--jsonl", "--warehouse", address).splitlines()]
    assert len(rows) == 12 * 2 + 1
    assert [row["timestamp"] for row in rows] == sorted(row["timestamp"] for row in rows)
    keys = {"uuid", "timestamp", "test_name", "metric_name", "metric_value", "job_status", "verdict", "non_finite"}
    assert {frozenset(row) for row in rows} == {frozenset(keys)}
    assert (rows[-1]["metric_name"], rows[-1]["job_status"]) == (None, "failure")
    values = [
        json.loads(line)["metric_value"]
        for line in ml(
            "history", TEST, "total_wall_time", "--jsonl", "--limit", "5", "--warehouse", address
        ).splitlines()
    ]
    assert values == [300, 300, 300, 300]  # the newest of the five runs has no value


CONFIG = """
regression_test_config:
  metric_success_conditions:
    total_wall_time: {comparison: less, success_threshold: {fixed_value: 290}}
    default: {comparison: greater, success_threshold: {stddevs_from_mean: 3}}
"""


def test_values_in_one_list_or_curve_have_the_unit_of_the_newest_run(tmp_path: Path, ml: Shell) -> None:
    address = f"sqlite:///{tmp_path}/w.db"
    values = [(1000.0, "ms"), (2000.0, "ms"), (1.0, "s"), (2.0, "s")]
    with open_warehouse(address) as warehouse:
        warehouse.ensure_schema()
        for day, (value, unit) in enumerate(values):
            ended = datetime(2026, 1, 2 + day, tzinfo=UTC)
            workload = Workload(JobStatus.SUCCESS, started_at=ended, ended_at=ended)
            metric = Metric("step_final", value, "step", "final", unit=unit)
            warehouse.load(run_record(Run("t", "t", f"r{day}", "local"), workload, [metric], [], {}))
    lines = ml("history", "t", "--jsonl", "--warehouse", address).splitlines()
    assert [json.loads(line)["metric_value"] for line in lines] == [1.0, 2.0, 1.0, 2.0]
    document = json.loads(ml("history", "t", "--json", "--warehouse", address))
    assert [one["shown"]["value"] for one in document["values"]] == ["2 s", "1 s", "2 s", "1 s"]
    assert "▁█▁█" in ml("history", "t", "--warehouse", address)
    of_metric = ml("history", "t", "step_final", "--warehouse", address)
    assert "▁█▁█" in of_metric
    assert "1,000 ms" in of_metric, "a row has what its run wrote"


@pytest.mark.parametrize("form", [["--jsonl"], ["--json"]], ids=" ".join)
def test_an_exported_history_is_that_of_the_warehouse(form: list[str], address: str, tmp_path: Path, ml: Shell) -> None:
    warehouse = ["--warehouse", address]
    (tmp_path / "history").write_text(ml("history", TEST, *form, *warehouse))
    (tmp_path / "config.yaml").write_text(CONFIG)
    config = [str(tmp_path / "config.yaml"), "--test", TEST, "--json"]
    stored = json.loads(ml("replay", *config, *warehouse, code=1))
    assert json.loads(ml("replay", *config, "--history", str(tmp_path / "history"), code=1)) == stored
    assert set(stored["summary"]) == {"total_wall_time", "epoch/val_accuracy_final"}
    with open_warehouse(address) as opened:
        rows = opened.metrics.history(HistoryNeeds(tests=(TEST,), window=0, recent=99, earliest=None))
    assert sorted(map(repr, read_history(str(tmp_path / "history")))) == sorted(map(repr, rows))


def test_each_run_has_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ml: Shell) -> None:
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
        records.append(run_record(run, workload, metrics, [verdict], {}))
    folder = RunFolder.of(run, f"{tmp_path}/runs")
    write_logs(folder, [ContainerLog(1, "base", Role.WORKLOAD, exit_code=1, saved=True)])
    logs = Path(folder.path, "_ml_metrics", "logs")
    logs.mkdir()
    (logs / "attempt-1-base.log").write_text("x\nValueError: the shapes differ\n\n")
    with open_warehouse(address) as warehouse:
        warehouse.ensure_schema()
        warehouse.load_all(records)
    reasons = [row["why"] for row in ml.json("history", "t", "--warehouse", address)["runs"]]
    change = "+8.4 % against 10; since 2026-01-12, image: app:1 → app:2"
    assert reasons == [
        "failure: ExitCode:1: ValueError: the shapes differ",
        f"loss = 10.84, must be below 10.5, {change}",
        *[f"loss = 10.84, {change}"] * 2,
        *[""] * 11,
    ]
    lines = [line.strip() for line in ml("history", "t", "--warehouse", address).splitlines()]
    assert "failure: ExitCode:1: ValueError: the shapes differ" in lines
    assert f"loss = 10.84, {change}" in " ".join(lines)


def test_json_has_each_value_also_as_it_is_shown(tmp_path: Path, ml: Shell) -> None:
    ended, address = datetime(2026, 1, 2, tzinfo=UTC), f"sqlite:///{tmp_path}/w.db"
    metric = Metric("step_time_p50", 0.8447, "step_time", "p50", unit="s")
    verdict = Verdict(metric.name, Outcome.FAIL, 0.8447, Bounds(upper=0.79), "the level", severity=Severity.WARN)
    workload = Workload(JobStatus.SUCCESS, started_at=ended, ended_at=ended)
    with open_warehouse(address) as warehouse:
        warehouse.ensure_schema()
        warehouse.load(run_record(Run("t", "t", "r", "local"), workload, [metric], [verdict], {}))
    (value,) = ml.json("history", "t", "step_time_p50", "--warehouse", address)["values"]
    assert (value["value"], value["upper"]) == (0.8447, 0.79)
    assert value["shown"] == {"value": "845 ms", "bounds": "below 790 ms", "verdict": "fail (warn)"}
    (value,) = ml.json("history", "t", "--warehouse", address)["values"]
    assert (value["value"], value["shown"]) == (0.8447, {"value": "845 ms"})
