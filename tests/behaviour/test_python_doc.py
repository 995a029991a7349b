"""The examples of docs/python.md run one after the other, and the page names everything that the package offers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import ml_metrics
from ml_metrics.core.model import Bounds, JobStatus, Metric, Outcome, Run, Verdict, Workload
from ml_metrics.warehouse import open_warehouse, run_record

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/python.md", "exec"), namespace)
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
    record = run_record(
        run, Workload(JobStatus.SUCCESS), [metric], [judged], {}, test_type="", accelerator="cpu", framework_version=""
    )
    with open_warehouse("sqlite:///warehouse.db") as warehouse:
        warehouse.load(record)
    exec(compile(BLOCKS[-1], "docs/python.md", "exec"), {})
    assert capsys.readouterr().out.endswith(" 42.0 None 60.0 pass\n")


def test_the_page_names_every_public_name() -> None:
    table = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    assert sorted(name for row in table for name in re.findall(r"`(\w+)`", row)) == sorted(ml_metrics.__all__)
