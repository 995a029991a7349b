"""The objects of a workload on several hosts in a cluster: which are found, made, read and removed."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from ml_metrics import ConfigError, TestDefinition
from ml_metrics.airflow.clusters.manifests import NAME_LABEL, SLICE_LABEL
from ml_metrics.airflow.clusters.manifests import job as job_of
from ml_metrics.airflow.clusters.outcome import INDEX
from ml_metrics.airflow.operators.objects import JobObjects, JobSetObjects
from ml_metrics.airflow.operators.run import RUN_KEY

TEST = TestDefinition.model_validate({"name": "t", "image": "i", "command": ["x"], "hosts": 2})
JOB: Any = {"metadata": {"name": "j"}}
STARTED = {"running": {"startedAt": "2026-01-02T03:04:05Z"}}


class Cluster:
    """The API of a cluster: what it has, and which requests it got. It refuses those of a kind with a status."""

    def __init__(self, **has: Any) -> None:
        self.has, self.done = has, list[tuple[Any, ...]]()
        self.refused: dict[str, int] = {}
        self.why = "AlreadyExists"
        self.api_client = None

    def _get(self, name: str) -> Any:
        return self.has.get(name, [])

    def _do(self, *request: Any) -> None:
        if status := self.refused.get(request[0]):
            refusal = ApiException(status=status)
            refusal.body = f'{{"reason": "{self.why}"}}'
            raise refusal
        self.done.append(request)

    def list_namespaced_job(self, namespace: str, label_selector: str) -> Any:
        assert (namespace, label_selector) == ("ns", f"{RUN_KEY}=key")
        return SimpleNamespace(items=self._get("jobs"))

    def list_namespaced_service(self, namespace: str, label_selector: str) -> Any:
        assert (namespace, label_selector) == ("ns", f"{RUN_KEY}=key")
        return SimpleNamespace(items=self._get("services"))

    def list_namespaced_pod(self, namespace: str, label_selector: str) -> Any:
        self._do("pods", namespace, label_selector)
        return {"items": self._get("pods")}

    def list_namespaced_event(self, namespace: str, field_selector: str) -> Any:
        self._do("events", namespace, field_selector)
        return {
            "items": [one for one in self._get("events") if f"uid={one['involvedObject']['uid']}" in field_selector]
        }

    def read_namespaced_job(self, name: str, namespace: str) -> Any:
        assert namespace == "ns"
        return self._get(name)

    def create_namespaced_service(self, namespace: str, body: Any) -> None:
        self._do("create service", namespace, body["metadata"]["name"], body["metadata"]["labels"])

    def create_namespaced_job(self, namespace: str, body: Any) -> None:
        self._do("create job", namespace, body)

    def patch_namespaced_service(self, name: str, namespace: str, body: Any) -> None:
        self._do("patch service", name, namespace, body)

    def delete_namespaced_job(self, name: str, namespace: str, *, propagation_policy: str) -> None:
        self._do("delete job", name, namespace, propagation_policy)

    def delete_namespaced_service(self, name: str, namespace: str) -> None:
        self._do("delete service", name, namespace)

    def list_namespaced_custom_object(self, *place: str, label_selector: str) -> Any:
        self._do("list", *place, label_selector)
        return {"items": self._get("custom")}

    def get_namespaced_custom_object(self, *place: str) -> Any:
        self._do("get", *place)
        return self._get(place[-1])

    def create_namespaced_custom_object(self, *place: Any) -> None:
        self._do("create", *place)

    def delete_namespaced_custom_object(self, *place: str, propagation_policy: str) -> None:
        self._do("delete", *place, propagation_policy)


def objects_of(cluster: Any) -> JobObjects:
    return JobObjects(cluster, "ns", "key", TEST)


def sets_of(cluster: Any) -> JobSetObjects:
    return JobSetObjects(cluster, "ns", "key", TestDefinition.model_validate({**dict(TEST), "job_set": {"slices": 2}}))


@pytest.fixture(autouse=True)
def _custom_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the clients of other objects are made of is the cluster itself."""
    for api in ("CustomObjectsApi", "BatchV1Api"):
        monkeypatch.setattr(f"ml_metrics.airflow.operators.objects.{api}", lambda cluster: cluster)


def cluster_of(**has: Any) -> Cluster:
    made = Cluster(**has)
    made.api_client = made  # type: ignore[assignment]
    return made


def job(name: str, day: int, *, deleted: bool = False) -> Any:
    at = datetime(2026, 1, day, tzinfo=UTC)
    return SimpleNamespace(
        metadata=SimpleNamespace(name=name, creation_timestamp=at, deletion_timestamp=at if deleted else None)
    )


def job_set(name: str, day: int, *, deleted: bool = False) -> dict[str, Any]:
    at = f"2026-01-{day:02}T00:00:00Z"
    return {"metadata": {"name": name, "creationTimestamp": at, **({"deletionTimestamp": at} if deleted else {})}}


