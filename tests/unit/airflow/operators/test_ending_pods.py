"""What is kept of pods that the cluster ends, and removes before their end can be read."""

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

from ml_metrics import TestDefinition
from ml_metrics.airflow.clusters.outcome import EVENT_REASONS
from ml_metrics.airflow.operators.attempts import mark_attempt_created, start_attempt, unknown_end
from ml_metrics.airflow.operators.run import RUN_KEY
from ml_metrics.airflow.operators.run_hosts import HostObjects
from ml_metrics.airflow.operators.run_workload import RunWorkload
from ml_metrics.airflow.versions import TaskDeferred
from ml_metrics.store.run_folder import RunFolder

DRAINED = "Eviction API: evicting"


class Core:
    """The API of a cluster whose pods are gone, and that has only events."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self.events, self.asked = events, []  # type: tuple[dict[str, Any], ...], list[str]
        self.api_client = None

    def list_namespaced_event(self, _: str, field_selector: str) -> dict[str, Any]:
        self.asked.append(field_selector)
        wanted = dict(part.split("=", 1) for part in field_selector.split(","))
        about = ("kind", "name", "uid")

        def matches(event: dict[str, Any]) -> bool:
            known = {f"involvedObject.{name}": event["involvedObject"].get(name) for name in about}
            return all({**known, "reason": event["reason"]}.get(name) == value for name, value in wanted.items())

        return {"items": [event for event in self.events if matches(event)]}

    def read_namespaced_pod(self, *_: Any) -> None:
        raise ApiException(status=404)


def task(folder: RunFolder, core: Core) -> Any:
    """A process of the task, as the triggerer resumes it."""
    test = TestDefinition.model_validate({"name": "t", "image": "i", "command": ["x"], "namespace": "ns"})
    made: Any = RunWorkload(task_id="run_workload", test=test, deferrable=True, kubernetes_conn_id=None)
    made.__dict__["client"] = core
    made._folder, made.created = folder, True
    made.pending = unknown_end(1, "i")
    object.__setattr__(made.pending, "pod", "p")
    made.convert_config_file_to_dict = lambda: setattr(made, "_config_dict", {"clusters": []})
    return made


def pod(*conditions: k8s.V1PodCondition) -> k8s.V1Pod:
    status = k8s.V1PodStatus(phase="Running", conditions=list(conditions))
    return k8s.V1Pod(metadata=k8s.V1ObjectMeta(name="p", namespace="ns"), status=status)


@pytest.mark.parametrize("drained", [True, False])
def test_a_drained_pod_is_told_by_what_was_seen_while_it_ended(tmp_path: Path, drained: bool) -> None:
    folder, core = RunFolder(str(tmp_path)), Core()
    first = task(folder, core)
    condition = k8s.V1PodCondition(
        type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI", message=DRAINED
    )
    first.pod = pod(*([condition] if drained else []))
    context: Any = {"ti": SimpleNamespace(start_date=first.pending.queued_at)}
    with pytest.raises(TaskDeferred):
        first.invoke_defer_method(context=context)
    assert (folder.read("ending") is not None) == drained
    end = task(folder, core).observe()
    assert (end.failure_reason, end.detail == DRAINED) == (("Evicted", True) if drained else ("PodDeleted", False))


def test_what_was_seen_of_another_pod_does_not_count(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    folder.write("ending", {"pod": "another", "status": {"reason": "Evicted"}})
    assert task(folder, Core()).observe().failure_reason == "PodDeleted"


@pytest.mark.parametrize("created", [True, False])
def test_a_pod_that_was_deleted_after_its_worker_died_is_not_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, created: bool
) -> None:
    folder, requests = RunFolder(str(tmp_path)), []
    context: Any = {"ti": SimpleNamespace(max_tries=3)}
    pending = start_attempt(folder, context["ti"], "i")
    if created:
        mark_attempt_created(folder, pending)
    for module in ("run_workload", "workload_base"):
        monkeypatch.setattr(f"ml_metrics.airflow.operators.{module}.folder_of", lambda *_: folder)
    monkeypatch.setattr(KubernetesPodOperator, "get_or_create_pod", lambda *_: requests.append("create"))
    later = task(folder, Core())
    later.pending, later.find_pod = None, lambda *_, **__: None
    with pytest.raises(AirflowException, match="deleted") if created else nullcontext():
        later.get_or_create_pod(pod(), context)
    assert requests == ([] if created else ["create"])


def test_the_events_of_lost_pods_are_read_by_their_reasons_and_only_for_a_failed_job() -> None:
    about = {"kind": "Pod", "name": "j-1-abcde", "uid": "u"}
    other = {**about, "name": "another-1-abcde"}
    core: Any = Core(
        {"reason": "Preempted", "message": "by urgent", "involvedObject": about},
        {"reason": "Preempted", "message": "by another", "involvedObject": other},
        {"reason": "Pulled", "message": "an image", "involvedObject": about},
    )
    batch: Any = None
    objects = HostObjects(core, batch, "ns", {RUN_KEY: "k"})
    job = {"metadata": {"name": "j", "uid": "job"}, "spec": {}, "status": {}}
    assert objects.explanations(job, []) == ((), None)
    assert core.asked == ["involvedObject.uid=job"]
    job["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    events, _ = objects.explanations(job, [])
    assert [event["message"] for event in events] == ["by urgent"]
    assert len(core.asked) == 2 + len(EVENT_REASONS)
