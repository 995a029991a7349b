"""`ml-metrics tests`."""

from __future__ import annotations

from pathlib import Path

import pytest

import golden
from ml_metrics.ui import cli
from ml_metrics.warehouse import open_warehouse
from unit.ui.cli.shell import Shell


def test_output(address: str, ml: Shell) -> None:
    out = ml("tests", "--warehouse", address)
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    golden.check("cli/tests-of-a-warehouse.txt", out)


def test_without_a_run_it_says_how_to_make_one(empty_home: Path, ml: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tests"]) == 0
    place = f"{empty_home}/airflow/ml_metrics/warehouse.db"
    expected = f"No run was recorded yet in {place}; `ml-metrics run TEST` runs a test once"
    assert capsys.readouterr().out.startswith(expected)
    assert ml.json("tests") == {"tests": [], "trials": {}, "not_running": {}}
    assert list(empty_home.iterdir()) == []


def test_a_warehouse_without_runs(tmp_path: Path, ml: Shell) -> None:
    place = f"sqlite:///{tmp_path}/new.db"
    with open_warehouse(place) as warehouse:
        warehouse.ensure_schema()
    assert ml("tests", "--warehouse", place).startswith("No run was recorded yet")