def pod(host: int, state: dict[str, Any] | None = None) -> dict[str, Any]:
    statuses = {"containerStatuses": [{"name": "base", "state": state}]} if state else {}
    return {
        "metadata": {"name": f"p{host}", "uid": f"u{host}", "annotations": {INDEX: str(host)}},
        "status": {"phase": "Running" if state else "Pending", **statuses},
    }


def test_what_is_being_deleted_is_not_there() -> None:
    jobs = [job("first", 1), job("newest", 3), job("second", 2), job("going", 4, deleted=True)]
    assert objects_of(cluster_of(jobs=jobs)).is_there()
    assert not objects_of(cluster_of(jobs=jobs[3:])).is_there()
    sets = [job_set("first", 1), job_set("newest", 3), job_set("second", 2), job_set("going", 4, deleted=True)]
    assert sets_of(cluster_of(custom=sets)).is_there()
    assert not sets_of(cluster_of(custom=sets[3:])).is_there()


def test_a_service_is_the_job_s_and_goes_with_it() -> None:
    indexed = SimpleNamespace(metadata=SimpleNamespace(uid="u1"), spec=SimpleNamespace(completion_mode="Indexed"))
    cluster = cluster_of(j=indexed)
    objects_of(cluster).create(JOB)
    objects_of(cluster).adopt("j")
    (_, namespace, name, labels), created, patched = cluster.done
    assert created == ("create job", "ns", JOB)
    assert (namespace, name, labels[RUN_KEY]) == ("ns", "j", "key")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u1"}
    assert patched == ("patch service", "j", "ns", {"metadata": {"ownerReferences": [owner]}})


def test_a_cluster_without_indexed_jobs_is_refused_and_keeps_no_service() -> None:
    old = SimpleNamespace(metadata=SimpleNamespace(uid="u1"), spec=SimpleNamespace(completion_mode=None))
    cluster = cluster_of(j=old)
    with pytest.raises(ConfigError, match=r"^j: this cluster has no Indexed Jobs.* use Kubernetes 1\.24 or later"):
        objects_of(cluster).adopt("j")
    assert [name for name, *_ in cluster.done] == ["patch service"], "the cluster removes it with its Job"


@pytest.mark.parametrize(("status", "is_error"), [(409, False), (404, True), (403, True), (500, True)])
def test_a_service_that_an_earlier_process_has_made_is_there(status: int, is_error: bool) -> None:
    cluster = cluster_of()
    cluster.refused["create service"] = status
    with pytest.raises(ApiException) if is_error else nullcontext():
        objects_of(cluster).create(JOB)


def test_a_quota_that_many_requests_change_at_once_makes_no_service() -> None:
    cluster = cluster_of()
    cluster.refused["create service"], cluster.why = 409, "Conflict"
    with pytest.raises(ApiException):
        objects_of(cluster).create(JOB)


@pytest.mark.parametrize(("status", "is_error"), [(404, False), (409, True), (403, True), (500, True)])
@pytest.mark.parametrize("kind", ["delete job", "delete service", "delete"])
def test_what_is_gone_already_needs_no_removal(kind: str, status: int, is_error: bool) -> None:
    services = [SimpleNamespace(metadata=SimpleNamespace(name=name)) for name in ("s1", "s2")]
    cluster = cluster_of(jobs=[job("j1", 1), job("j2", 2, deleted=True)], services=services, custom=[job_set("a", 1)])
    cluster.refused[kind] = status
    with pytest.raises(ApiException) if is_error else nullcontext():
        (sets_of if kind == "delete" else objects_of)(cluster).remove_all()
    assert all(name != kind for name, *_ in cluster.done)


def test_every_job_and_service_of_a_run_is_removed() -> None:
    services = [SimpleNamespace(metadata=SimpleNamespace(name=name)) for name in ("s1", "s2")]
    cluster = cluster_of(jobs=[job("j1", 1), job("j2", 2, deleted=True)], services=services)
    objects_of(cluster).remove_all()
    assert cluster.done == [
        ("delete job", "j1", "ns", "Background"),
        ("delete job", "j2", "ns", "Background"),
        ("delete service", "s1", "ns"),
        ("delete service", "s2", "ns"),
    ]


PLACE = ("jobset.x-k8s.io", "v1alpha2", "ns", "jobsets")


def test_every_job_set_of_a_run_is_removed() -> None:
    cluster = cluster_of(custom=[job_set("a", 1), job_set("b", 2)])
    sets_of(cluster).remove_all()
    assert cluster.done == [
        ("list", *PLACE, f"{RUN_KEY}=key"),
        ("delete", *PLACE, "a", "Background"),
        ("delete", *PLACE, "b", "Background"),
    ]


