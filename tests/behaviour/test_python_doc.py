"""The examples of docs/monitoring.md run one after the other, and the page names everything that the package offers."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import ml_metrics
from ml_metrics import MlMetricsError, changes, history
from ml_metrics.core.model import Bounds, JobStatus, Metric, Outcome, Run, TagCurve, Verdict, Workload
from ml_metrics.warehouse import open_warehouse, run_record

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "monitoring.md").read_text(encoding="utf-8").partition("\n## In Python\n")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/monitoring.md", "exec"), namespace)
    assert namespace["dag"].dag_id == "hello-from-python"
    (series,) = namespace["events"].series
    assert (series.tag, len(series)) == ("train/loss", 5)
    assert namespace["report"].found
    assert not namespace["judgement"].passed
    assert "warehouse.db" in capsys.readouterr().out
    assert not (tmp_path / "warehouse.db").exists()


def test_the_last_example_prints_a_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Run("tf-mnist-example-cpu", "tf-mnist-example-cpu", "manual__1", "local")
    judged = Verdict("total_wall_time", Outcome.PASS, 42.0, Bounds(upper=60.0), "less than 60")
    metric = Metric("total_wall_time", 42.0, "total_wall_time", "computed")
    record = run_record(run, Workload(JobStatus.SUCCESS), [metric], [judged], {}, accelerator="cpu")
    with open_warehouse("sqlite:///warehouse.db") as warehouse:
        warehouse.load(record)
    exec(compile(BLOCKS[-1], "docs/monitoring.md", "exec"), {})
    assert " 42.0 None 60.0 pass\n" in capsys.readouterr().out


RUNS, SLOWER_FROM = 40, 25
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A warehouse with a run each night; from one of them on, its time is 20 % longer."""
    monkeypatch.chdir(tmp_path)
    about = {"test_type": "", "accelerator": "cpu", "framework_version": ""}
    address = "sqlite:///warehouse.db"
    with open_warehouse(address) as warehouse:
        for night in range(RUNS):
            seconds = (60.0 if night >= SLOWER_FROM else 50.0) + night % 3
            metrics = [
                Metric("total_wall_time", seconds, "total_wall_time", "computed", unit="s"),
                Metric("loss_curve", None, "loss", "curve"),
            ]
            outcome = Outcome.FAIL if night >= SLOWER_FROM else Outcome.PASS
            verdict = Verdict("total_wall_time", outcome, seconds, Bounds(upper=55.0), "less than 55")
            run = Run("tf-mnist-example-cpu", "tf-mnist-example-cpu", f"night-{night}", "local")
            workload = Workload(JobStatus.SUCCESS, ended_at=START + timedelta(days=night))
            loss = {"loss": TagCurve("loss", (0, 10, 20), (3.0, 2.0, 1.0))}
            warehouse.load(run_record(run, workload, metrics, [verdict], {}, curves=loss, **about))
    return address


def test_the_notebook_runs(nights: str) -> None:
    cells = json.loads((DOCS / "notebooks" / "history.ipynb").read_text())["cells"]
    namespace: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), namespace)
    assert namespace["warehouse"] == nights
    values, found, points = namespace["values"], namespace["found"], namespace["points"]
    times = values[values.metric == "total_wall_time"]
    assert len(times) == RUNS
    assert times.timestamp.is_monotonic_increasing
    assert set(times.outcome) == {"pass", "fail"}
    assert str(times.timestamp.dt.tz) == "UTC"
    (change,) = found.itertuples()
    assert change.timestamp == START + timedelta(days=SLOWER_FROM)
    assert 15 < change.percent < 25
    assert points.groupby("run_key").value.apply(list).tolist() == [[3.0, 2.0, 1.0]] * 5


def test_a_frame_has_its_columns_without_rows_and_a_wrong_name_is_an_error(nights: str) -> None:
    found = changes("tf-mnist-example-cpu", limit=3, warehouse=nights)
    assert found.empty
    assert [*found.columns[:3]] == ["metric", "timestamp", "run_key"]
    assert str(found.timestamp.dt.tz) == "UTC"
    with pytest.raises(MlMetricsError, match="did you mean 'tf-mnist-example-cpu'"):
        history("tf-mnist-exmaple-cpu", warehouse=nights)


def test_the_page_names_every_public_name() -> None:
    table = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    assert sorted(name for row in table for name in re.findall(r"`(\w+)`", row)) == sorted(ml_metrics.__all__)
