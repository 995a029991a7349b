"""Which pod a process of the task takes over, creates or removes, and what it makes of the triggerer's answer."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import models as k8s
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import MaxRetryError

from ml_metrics import TestDefinition
from ml_metrics.airflow.operators.attempts import TaskTimeoutError, mark_attempt_created, start_attempt
from ml_metrics.airflow.operators.run_workload import RunWorkload
from ml_metrics.airflow.operators.workload_base import WorkerStoppedError
from ml_metrics.core.model import JobStatus, Workload
from ml_metrics.store.run_folder import RunFolder

CONTEXT: Any = {"ti": SimpleNamespace(max_tries=3)}
SUCCEEDED = Workload(JobStatus.SUCCESS)
DELETED = Workload(JobStatus.FAILURE, failure_reason="PodDeleted")


class Process:
    """A process of the task, and what it does in the cluster."""

    def __init__(self, folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.folder, self.answer = folder, None  # type: RunFolder, Exception | None
        self.deletes_with: dict[str, Any] = {}
        for module in ("run_workload", "workload_base"):
            monkeypatch.setattr(f"ml_metrics.airflow.operators.{module}.folder_of", lambda *_: folder)
        for name in ("get_or_create_pod", "cleanup", "trigger_reentry"):
            monkeypatch.setattr(KubernetesPodOperator, name, lambda *_, name=name, **__: self._answer(name))
        made: Any = RunWorkload(task_id="run_workload", test=TestDefinition(name="t", image="i", command=("x",)))
        made.find_pod = lambda *_, **__: self.found
        made.process_pod_deletion = self._delete
        made.observe, made.save_logs = lambda: self.seen, lambda: self.done.append("save logs")
        made.query = lambda request: request()
        made.retry_after_outages = lambda action: action()
        made.recorded = lambda _: nullcontext()
        made.record_observed = lambda: self.done.append("record")
        self.task = made
        self.found: k8s.V1Pod | None = None
        self.seen: Workload | None = None

    def _answer(self, name: str) -> str:
        self.done.append(name)
        if self.answer is not None:
            raise self.answer
        return name

    def _delete(self, pod: k8s.V1Pod, **options: Any) -> None:
        self.done.append(f"delete {pod.metadata.name}")
        self.deletes_with = options

    def record(self, pod: str, end: Workload | None = None) -> None:
        """Record an attempt of an earlier process in a pod, of unknown end unless one is given."""
        pending = start_attempt(self.folder, CONTEXT["ti"], "i")
        mark_attempt_created(self.folder, pending)
        end = end or pending
        self.folder.write_workload(Workload(end.status, failure_reason=end.failure_reason, attempts=1, pod=pod))

    def create(self) -> Any:
        return self.task.get_or_create_pod(pod("p"), CONTEXT)


def pod(name: str, phase: str = "Running", reason: str | None = None, *, deleted: bool = False) -> k8s.V1Pod:
    metadata = k8s.V1ObjectMeta(name=name, namespace="ns", deletion_timestamp="now" if deleted else None)
    return k8s.V1Pod(metadata=metadata, status=k8s.V1PodStatus(phase=phase, reason=reason))


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Process:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path))
    return Process(RunFolder(str(tmp_path / "run")), monkeypatch)


def test_a_pod_whose_end_nobody_has_recorded_is_taken_over(process: Process) -> None:
    process.record("p")
    process.found = pod("p")
    assert process.create() is process.found
    assert process.done == []
    assert (process.task.created, process.task.pending.pod) == (True, "p")


def test_a_pod_whose_end_is_recorded_makes_room_for_the_next_attempt(process: Process) -> None:
    process.record("p", Workload(JobStatus.FAILURE, failure_reason="ExitCode:3"))
    process.found = pod("p")
    process.create()
    assert process.done == ["delete p", "get_or_create_pod"]
    assert process.task.pending.attempts == 2


def test_the_end_of_another_pod_says_nothing_about_this_one(process: Process) -> None:
    process.record("earlier", Workload(JobStatus.FAILURE, failure_reason="ExitCode:3"))
    process.found = pod("p")
    assert process.create() is process.found
    assert process.done == []


def test_a_pod_that_is_being_deleted_is_not_taken_over(process: Process) -> None:
    process.record("p")
    process.found = pod("p", deleted=True)
    with pytest.raises(AirflowException, match="the pod was deleted before its workload had ended"):
        process.create()
    assert process.done == []


@pytest.mark.parametrize(("status", "created"), [(422, False), (403, False), (503, True), (409, True)])
def test_a_request_that_failed_may_have_created_the_pod(process: Process, status: int, created: bool) -> None:
    process.answer = ApiException(status=status)
    with nullcontext() if status == 409 else pytest.raises(ApiException):
        assert process.create().metadata.name == "p"
    assert process.task.created == created
    assert (process.folder.read("attempts") or {})["created"] == (1 if status == 409 else 0)


@pytest.mark.parametrize(
    ("status", "seen", "raised"),
    [
        ("timeout", None, TaskTimeoutError),
        ("timeout", SUCCEEDED, TaskTimeoutError),
        ("error", SUCCEEDED, None),
        ("error", DELETED, AirflowException),
        ("error", None, AirflowException),
        ("failed", SUCCEEDED, AirflowException),
    ],
)
def test_what_the_triggerer_answers(
    process: Process, status: str, seen: Workload | None, raised: type[Exception] | None
) -> None:
    """If the triggerer failed and the workload did not, neither did the task."""
    process.answer, process.task.observed = AirflowException("of the provider"), seen
    with pytest.raises(raised, match="of the provider") if raised else nullcontext() as caught:
        assert process.task.trigger_reentry(CONTEXT, {"status": status}) is None
    assert raised is None or type(caught.value) is raised  # type: ignore[union-attr]


def fail_with(error: Exception) -> None:
    raise error


def clean_up(process: Process, seen: Workload | None, left: k8s.V1Pod, error: Exception | None = None) -> list[str]:
    process.seen, process.task.created = seen, True
    if error is None:
        process.task.cleanup(left, left)
        return process.done
    try:
        fail_with(error)
    except type(error):  # the current exception, which the method looks at
        process.task.cleanup(left, left)
    return process.done


@pytest.mark.parametrize("error", [WorkerStoppedError("SIGTERM"), ApiException(status=503), MaxRetryError(None, "/")])  # type: ignore[arg-type]
def test_a_pod_that_may_still_run_is_left_to_the_next_try(process: Process, error: Exception) -> None:
    assert clean_up(process, SUCCEEDED, pod("p"), error) == []


def test_the_end_of_a_pod_and_its_logs_are_kept_before_it_is_deleted(process: Process) -> None:
    failed = Workload(JobStatus.FAILURE, failure_reason="ExitCode:3")
    assert clean_up(process, failed, pod("p", "Failed")) == ["record", "save logs", "cleanup"]


def test_the_provider_reports_no_missing_pod_where_an_error_says_more(process: Process) -> None:
    assert clean_up(process, DELETED, pod("p"), AirflowException("why")) == ["record", "save logs"]
    for seen, error in ((DELETED, None), (SUCCEEDED, AirflowException("why")), (None, AirflowException("why"))):
        process.done.clear()
        assert clean_up(process, seen, pod("p", "Succeeded"), error) == ["record", "save logs", "cleanup"]


@pytest.mark.parametrize(
    ("left", "seen", "last"),
    [
        (pod("p"), SUCCEEDED, "delete p"),
        (pod("p", "Failed", "DeadlineExceeded"), SUCCEEDED, "delete p"),
        (pod("p", "Succeeded"), SUCCEEDED, "cleanup"),
        (pod("p", "Failed", "Evicted"), SUCCEEDED, "cleanup"),
        (pod("p"), Workload(JobStatus.FAILURE), "cleanup"),
    ],
)
def test_sidecars_that_outlive_a_success_are_removed_and_fail_nothing(
    process: Process, left: k8s.V1Pod, seen: Workload, last: str
) -> None:
    assert clean_up(process, seen, left)[-1] == last
    assert process.deletes_with == ({"reraise": False} if last == "delete p" else {})


def test_the_logs_of_a_pod_that_nobody_has_seen_are_looked_for(process: Process) -> None:
    process.task.observe = lambda: setattr(process.task, "_pod", {"metadata": {"name": "p"}, "spec": {}, "status": {}})
    process.task.open_tail = lambda *_: [b"a line\n"]
    process.task.created = True
    logs = process.task.fetch_logs(process.folder, 1)
    assert "the pod was deleted before its logs could be read" not in [log.note for log in logs]


def test_after_the_triggerer_the_task_goes_on_with_the_pod_that_was_recorded(process: Process) -> None:
    process.record("p")
    assert process.task.trigger_reentry(CONTEXT, {"status": "success"}) == "trigger_reentry"
    assert (process.task.created, process.task.pending.pod) == (True, "p")


def test_an_attempt_without_a_pod_has_nothing_to_observe() -> None:
    made: Any = RunWorkload(task_id="run_workload", test=TestDefinition(name="t", image="i", command=("x",)))
    made.created, made.pending = True, Workload(JobStatus.FAILURE, namespace="ns")
    assert made.observe() is None


@pytest.mark.parametrize("status", [500, 403])
def test_a_cluster_that_does_not_show_the_pod_has_not_lost_it(tmp_path: Path, status: int) -> None:
    def refuse(*_: Any) -> None:
        raise ApiException(status=status)

    made: Any = RunWorkload(task_id="run_workload", test=TestDefinition(name="t", image="i", command=("x",)))
    made.__dict__["client"] = SimpleNamespace(
        list_namespaced_event=lambda *_, **__: {"items": []}, read_namespaced_pod=refuse
    )
    made.created, made.pending = True, Workload(JobStatus.FAILURE, namespace="ns", pod="p")
    made._folder = RunFolder(str(tmp_path))
    with pytest.raises(ApiException):
        made.observe()
    made.created = False
    assert made.observe() is None