@pytest.mark.parametrize(("status", "error"), [(404, ConfigError), (403, ApiException), (500, ApiException)])
def test_a_cluster_that_does_not_know_job_sets_is_no_place_for_them(status: int, error: type[Exception]) -> None:
    cluster = cluster_of()
    cluster.refused |= {"create": status, "list": status}
    with pytest.raises(error, match="install the JobSet controller" if error is ConfigError else str(status)):
        sets_of(cluster).create(job_of(TEST))
    with pytest.raises(error, match="install the JobSet controller" if error is ConfigError else str(status)):
        sets_of(cluster).is_there()
    cluster.refused.clear()
    sets_of(cluster).create(job_of(TEST))
    ((*place, body),) = cluster.done
    assert (place, body["kind"]) == (["create", *PLACE], "JobSet")


def event(uid: str) -> dict[str, Any]:
    return {"reason": "FailedScheduling", "message": f"about {uid}", "involvedObject": {"uid": uid, "kind": "Pod"}}


def test_events_are_read_on_request_of_the_job_and_of_the_first_hosts_that_have_not_started() -> None:
    read = {"metadata": {"name": "j", "uid": "job"}, "spec": {"completions": 8}, "status": {}}
    pods = [pod(0, STARTED), *(pod(host) for host in range(1, 8))]
    cluster = cluster_of(j=read, pods=pods, events=[event("job"), event("u0"), event("u1"), event("u5"), event("u6")])
    found = objects_of(cluster).read("j")
    assert (found.job, found.pods, found.events, found.admission) == (read, tuple(pods), (), None)
    assert cluster.done == [("pods", "ns", "job-name=j")]
    found = objects_of(cluster).read("j", with_events=True)
    assert [one["message"] for one in found.events] == ["about job", "about u1", "about u5"], "of five hosts at most"
    assert [name for name, *_ in cluster.done].count("list") == 0, "no queue is asked about a Job that has begun"


@pytest.mark.parametrize(("status", "is_error"), [(403, False), (404, False), (500, True), (401, True)])
def test_what_the_queue_decides_is_read_for_a_suspended_job_where_airflow_may(status: int, is_error: bool) -> None:
    read = {"metadata": {"name": "j", "uid": "job"}, "spec": {"suspend": True}, "status": {}}
    cluster = cluster_of(j=read, custom=[{"metadata": {"name": "workload"}}, {"metadata": {"name": "another"}}])
    assert objects_of(cluster).read("j", with_events=True).admission == {"metadata": {"name": "workload"}}
    assert cluster.done[-1] == ("list", "kueue.x-k8s.io", "v1beta1", "ns", "workloads", "kueue.x-k8s.io/job-uid=job")
    assert objects_of(cluster_of(j=read)).read("j", with_events=True).admission is None
    cluster.refused["list"] = status
    with pytest.raises(ApiException) if is_error else nullcontext():
        assert objects_of(cluster).read("j", with_events=True).admission is None


FAILED, SUSPENDED = {"type": "Failed", "status": "True"}, {"type": "Suspended", "status": "False"}


@pytest.mark.parametrize(
    ("conditions", "phases", "lost"),
    [
        ([SUSPENDED, FAILED], [], True),
        ([FAILED], ["Running", "Succeeded", None], True),
        ([FAILED], ["Running", "Failed"], False),
        ([{**FAILED, "status": "False"}], [], False),
        ([{**FAILED, "type": "Complete"}], [], False),
        ([], [], False),
        (None, [], False),
    ],
)
def test_a_failed_job_without_a_failed_pod_has_lost_it(conditions: Any, phases: list[Any], lost: bool) -> None:
    status = None if conditions is None else {"conditions": conditions}
    read = {"metadata": {"name": "j", "uid": "job"}, "spec": {}, "status": status}
    pods = [pod(host, STARTED) for host in range(len(phases))]
    for one, phase in zip(pods, phases, strict=True):
        one["status"] = {**one["status"], "phase": phase} if phase else None
    cluster = cluster_of(j=read, pods=pods)
    objects_of(cluster).read("j", with_events=True)
    assert any("reason=" in selector for kind, _, selector in cluster.done if kind == "events") is lost


def test_a_job_set_is_read_as_one_job_with_the_hosts_of_all_slices() -> None:
    spec = {"replicatedJobs": [{"replicas": 2, "template": {"spec": {"completions": 1}}}]}
    read = {"metadata": {"name": "s", "uid": "set"}, "spec": spec, "status": {}}
    pods = [pod(0), pod(0, STARTED)]
    for number, one in enumerate(pods):
        one["metadata"].update(uid=f"u{number}", labels={SLICE_LABEL: str(number)})
    cluster = cluster_of(s=read, pods=pods, events=[event("set"), event("u0"), event("u1")])
    found = sets_of(cluster).read("s")
    assert (found.count, [one["metadata"]["uid"] for one in found.pods], found.events) == (2, ["u0", "u1"], ())
    assert cluster.done == [("get", *PLACE, "s"), ("pods", "ns", f"{NAME_LABEL}=s")]
    told = sets_of(cluster).read("s", with_events=True).events
    assert [one["message"] for one in told] == ["about set", "about u0"]
