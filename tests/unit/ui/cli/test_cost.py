"""`ml-metrics cost`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import golden
from ml_metrics.core.model import JobStatus
from ml_metrics.ui import cli
from ml_metrics.warehouse import open_warehouse
from unit.warehouse.records import TEST, record, run_of

WEEK = ["--week", "2026-W10"]  # 2 to 8 March
COST = {"chip_hours": 8.0, "cost_usd": 9.6, "cost_productive_usd": 7.5, "cost_stall_usd": 2.1}


@pytest.fixture
def place(tmp_path: Path) -> str:
    address = f"sqlite:///{tmp_path}/costs.db"
    with open_warehouse(address) as warehouse:
        warehouse.load_all([record(day, COST) for day in range(8)])
        warehouse.load(record(2, {"chip_hours": 1.0, "cost_eur": 3.0}, test="pt-resnet", status=JobStatus.FAILURE))
        warehouse.load(record(3, {}, test="pt-resnet"))
    return address


def test_output(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cost", *WEEK, "--warehouse", place]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    golden.check("cli/cost-of-a-week.txt", out)


def test_of_a_test_run_by_run(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cost", TEST, *WEEK, "--warehouse", place]) == 0
    out = capsys.readouterr().out
    assert out.count("9.60 USD") == 7
    assert out.splitlines()[1] == "67.20 USD for 56 chip hours, 7 runs"


def test_json_and_csv_have_the_same_sums(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cost", *WEEK, "--warehouse", place, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["total"]["cost"] == {"EUR": "3.00", "USD": "67.20"}
    assert document["by_owner"]["vision-team"]["runs_without_cost"] == 1
    assert cli.main(["cost", *WEEK, "--warehouse", place, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert sorted(row["cost"] for row in rows) == ["", "3.00", *["9.60"] * 7]


def test_an_unknown_owner_is_an_error(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cost", "--owner", "nobody", *WEEK, "--warehouse", place]) == 2
    assert "no run of the owner 'nobody' stopped in this week; owners: vision-team" in capsys.readouterr().err


@pytest.mark.parametrize(
    "week",
    ["2026-W60", "2025-W53", "2026-W00", "9999-W52", "0001-W01", "1899-W01", "2026", "last", "2026-W"],
)
def test_a_week_that_is_none_is_an_error(place: str, week: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cost", "--week", week, "--warehouse", place]) == 2
    assert "should be a week such as 2026-W47" in capsys.readouterr().err


def test_billed_beside_computed(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = [{"key": "k8s-label/ml-metrics/run-key", "value": run_of(1).key}]
    rows = [{"cost": 9.5, "currency": "USD", "labels": labels}, {"cost": 1, "currency": "USD", "labels": []}]
    export = tmp_path / "export.json"
    export.write_text(json.dumps(rows))
    arguments = ["cost", TEST, *WEEK, "--warehouse", place, "--billing", str(export)]
    assert cli.main(arguments) == 0
    assert "2 rows billed; 1.00 USD without the label of a run" in capsys.readouterr().out
    assert cli.main([*arguments, "--json"]) == 0
    found = {row["run"]: (row["computed"], row["billed"]) for row in json.loads(capsys.readouterr().out)["runs"]}
    assert found[run_of(1).key] == ("9.60", "9.50")
    assert found[run_of(2).key] == ("9.60", None)
    export.write_text("[{}]")
    assert cli.main(arguments) == 2
    assert "export.json:1: currency" in capsys.readouterr().err
