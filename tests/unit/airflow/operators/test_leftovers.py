"""The gate removes a workload whose end nobody has seen; the next try one whose end a process recorded that died."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ml_metrics import TestDefinition
from ml_metrics.airflow.operators.attempts import mark_attempt_created, start_attempt, unknown_end
from ml_metrics.airflow.operators.chosen_operator import remove_leftovers
from ml_metrics.airflow.operators.objects import JobObjects
from ml_metrics.airflow.operators.run import RUN_KEY
from ml_metrics.airflow.operators.run_workload import RunWorkload
from ml_metrics.airflow.versions import AirflowFailException
from ml_metrics.core.model import JobStatus
from ml_metrics.measure import ContainerLog, Role, read_logs, write_logs
from ml_metrics.store.run_folder import RunFolder

LEFT = replace(unknown_end(1, "i"), namespace="ns", pod="p")
CONTEXT: Any = {"dag_run": SimpleNamespace(dag_id="d", run_id="r")}


class Core:
    """The API of a cluster with one pod of the run."""

    def __init__(self, error: Exception | None = None) -> None:
        self.removed: list[str] = []
        self.error = error

    def list_namespaced_pod(self, namespace: str, label_selector: str) -> Any:
        if self.error:
            raise self.error
        assert label_selector.startswith(f"{RUN_KEY}=")
        return SimpleNamespace(items=[SimpleNamespace(metadata=SimpleNamespace(name=f"{namespace}/p"))])

    def delete_namespaced_pod(self, name: str, namespace: str) -> None:
        assert name.startswith(namespace)
        self.removed.append(name)


def connected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, core: Core) -> RunFolder:
    """Return a run folder for operators that use a cluster."""
    folder = RunFolder(str(tmp_path))
    monkeypatch.setattr("ml_metrics.airflow.operators.run_workload.folder_of", lambda *_: folder)
    monkeypatch.setattr(RunWorkload, "use_cluster", lambda task: task.__dict__.update(client=core))
    monkeypatch.setattr(JobObjects, "remove_all", lambda self: core.removed.append(f"{self.namespace}/job"))
    return folder


def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, core: Core, workload: Any, hosts: int = 1) -> None:
    folder = connected(tmp_path, monkeypatch, core)
    if workload is not None:
        folder.write_workload(workload)
    test = TestDefinition.model_validate({"name": "t", "image": "i", "command": ["x"], "hosts": hosts})
    remove_leftovers(test, CONTEXT, folder)


@pytest.mark.parametrize(("hosts", "removed"), [(1, ["ns/p"]), (2, ["ns/job"])])
@pytest.mark.parametrize("reason", ["WorkerLost", "ClusterUnreachable"])
def test_a_workload_that_may_still_run_is_removed(
    reason: str, hosts: int, removed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = Core()
    gate(tmp_path, monkeypatch, core, replace(LEFT, failure_reason=reason), hosts)
    assert core.removed == removed


@pytest.mark.parametrize(
    "workload",
    [
        None,
        replace(LEFT, pod=None),
        replace(LEFT, failure_reason="OOMKilled"),
        replace(LEFT, failure_reason=None, status=JobStatus.SUCCESS),
    ],
)
def test_nothing_else_is_removed(
    workload: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    core = Core(AssertionError("the cluster is not asked"))
    gate(tmp_path, monkeypatch, core, workload)
    assert core.removed == []
    assert caplog.text == "", "the cluster was asked"


def test_a_cluster_that_does_not_answer_changes_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate(tmp_path, monkeypatch, Core(ConnectionError("no route")), LEFT)
    assert "its deadline ends it: ConnectionError: no route" in caplog.text


@pytest.mark.parametrize("saved", [True, False], ids=["logs were saved", "no logs were saved"])
@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize("reason", [None, "ExitCode:3"])
def test_the_next_try_removes_what_a_process_left_that_died_after_it_had_recorded_the_end(
    reason: str | None, hosts: int, saved: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, steps = Core(), list[str]()
    folder = connected(tmp_path, monkeypatch, core)
    task: Any = SimpleNamespace(max_tries=5)
    mark_attempt_created(folder, start_attempt(folder, task, "i"))
    status = JobStatus.FAILURE if reason else JobStatus.SUCCESS
    folder.write_workload(replace(LEFT, status=status, failure_reason=reason))
    if saved:
        write_logs(folder, [ContainerLog(1, "base", Role.WORKLOAD, saved=True)])
    monkeypatch.setattr(RunWorkload, "observe", lambda _: steps.append("observed"))
    monkeypatch.setattr(RunWorkload, "fetch_logs", lambda *_: [ContainerLog(1, "base", Role.WORKLOAD, note="late")])
    test = TestDefinition.model_validate({"name": "t", "image": "i", "command": ["x"], "hosts": hosts})
    run: Any = RunWorkload(test=test, task_id="run_workload")

    def resumed() -> None:
        run.execute({**CONTEXT, "ti": task})

    if reason is None:
        resumed()
    else:
        with pytest.raises(AirflowFailException, match=reason):
            resumed()
    assert core.removed == [f"ns/{'job' if hosts > 1 else 'p'}"]
    assert steps == ([] if saved else ["observed"])
    assert [one.note for one in read_logs(folder)] == ["" if saved else "late"]


def test_a_cluster_that_does_not_answer_changes_no_recorded_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = connected(tmp_path, monkeypatch, Core(ConnectionError("no route")))
    task: Any = SimpleNamespace(max_tries=5)
    mark_attempt_created(folder, start_attempt(folder, task, "i"))
    folder.write_workload(replace(LEFT, status=JobStatus.SUCCESS, failure_reason=None))
    write_logs(folder, [ContainerLog(1, "base", Role.WORKLOAD, saved=True)])
    test = TestDefinition.model_validate({"name": "t", "image": "i", "command": ["x"]})
    operator: Any = RunWorkload(test=test, task_id="run_workload")
    operator.execute({**CONTEXT, "ti": task})
    assert "may still be in the cluster: ConnectionError: no route" in caplog.text
