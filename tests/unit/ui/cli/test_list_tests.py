"""`ml-metrics tests`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import golden
from ml_metrics.ui import cli
from ml_metrics.warehouse import open_warehouse
from unit.warehouse.records import TEST


def test_output(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tests", "--warehouse", address]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    golden.check("cli/tests-of-a-warehouse.txt", out)


def test_json_is_one_document(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tests", "--warehouse", address, "--json"]) == 0
    printed = capsys.readouterr()
    assert TEST in {test["test"] for test in json.loads(printed.out)["tests"]}
    assert printed.err == ""


def test_without_a_run_it_says_how_to_make_one(empty_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tests"]) == 0
    place = f"{empty_home}/airflow/ml_metrics/warehouse.db"
    expected = f"No run was recorded yet in {place}; `ml-metrics run TEST` runs a test once"
    assert capsys.readouterr().out.startswith(expected)
    assert cli.main(["tests", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"tests": [], "trials": {}, "not_running": {}}
    assert list(empty_home.iterdir()) == []


def test_a_warehouse_without_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = f"sqlite:///{tmp_path}/new.db"
    with open_warehouse(place) as warehouse:
        warehouse.ensure_schema()
    assert cli.main(["tests", "--warehouse", place]) == 0
    assert capsys.readouterr().out.startswith("No run was recorded yet")
