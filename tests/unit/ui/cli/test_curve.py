"""From the files of a run to the verdict on its curve, and `ml-metrics curve`."""

from __future__ import annotations

import csv
import json
import re
from datetime import datetime, timedelta
from io import BytesIO, StringIO
from pathlib import Path

import pytest
from pyarrow import parquet

from ml_metrics.config.loading import load_test
from ml_metrics.core.model import JobStatus, Outcome, Run, Workload
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui import cli
from ml_metrics.warehouse import open_warehouse
from unit.ui.cli.shell import Shell
from unit.warehouse.records import MONDAY

EXAMPLE = Path(__file__).parents[4] / "include" / "metric_configs" / "serving_cpu.yaml"
CLIENTS = (1, 2, 3, 4, 6, 8, 12)


def lines(day: int, slow: float) -> str:
    found = []
    for clients in CLIENTS:
        throughput = min(200.0 * clients, 450.0) / slow * (1 + ((7 * day + clients) % 5 - 2) / 100)
        about = {"concurrency": clients, "requests": 900, "latency_p99_ms": 3000 * clients / throughput}
        found.append({**about, "throughput": throughput, "latency_p50_ms": 1000 * clients / throughput})
    return "".join(f"{json.dumps(one)}\n" for one in reversed(found))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A test that becomes slower by a quarter on its thirteenth day, through the steps of its runs."""
    root = tmp_path_factory.mktemp("runs")
    test = load_test(EXAMPLE.parent, "serving-cpu")
    at = f"sqlite:///{root}/w.db"
    with open_warehouse(at) as warehouse:
        for day in range(15):
            run = Run(test.name, test.name, f"day-{day}", "local")
            folder = RunFolder(str(root / run.run_id))
            ended: datetime = MONDAY + timedelta(days=day)
            folder.write("run", {"test_file": test.model_dump(mode="json"), "params": {}})
            began, image = ended - timedelta(seconds=20), f"app:{max(day - 8, 0)}"
            folder.write_workload(Workload(JobStatus.SUCCESS, started_at=began, ended_at=ended, image=image))
            (root / run.run_id / "sweep.jsonl").write_text(lines(day, 1.25 if day >= 12 else 1.0))
            steps.collect(test, RunState(folder))
            judgement = steps.judge(test, run, RunState(folder), warehouse)
            steps.load(test, run, RunState(folder), warehouse)
    outcomes = {verdict.metric: verdict.outcome for verdict in judgement.verdicts}
    assert outcomes == dict.fromkeys(("curve/throughput", "curve/latency_p50_ms"), Outcome.FAIL)
    (alert,) = [one for one in judgement.alerts if one.metric == "curve/throughput"]
    assert "throughput is worse everywhere by -20 % (concurrency)" in alert.message
    return at


def test_the_curves_of_the_newest_run(address: str, ml: Shell) -> None:
    out = ml("curve", "serving-cpu", "--warehouse", address)
    assert max(map(len, out.splitlines())) <= 80
    rows = [line.split() for line in out.splitlines()[3:]]
    assert [(row[0], row[-2], row[-1]) for row in rows] == [
        ("latency_p50_ms", "ms", "fail"), ("latency_p99_ms", "ms", "-"), ("throughput", "1/s", "fail"),
    ]  # fmt: skip


def test_one_curve_beside_those_before(address: str, ml: Shell) -> None:
    out = ml("curve", "serving-cpu", "throughput", "--warehouse", address)
    assert "verdict: fail (alerts), 79.8 %" in out
    assert len(re.findall(r" -[\d.]+ % .*o.*\|", out)) == len(CLIENTS), "each point is below those before"
    document = ml.json("curve", "serving-cpu", "throughput", "--warehouse", address, "--limit", "3")
    assert document["verdict"] == "fail"
    assert [point[0] for point in document["curve"]["points"]] == list(CLIENTS)
    assert len(document["earlier"]) == 3


def test_the_version_that_made_a_curve_worse_is_found(address: str, ml: Shell, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    measure = f"""
        noise=$(( $(wc -l <{journal}) * 7 % 5 )); v=${{CANDIDATE#app:}}; each=$(( v < 4 ? 200 : 160 ))
        y=$(( each * 9 / 4 )).$noise
        echo "{{\\"curve/throughput\\": [[1, $each.$noise], [2, $(( 2 * each )).$noise], [3, $y], [4, $y], [6, $y]]}}"
    """
    good = Run("serving-cpu", "serving-cpu", "day-0", "local").key
    argv = ("bisect", "serving-cpu", "curve/throughput", "--good", good, "--run", measure, "--journal", journal)
    out = ml(*argv, "--warehouse", address)
    assert "the level changed with app:4: everywhere (concurrency)" in out
    found = ml.json(*argv, "--warehouse", address)
    assert (found["good"], found["bad"]) == ("app:3", "app:4")
    values = [(one["candidate"], one["value"]) for one in found["probes"]]
    assert all(abs(value - (100 if each < "app:4" else 80)) < 2 for each, value in values), values
    asked, *lines = map(json.loads, journal.read_text().splitlines())
    assert [len(asked["search"][end]) for end in ("good", "bad")] == [9, 1]
    assert asked["search"]["good"][0]["points"][0][0] == CLIENTS[0]
    assert len(lines) == found["runs"]


def test_a_curve_is_calibrated_by_its_own_rule(address: str, ml: Shell) -> None:
    found = ml.json("calibrate", EXAMPLE, "--warehouse", address)["metrics"]["curve/throughput"]
    assert found["proposed"] is None
    assert re.fullmatch(
        r"it is judged whole, which needs no number: finds [\d.]+ % in 3 runs; fails 1 of 5 runs, 1 alert",
        found["reason"],
    )


def test_the_points_of_curves_are_exported(address: str, ml: Shell) -> None:
    export = ("export", "serving-cpu", "--curves", "--warehouse", address)
    rows = list(csv.DictReader(StringIO(ml(*export, "--format", "csv"))))
    assert len(rows) == 15 * 3 * len(CLIENTS)
    document = ml.json("curve", "serving-cpu", "throughput", "--warehouse", address)
    newest = [row for row in rows if row["curve"] == "throughput"][-len(CLIENTS) :]
    assert [[float(row["x"]), float(row["y"])] for row in newest] == [p[:2] for p in document["curve"]["points"]]
    assert (newest[0]["x_name"], newest[0]["unit"], newest[0]["samples"]) == ("concurrency", "1/s", "900")
    assert "csv or parquet, not as hud" in ml(*export, "--format", "hud", code=2)


def test_the_points_of_curves_as_parquet(address: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    export = ["export", "serving-cpu", "--curves", "--warehouse", address, "--limit", "2", "--format"]
    assert cli.main([*export, "csv"]) == 0
    rows = csv.DictReader(StringIO(capsysbinary.readouterr().out.decode()))
    assert cli.main([*export, "parquet"]) == 0
    table = parquet.read_table(BytesIO(capsysbinary.readouterr().out))
    assert table.num_rows == 2 * 3 * len(CLIENTS)
    assert table.column("y").to_pylist() == [float(row["y"]) for row in rows]


def test_an_unknown_curve_names_the_one_that_was_meant(address: str, ml: Shell) -> None:
    assert "did you mean 'throughput'?" in ml("curve", "serving-cpu", "througput", "--warehouse", address, code=2)


def test_past_runs_are_judged_again_by_a_frontier(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "frontier.yaml"
    condition = "{comparison: greater, traded_for: latency_p50_ms}"
    file.write_text(f"regression_test_config: {{curves: {{throughput: {condition}}}}}")
    cli.main(["replay", str(file), "--test", "serving-cpu", "--warehouse", address, "--json"])
    newest = json.loads(capsys.readouterr().out)["runs"][-1]
    (verdict,) = [one for one in newest["verdicts"] if one["metric"] == "curve/throughput"]
    assert verdict["verdict"] == "fail"
    assert verdict["reason"].startswith("throughput against latency_p50_ms is worse everywhere by -2")
