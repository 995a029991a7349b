"""Where tasks run on several machines, a run ends before its workload costs money."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from ml_metrics import TestDefinition
from ml_metrics.airflow.operators import tasks
from ml_metrics.airflow.operators.run_workload import RunWorkload

BUCKET = "memory://runs"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of a cluster."""
    asked: list[str] = []
    monkeypatch.setattr(RunWorkload, "use_cluster", lambda self: asked.append(self.test.name))
    return asked


@pytest.fixture
def context() -> dict[str, Any]:
    ti = SimpleNamespace(
        dag_id="small", task_id="run_workload", run_id="manual__1", run_type="manual", triggering_user_name="alice",
        try_number=1, max_tries=3, map_index=-1, log_url="", xcom_push=lambda **_: None, run_after=datetime.now(UTC),
        start_date=None,
    )  # fmt: skip
    return {"ti": ti, "dag_run": ti, "run_id": ti.run_id, "params": {}}


def execute(context: Any) -> None:
    test = TestDefinition(name="small", image="i", command=["true"])
    RunWorkload(test=test, task_id="run_workload").execute(context)


def test_a_folder_of_one_machine(
    context: Any, started: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path / "runs"))
    with pytest.raises(AirflowFailException, match=r"storage_root: .*/runs is on the disk of one machine"):
        execute(context)
    assert started == []
    assert not (tmp_path / "runs").exists()


def test_no_connection_of_the_warehouse(context: Any, started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", BUCKET)
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CHANNELS", "smtp")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DOCUMENTS_KEY", "a key that is long enough")
    with pytest.raises(AirflowFailException, match="`ml_metrics_warehouse` of the warehouse cannot be read"):
        execute(context)
    assert started == []
    ended = tasks.folder_of("small", context).read_workload()
    assert ended is not None
    assert "ml_metrics_warehouse" in (ended.detail or ""), "the message about the run has the reason"
