"""`collect_metrics` waits for the memory of a workload in the triggerer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ml_metrics import TestDefinition
from ml_metrics.airflow.operators.run import folder_of
from ml_metrics.airflow.operators.tasks import CollectMetrics
from ml_metrics.airflow.versions import AirflowFailException, TaskDeferred
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import JobStatus, Workload
from ml_metrics.measure import Collected
from ml_metrics.pipeline import steps

CLUSTER = {"project": "p", "location": "l", "name": "c"}
TIMER = "airflow.providers.standard.triggers.temporal.DateTimeTrigger"


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A run whose workload has just ended."""
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path))
    ti = SimpleNamespace(xcom_push=lambda **_: None)
    found = {"dag_run": SimpleNamespace(dag_id="t", run_id="r", clear_number=0), "ti": ti}
    now = datetime.now(UTC)
    ran = Workload(JobStatus.SUCCESS, started_at=now - timedelta(minutes=5), ended_at=now, pod="p", namespace="n")
    folder_of("t", found).write_workload(ran)
    return found


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> CollectMetrics:
    monkeypatch.setattr(steps, "collect", lambda *_: Collected(()))
    test = {"name": "t", "image": "i", "command": ["c"], "cluster": CLUSTER}
    return CollectMetrics(task_id="collect_metrics", test=TestDefinition.model_validate(test))


def test_the_task_leaves_its_worker_until_the_memory_is_known(task: CollectMetrics, context: dict[str, Any]) -> None:
    with pytest.raises(TaskDeferred) as raised:
        task.execute(context)
    path, options = raised.value.trigger.serialize()
    assert (path, raised.value.method_name) == (TIMER, "resume"), "a trigger that each triggerer has"
    left = options["moment"] - datetime.now(UTC)
    assert timedelta(minutes=2) < left < timedelta(minutes=3)
    assert raised.value.timeout is not None
    assert raised.value.timeout > left


@pytest.mark.parametrize(
    ("method", "options"), [("resume", {"event": None}), ("__fail__", {"error": "Trigger timeout"})]
)
def test_it_waits_once_even_if_no_triggerer_answers(
    task: CollectMetrics, context: dict[str, Any], method: str, options: dict[str, Any]
) -> None:
    assert task.resume_execution(method, options, context) == "0 metrics from 0 files"


def test_input_that_cannot_be_read_fails_at_once(
    task: CollectMetrics, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: Any) -> None:
        raise UnreadableInputError("workload.json: is damaged")

    monkeypatch.setattr(steps, "memory_visible_at", damaged)
    with pytest.raises(AirflowFailException, match="is damaged"):
        task.execute(context)
