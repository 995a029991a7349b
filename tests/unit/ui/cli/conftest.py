"""A warehouse with the runs of three tests, one of them with an open alert."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ml_metrics.core.model import JobStatus, Outcome, Workload
from ml_metrics.warehouse import open_warehouse, run_record
from unit.ui.cli.shell import Shell
from unit.warehouse.records import MONDAY, TEST, metric, record, run_of, verdict

if TYPE_CHECKING:
    from ml_metrics.warehouse import RunRecord

LONG_NAME = "tf-nightly-efficientnet-b7-convergence-v5lite-"
HOSTILE_NAME = "red \x1b[31m"


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("recorded") / "warehouse.db"
    with open_warehouse(f"sqlite:///{place}") as warehouse:
        warehouse.load_all([_run(day) for day in range(12)])
        failed = Workload(
            JobStatus.FAILURE,
            failure_reason="OOMKilled",
            started_at=MONDAY + timedelta(days=12),
            ended_at=MONDAY + timedelta(days=12, hours=3, minutes=4),
        )
        warehouse.load(run_record(run_of(12), failed, [], [], {}, owner="me"))
        warehouse.load(record(0, {"x_final": 1.0}, test=LONG_NAME, outcomes={"x_final": Outcome.PASS}))
        warehouse.load(record(1, {"tag\n\x1b[2J_final": 1e308}, test=HOSTILE_NAME))
        warehouse.incidents.report(TEST, run_of(12).key, fingerprint="job", reasons=["job_status"])
    return place


@pytest.fixture
def address(recorded: Path, tmp_path: Path) -> str:
    """A copy, which takes a fraction of the time of loading the runs."""
    return f"sqlite:///{shutil.copy(recorded, tmp_path / 'warehouse.db')}"


def _run(day: int) -> RunRecord:
    values = {"epoch/val_accuracy_final": 0.95 + day / 1000, "total_wall_time": 300.0 - 20 * (day == 7)}
    if day == 3:
        values["epoch/val_accuracy_final"] = float("nan")
    ended = MONDAY + timedelta(days=day)
    workload = Workload(JobStatus.SUCCESS, started_at=ended - timedelta(seconds=300 + day), ended_at=ended)
    return run_record(
        run_of(day),
        workload,
        [metric(name, value) for name, value in values.items()],
        [verdict("epoch/val_accuracy_final", Outcome.NON_FINITE if day == 3 else Outcome.PASS)],
        {},
        test_type="example",
        accelerator="cpu",
        framework_version="tf",
        goodput=97.25,
        owner="vision-team",
    )


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder and an Airflow home in which nothing was recorded yet."""
    place = tmp_path / "above" / "fresh"  # not beside the folders of all other tests
    place.mkdir(parents=True)
    monkeypatch.chdir(place)
    monkeypatch.setenv("AIRFLOW_HOME", str(place / "airflow"))
    return place


@pytest.fixture
def ml(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)
