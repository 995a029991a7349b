"""`ml-metrics cost`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import golden
from ml_metrics.core.model import JobStatus
from ml_metrics.warehouse import open_warehouse
from unit.ui.cli.shell import Shell
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


def test_output(place: str, ml: Shell) -> None:
    out = ml("cost", *WEEK, "--warehouse", place)
    assert max(map(len, out.splitlines())) <= 80
    golden.check("cli/cost-of-a-week.txt", out)


def test_of_a_test_run_by_run(place: str, ml: Shell) -> None:
    out = ml("cost", TEST, *WEEK, "--warehouse", place)
    assert out.count("9.60 USD") == 7
    assert out.splitlines()[1] == "67.20 USD for 56 chip hours, 7 runs"


def test_json_and_csv_have_the_same_sums(place: str, ml: Shell) -> None:
    document = ml.json("cost", *WEEK, "--warehouse", place)
    assert document["total"]["cost"] == {"EUR": "3.00", "USD": "67.20"}
    assert document["by_owner"]["vision-team"]["runs_without_cost"] == 1
    rows = list(csv.DictReader(io.StringIO(ml("cost", *WEEK, "--warehouse", place, "--csv"))))
    assert sorted(row["cost"] for row in rows) == ["", "3.00", *["9.60"] * 7]


def test_an_unknown_owner_is_an_error(place: str, ml: Shell) -> None:
    assert "no run of the owner 'nobody' stopped in this week; owners: vision-team" in ml(
        "cost", "--owner", "nobody", *WEEK, "--warehouse", place, code=2
    )


@pytest.mark.parametrize(
    "week",
    ["2026-W60", "2025-W53", "2026-W00", "9999-W52", "0001-W01", "1899-W01", "2026", "last", "2026-W"],
)
def test_a_week_that_is_none_is_an_error(place: str, week: str, ml: Shell) -> None:
    assert "should be a week such as 2026-W47" in ml("cost", "--week", week, "--warehouse", place, code=2)


def test_billed_beside_computed(place: str, tmp_path: Path, ml: Shell) -> None:
    labels = [{"key": "k8s-label/ml-metrics/run-key", "value": run_of(1).key}]
    rows = [{"cost": 9.5, "currency": "USD", "labels": labels}, {"cost": 1, "currency": "USD", "labels": []}]
    export = tmp_path / "export.json"
    export.write_text(json.dumps(rows))
    arguments = ["cost", TEST, *WEEK, "--warehouse", place, "--billing", str(export)]
    assert "2 rows billed; 1.00 USD without the label of a run" in ml(*arguments)
    found = {row["run"]: (row["computed"], row["billed"]) for row in ml.json(*arguments)["runs"]}
    assert found[run_of(1).key] == ("9.60", "9.50")
    assert found[run_of(2).key] == ("9.60", None)
    export.write_text("[{}]")
    assert "export.json:1: currency" in ml(*arguments, code=2)
