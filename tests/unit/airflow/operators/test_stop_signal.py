"""What SIGTERM does to a workload: it ends with its task, and goes on where only the worker is stopped."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException

from ml_metrics import TestDefinition
from ml_metrics.airflow.operators.attempts import TaskStoppedError, end_is_known, start_attempt
from ml_metrics.airflow.operators.run_workload import RunWorkload, StopSignal, WorkerStoppedError, is_ended
from ml_metrics.airflow.versions import AirflowTaskTimeout
from ml_metrics.core.model import Workload
from ml_metrics.store.run_folder import RunFolder

RUN, TASK = "r", "run_workload"
NEVER = ["success", "failed", "skipped", "upstream_failed", "removed", "restarting"]
LATER = ["running", "up_for_retry", "scheduled", "queued", "deferred", None]


def ti(state: str | None = None, *, error: Exception | None = None, known: bool = True) -> Any:
    """A task instance of which Airflow reports a state, nothing, or an error."""

    def get_task_states(**_: Any) -> dict[str, Any]:
        if error is not None:
            raise error
        return {RUN: {TASK: state}} if known else {}

    names = {"dag_id": "d", "run_id": RUN, "task_id": TASK, "max_tries": 3, "log_url": ""}
    return SimpleNamespace(get_task_states=get_task_states, **names)


@pytest.mark.parametrize("state", NEVER)
def test_a_task_in_a_final_state_was_ended(state: str) -> None:
    assert is_ended(ti(state))


@pytest.mark.parametrize("state", LATER)
def test_a_task_that_runs_or_will_run_was_not_ended(state: str | None) -> None:
    assert not is_ended(ti(state))


def test_a_deleted_run_was_ended_and_no_answer_means_that_it_was_not() -> None:
    assert is_ended(ti(known=False))
    assert not is_ended(ti(error=ConnectionError("the supervisor is gone")))


def operator_of() -> tuple[Any, list[str]]:
    """Return an operator that removes nothing, and the list of what it would have removed."""
    test = TestDefinition.model_validate({"name": "t", "image": "i", "command": ["x"], "namespace": "ns"})
    made: Any = RunWorkload(task_id=TASK, test=test, kubernetes_conn_id=None)
    removed: list[str] = []
    made.end_workload = lambda: removed.append("the workload")
    made.save_logs = lambda: None
    return made, removed


def workload_of(
    folder: RunFolder, task: Any, monkeypatch: pytest.MonkeyPatch, *, again: bool = True
) -> tuple[Workload, list[str], type[BaseException] | None]:
    """Send SIGTERM to a task that waits for its workload. Return the record, what was removed, and the task's error."""
    made, removed = operator_of()
    monkeypatch.setattr("ml_metrics.airflow.operators.run_workload.folder_of", lambda *_: folder)
    monkeypatch.setattr("ml_metrics.airflow.operators.run_workload.logs_command", lambda *_: None)
    answered = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: (made.on_kill(), answered.set()))
    error: type[BaseException] | None = None
    try:
        with made.recorded({"ti": task, "dag_run": SimpleNamespace(start_date=None, run_after=None)}):
            made.pending = start_attempt(folder, task, "i")
            signal.raise_signal(signal.SIGTERM)
            assert removed == [], "nothing is removed before Airflow has answered"
            made._signal.asking.join(10)
            if again:
                signal.raise_signal(signal.SIGTERM)  # Airflow's supervisor and the system may both send it
            raise ConnectionError("what the task was doing when its pod disappeared")  # noqa: TRY301
    except BaseException as raised:
        error = type(raised)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert made._signal.asking.daemon, "a supervisor that never answers holds no process"
    workload = folder.read_workload()
    assert workload is not None
    return workload, removed, error


def test_a_stopped_worker_leaves_the_workload_and_its_end_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload, removed, error = workload_of(RunFolder(str(tmp_path)), ti("running"), monkeypatch)
    assert (removed, error) == ([], TaskStoppedError)
    assert not end_is_known(workload), "the next try takes over the workload"
    assert workload.failure_reason == "WorkerLost"


def test_a_task_that_somebody_ended_takes_its_workload_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload, removed, _ = workload_of(RunFolder(str(tmp_path)), ti("failed"), monkeypatch, again=False)
    assert removed
    assert workload.failure_reason == "Killed"


@pytest.mark.parametrize(("state", "deleted"), [("failed", "Killed"), ("running", "PodDeleted")])
def test_a_pod_that_the_gate_deleted_first_was_ended_with_its_task(
    state: str, deleted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = operator_of()
    folder, task = RunFolder(str(tmp_path)), ti(state)
    monkeypatch.setattr("ml_metrics.airflow.operators.run_workload.folder_of", lambda *_: folder)
    monkeypatch.setattr("ml_metrics.airflow.operators.run_workload.logs_command", lambda *_: None)
    made.pending = start_attempt(folder, task, "i")
    made.created, made.observed = True, replace(made.pending, failure_reason="PodDeleted")
    with (
        pytest.raises(AirflowException),
        made.recorded({"ti": task, "dag_run": SimpleNamespace(start_date=None, run_after=None)}),
    ):
        raise AirflowException("the pod was deleted")
    workload = folder.read_workload()
    assert workload is not None
    assert workload.failure_reason == deleted


def test_a_timeout_needs_no_question() -> None:
    made, removed = operator_of()
    made._signal = StopSignal(ti("running"))
    try:
        raise AirflowTaskTimeout  # noqa: TRY301
    except AirflowTaskTimeout:
        made.on_kill()
    assert removed == ["the workload"]


def test_the_signal_is_no_error_that_a_loop_handles() -> None:
    assert not issubclass(WorkerStoppedError, Exception)
