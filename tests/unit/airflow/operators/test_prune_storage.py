"""The task of the DAG `ml-metrics-storage`, with the warehouse and the run folders of a laptop."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.airflow import callbacks
from ml_metrics.airflow.callbacks import prune_storage
from ml_metrics.airflow.versions import AirflowSkipException
from ml_metrics.pipeline.experiments import experiments
from unit.pipeline.retention.run_folders import store, stored_keys
from unit.pipeline.retention.stored_journals import store_journal


class TaskInstance:
    """Airflow's, of which one run is in progress."""

    def __init__(self, running: str) -> None:
        self.running = running

    def get_dr_count(self, *, dag_id: str, run_ids: list[str], states: list[str]) -> int:
        assert (dag_id, states) == ("t", ["queued", "running"])
        return int(self.running in run_ids)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path / "runs"))
    monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_FILE", str(tmp_path / "warehouse.db"))
    monkeypatch.setattr("airflow.sdk.get_current_context", lambda: {"ti": TaskInstance("running again")})
    for name, days in (("newest", 1), ("old", 40), ("running again", 41), ("older", 42)):
        store(str(tmp_path / "runs"), "t", name, days, now=datetime.now(UTC))
    return str(tmp_path / "runs")


def test_without_settings_the_task_is_skipped(root: str) -> None:
    with pytest.raises(AirflowSkipException, match="keep every run folder"):
        prune_storage()
    assert len(stored_keys(root, "t")) == 4


def test_what_is_too_old_is_removed_unless_airflow_runs_it(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__KEEP_RUNS_DAYS", "30")
    assert prune_storage().startswith("2 runs removed, 8 files, ")
    assert len(stored_keys(root, "t")) == 2


def test_journals_of_experiments_are_removed_by_the_same_ages(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__KEEP_RUNS_DAYS", "30")
    store_journal(root, "worse", 99, failed=True)
    young, _ = store_journal(root, "young", 29), store_journal(root, "old", 31)
    assert prune_storage().startswith("2 runs and 1 journals removed, 9 files, ")
    assert len(list(experiments(root))) == 2
    assert young.key in {one.key for one in experiments(root)}


@pytest.mark.usefixtures("root")
def test_a_pass_ends_in_time_and_the_next_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__KEEP_RUNS_DAYS", "30")
    with monkeypatch.context() as patched:
        patched.setattr(callbacks, "PASS_SECONDS", -1.0)
        assert prune_storage() == "0 runs removed, 0 files, 0 bytes; the next pass continues"
    assert prune_storage().startswith("2 runs removed")


def test_an_unreachable_warehouse_removes_nothing(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable() -> Any:
        raise OSError("no route to the warehouse")

    monkeypatch.setenv("AIRFLOW__ML_METRICS__KEEP_RUNS_DAYS", "30")
    monkeypatch.setattr("ml_metrics.airflow.callbacks.warehouse", unreachable)
    with pytest.raises(OSError, match="no route"):
        prune_storage()
    assert len(stored_keys(root, "t")) == 4
