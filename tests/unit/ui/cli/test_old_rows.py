"""`ml-metrics storage --rows`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.warehouse import old_rows, open_warehouse, run_record
from unit.ui.cli.shell import Shell

ROWS = ["storage", "--rows"]


@pytest.fixture(autouse=True)
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    place = f"sqlite:///{tmp_path}/warehouse.db"
    monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_FILE", str(tmp_path / "warehouse.db"))
    monkeypatch.setattr(old_rows, "needed_runs", lambda *_: set())
    about = {"test_type": "", "accelerator": "", "framework_version": ""}
    for deployment in ("local", "prod"):
        with open_warehouse(place, deployment=deployment) as opened:
            for days in (1, 99, 101, 102):
                ended = datetime.now(UTC) - timedelta(days=days)
                run = Run("digits", "digits", f"{days}", deployment)
                opened.load(run_record(run, Workload(JobStatus.SUCCESS, ended_at=ended), [], [], {}, **about))
    return place


def stored(address: str, deployment: str) -> int:
    with open_warehouse(address, deployment=deployment) as opened:
        return len(opened.runs.newest("digits"))


def test_what_is_shown_is_removed(address: str, ml: Shell) -> None:
    for arguments in ([], ["--prune", "--dry-run"]):
        lines = ml(*ROWS, *arguments, "--keep-rows-days", "100").splitlines()
        assert [line.split()[:2] for line in lines if line.startswith("digits")] == [["digits", "2"]]
        assert lines[-1].startswith("the rows of 2 runs would be removed: all before ")
    assert [one["runs"] for one in ml.json(*ROWS, "--keep-rows-days", "100")["removable"]] == [2]
    assert (stored(address, "local"), stored(address, "prod")) == (4, 4)
    assert ml(*ROWS, "--prune", "--keep-rows-days", "100").startswith("the rows of 2 runs removed: all before ")
    assert (stored(address, "local"), stored(address, "prod")) == (2, 4)
    assert ml.json(*ROWS, "--prune", "--deployment", "prod", "--keep-rows-days", "100")["removed_runs"] == 2
    assert (stored(address, "local"), stored(address, "prod")) == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--rows", "--prune"], "every row is kept forever: set [ml_metrics] keep_rows_days"),
        (["--rows", "--keep-rows-days", "89"], "89 is too few"),
        (["--rows", "digits"], "--rows is for all tests"),
        (["--keep-rows-days", "100"], "--keep-rows-days needs --rows"),
    ],
)
def test_wrong_usage(address: str, arguments: list[str], error: str, ml: Shell) -> None:
    assert error in ml("storage", *arguments, code=2)
    assert stored(address, "local") == 4
