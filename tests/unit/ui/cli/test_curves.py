"""Curves in the commands that judge: from the warehouse, and from files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ml_metrics.core.model import Metric, TagCurve
from ml_metrics.measure import Collected
from ml_metrics.warehouse import open_warehouse, run_record
from unit.judge.training import curve, losses
from unit.ui.cli.shell import Shell
from unit.warehouse.records import TEST, run_of, workload

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = {
    "name": TEST,
    "image": "i",
    "command": ["c"],
    "regression_test_config": {"metric_success_conditions": {"*_curve": {"curve": {"within": "3 sd"}}}},
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A test file, the metrics of a wrong run, and a warehouse with eight good runs and a wrong one."""
    (tmp_path / "test.json").write_text(json.dumps(CONFIG))
    found = Collected((metric(),), curves={"loss": curve(losses(50, rate=0.2))})
    (tmp_path / "metrics.json").write_text(json.dumps(found.document()))
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        for day in range(9):
            loaded(warehouse, day, curve(losses(day, rate=0.3 if day == 8 else 1.0)))
    return tmp_path


def metric() -> Metric:
    return Metric("loss_curve", 0.0, "loss", "curve")


def loaded(warehouse: Any, day: int, found: TagCurve) -> None:
    names = {"test_type": None, "accelerator": None, "framework_version": None}
    warehouse.load(run_record(run_of(day), workload(day), [metric()], [], {}, curves={"loss": found}, **names))


def history(place: Path, ml: Shell) -> Path:
    (place / "history.jsonl").write_text(ml("history", TEST, "--jsonl", "--warehouse", f"sqlite:///{place}/w.db"))
    return place / "history.jsonl"


def test_a_run_is_judged_by_the_curves_in_a_file(place: Path, ml: Shell) -> None:
    given = ["judge", f"{place}/test.json", "--metrics", f"{place}/metrics.json", "--history", history(place, ml)]
    (found,) = ml.json(*given, code=1)["verdicts"]
    assert (found["verdict"], found["baseline_points"]) == ("fail", 9)
    assert "the 9 good runs had" in found["reason"]


def test_a_replay_of_the_warehouse_is_that_of_its_file(place: Path, ml: Shell) -> None:
    replay = ("replay", f"{place}/test.json")
    stored = ml.json(*replay, "--warehouse", f"sqlite:///{place}/w.db", code=1)
    assert stored == ml.json(*replay, "--history", history(place, ml), code=1)
    outcomes = [run["verdicts"][0]["verdict"] for run in stored["runs"]]
    assert outcomes == ["insufficient_data"] * 5 + ["pass"] * 3 + ["fail"]


def test_other_commands_read_such_a_history(place: Path, ml: Shell) -> None:
    file = history(place, ml)
    for command in (
        ["history", TEST, "--warehouse", f"sqlite:///{place}/w.db"],
        ["history", TEST, "loss_curve", "--json", "--warehouse", f"sqlite:///{place}/w.db"],
        ["validate", f"{place}/test.json", "--with-history", file],
        ["calibrate", f"{place}/test.json", "--history", file],
        ["changes", f"{place}/test.json", "--history", file],
        ["replay", f"{place}/test.json", "--history", file, "--rule", "less"],
    ):
        assert ml(*command), command


@pytest.mark.parametrize(
    "damaged",
    ["text", [], {"steps": [1]}, {"steps": [2, 1], "values": [1, 2]}, {"steps": [1], "values": [1e999]}],
)
def test_a_damaged_curve_is_an_error_with_its_line(place: Path, ml: Shell, damaged: object) -> None:
    file = history(place, ml)
    first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps({**json.loads(first), "curve": damaged}), *rest]))
    assert f"{file}:1: curve: " in ml("replay", f"{place}/test.json", "--history", str(file), code=2).replace(
        "\n", " "
    ).replace("  ", " ")
