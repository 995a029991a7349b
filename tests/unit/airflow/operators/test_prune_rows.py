"""The task of the DAG `ml-metrics-storage` that removes rows, with the warehouse of a laptop."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from ml_metrics import ConfigError
from ml_metrics.airflow import callbacks, warehouse
from ml_metrics.airflow.callbacks import prune_rows
from ml_metrics.airflow.versions import AirflowSkipException
from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.warehouse import old_rows, run_record


@pytest.fixture(autouse=True)
def three_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_FILE", str(tmp_path / "warehouse.db"))
    monkeypatch.setattr(old_rows, "needed_runs", lambda *_: set())
    about = {"test_type": "", "accelerator": "", "framework_version": ""}
    with warehouse() as opened:
        for days in (1, 99, 101):
            ended = datetime.now(UTC) - timedelta(days=days)
            run = Run("t", "t", f"{days}", opened.deployment)
            opened.load(run_record(run, Workload(JobStatus.SUCCESS, ended_at=ended), [], [], {}, **about))


def stored() -> list[str | None]:
    with warehouse() as opened:
        return [one.run_id for one in opened.runs.newest("t")]


def test_without_the_setting_the_task_is_skipped() -> None:
    with pytest.raises(AirflowSkipException, match="keeps every row"):
        prune_rows()
    assert stored() == ["1", "99", "101"]


def test_what_is_too_old_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__KEEP_ROWS_DAYS", "100")
    with monkeypatch.context() as patched:
        patched.setattr(callbacks, "PASS_SECONDS", -1.0)
        assert prune_rows() == "the rows of 0 runs removed; the next pass continues"
    assert prune_rows() == "the rows of 1 runs removed"
    assert prune_rows() == "the rows of 0 runs removed"
    assert stored() == ["1", "99"]


def test_a_pass_has_most_of_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__KEEP_ROWS_DAYS", "100")
    times = iter([0.0])
    monkeypatch.setattr(callbacks, "time", SimpleNamespace(monotonic=lambda: next(times, 40 * 60.0)))
    assert prune_rows() == "the rows of 1 runs removed"


def test_too_few_days_remove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__KEEP_ROWS_DAYS", "89")
    with pytest.raises(ConfigError, match="set 90 or more"):
        prune_rows()
    assert stored() == ["1", "99", "101"]
