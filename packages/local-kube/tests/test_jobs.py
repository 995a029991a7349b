"""Jobs, through the Kubernetes client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import ApiException, BatchV1Api

from harness import NAMESPACE, NUMBERS, wait_for

if TYPE_CHECKING:
    from harness import Pods

SLEEPER = ("sleep", "600")


class Jobs:
    """The Jobs of one cluster, with short calls for tests."""

    def __init__(self, pods: Pods) -> None:
        self.all_pods = pods
        self.batch = BatchV1Api(pods.core.api_client)

    def create(self, *argv: str, pod: dict[str, Any] | None = None, **spec: Any) -> str:
        name = f"job-{next(NUMBERS)}"
        base = {"name": "base", "image": "python", "command": [*argv]}
        template = {"spec": {"restartPolicy": "Never", "containers": [base], **(pod or {})}}
        self.batch.create_namespaced_job(
            NAMESPACE, {"metadata": {"name": name}, "spec": {"template": template, **spec}}
        )
        return name

    def get(self, name: str) -> Any:
        return self.batch.read_namespaced_job_status(name, NAMESPACE)

    def holds(self, name: str, kind: str) -> Any:
        conditions = self.get(name).status.conditions or []
        return next((entry for entry in conditions if entry.type == kind and entry.status == "True"), None)

    def until(self, name: str, kind: str) -> Any:
        """Wait for a condition and return the Job."""
        wait_for(lambda: self.holds(name, kind))
        return self.get(name)

    def pods(self, name: str) -> list[Any]:
        return list(self.all_pods.core.list_namespaced_pod(NAMESPACE, label_selector=f"job-name={name}").items)

    def running(self, name: str, count: int) -> list[Any]:
        def found() -> list[Any]:
            return [pod for pod in self.pods(name) if pod.status.phase == "Running"]

        wait_for(lambda: len(found()) == count)
        return found()

    def delete(self, name: str, policy: str | None = "Background") -> None:
        options = {"propagation_policy": policy} if policy else {}
        self.batch.delete_namespaced_job(name, NAMESPACE, **options, grace_period_seconds=0)

    def gone(self, name: str) -> None:
        wait_for(lambda: name not in [job.metadata.name for job in self.batch.list_namespaced_job(NAMESPACE).items])


@pytest.fixture
def jobs(pods: Pods) -> Jobs:
    return Jobs(pods)


def test_a_job_runs_one_pod_and_is_complete(jobs: Jobs) -> None:
    name = jobs.create("sh", "-c", "echo done")
    (pod,) = jobs.pods(name)  # created before the response, so that a client finds it at once
    assert pod.metadata.name.startswith(f"{name}-")
    assert pod.metadata.labels["batch.kubernetes.io/job-name"] == name
    (owner,) = pod.metadata.owner_references
    assert (owner.kind, owner.name, owner.controller) == ("Job", name, True)
    job = jobs.until(name, "Complete")
    assert (job.status.succeeded, job.status.failed, job.status.active) == (1, None, None)
    assert job.status.completion_time >= job.status.start_time
    assert jobs.all_pods.log(pod.metadata.name) == "done\n"
    assert jobs.all_pods.reasons(name) == ["SuccessfulCreate", "Completed"]


def test_each_pod_of_an_indexed_job_has_its_index(jobs: Jobs) -> None:
    script = "echo $JOB_COMPLETION_INDEX $HOSTNAME"
    name = jobs.create("sh", "-c", script, completions=3, parallelism=3, completionMode="Indexed")
    job = jobs.until(name, "Complete")
    assert (job.status.succeeded, job.status.completed_indexes) == (3, "0-2")
    logs = sorted(jobs.all_pods.log(pod.metadata.name) for pod in jobs.pods(name))
    assert logs == [f"{index} {name}-{index}\n" for index in range(3)]
    label = "batch.kubernetes.io/job-completion-index"
    assert sorted(pod.metadata.labels[label] for pod in jobs.pods(name)) == ["0", "1", "2"]


def test_no_more_pods_than_may_run_at_once(jobs: Jobs) -> None:
    name = jobs.create("sleep", "0.3", completions=3, parallelism=1)
    maximum = 0

    def complete() -> bool:
        nonlocal maximum
        maximum = max(maximum, sum(pod.status.phase in {"Pending", "Running"} for pod in jobs.pods(name)))
        return bool(jobs.holds(name, "Complete"))

    wait_for(complete)
    assert (maximum, jobs.get(name).status.succeeded, len(jobs.pods(name))) == (1, 3, 3)


def test_without_retries_one_failed_pod_fails_the_job_and_ends_the_others(jobs: Jobs) -> None:
    script = "test $JOB_COMPLETION_INDEX = 1 && exit 3; sleep 600"
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimit": 0}
    name = jobs.create("sh", "-c", script, **spec)
    job = jobs.until(name, "Failed")
    assert jobs.holds(name, "Failed").reason == "BackoffLimitExceeded"
    assert job.status.active is None
    (left,) = jobs.pods(name)
    assert left.status.container_statuses[0].state.terminated.exit_code == 3
    assert "BackoffLimitExceeded" in jobs.all_pods.reasons(name)


def test_a_failed_pod_is_retried_after_the_back_off(jobs: Jobs) -> None:
    name = jobs.create("sh", "-c", "exit 1", backoffLimit=1)
    wait_for(lambda: jobs.get(name).status.failed == 1)
    assert len(jobs.pods(name)) == 1  # the second one waits for ten seconds
    jobs.until(name, "Failed")
    first, second = sorted(jobs.pods(name), key=lambda pod: pod.metadata.creation_timestamp)
    waited = second.metadata.creation_timestamp - first.status.container_statuses[0].state.terminated.finished_at
    assert waited.total_seconds() >= 9


def test_a_deadline_ends_every_pod(jobs: Jobs) -> None:
    spec = {"terminationGracePeriodSeconds": 1}
    name = jobs.create(*SLEEPER, activeDeadlineSeconds=1, parallelism=2, completions=2, pod=spec)
    jobs.until(name, "Failed")
    assert jobs.holds(name, "Failed").reason == "DeadlineExceeded"
    assert jobs.pods(name) == []


def test_a_job_can_be_suspended_and_resumed(jobs: Jobs) -> None:
    name = jobs.create(*SLEEPER, suspend=True, pod={"terminationGracePeriodSeconds": 1}, backoffLimit=0)
    jobs.until(name, "Suspended")
    assert jobs.pods(name) == []
    assert jobs.get(name).status.start_time is None
    for _ in range(2):
        jobs.batch.patch_namespaced_job(name, NAMESPACE, {"spec": {"suspend": False}})
        jobs.running(name, 1)
        jobs.batch.patch_namespaced_job(name, NAMESPACE, {"spec": {"suspend": True}})
        wait_for(lambda: not jobs.pods(name))
    assert jobs.get(name).status.failed is None  # a pod that the Job itself stopped does not count as failed
    jobs.delete(name)


def test_a_pod_deleted_by_a_client_counts_as_failed(jobs: Jobs) -> None:
    name = jobs.create(*SLEEPER, backoffLimit=0, pod={"terminationGracePeriodSeconds": 1})
    (pod,) = jobs.running(name, 1)
    jobs.all_pods.delete(pod.metadata.name)
    assert jobs.until(name, "Failed").status.failed == 1


def test_the_names_of_pods_below_a_service_are_resolved(jobs: Jobs) -> None:
    core = jobs.all_pods.core
    core.create_namespaced_service(NAMESPACE, {"metadata": {"name": "workers"}, "spec": {"clusterIP": "None"}})
    script = "echo $(MASTER) myworkers.org a.workers.other.svc job-0.workers.default.svc.cluster.local:80"
    base = {"name": "base", "image": "python", "command": ["sh", "-c", script]}
    base["env"] = [{"name": "MASTER", "value": "job-0.workers"}]
    name = jobs.create(completions=1, completionMode="Indexed", pod={"subdomain": "workers", "containers": [base]})
    jobs.until(name, "Complete")
    (pod,) = jobs.pods(name)
    expected = "127.0.0.1 myworkers.org a.workers.other.svc 127.0.0.1:80\n"
    assert jobs.all_pods.log(pod.metadata.name) == expected
    core.delete_namespaced_service("workers", NAMESPACE)
    with pytest.raises(ApiException, match="headless"):
        core.create_namespaced_service(NAMESPACE, {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_deleting_a_job_deletes_its_dependents(jobs: Jobs, policy: str) -> None:
    core = jobs.all_pods.core
    name = jobs.create(*SLEEPER, parallelism=2, completions=2, pod={"terminationGracePeriodSeconds": 1})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": jobs.get(name).metadata.uid}
    metadata = {"name": f"of-{name}", "ownerReferences": [owner]}
    core.create_namespaced_service(NAMESPACE, {"metadata": metadata, "spec": {"clusterIP": "None"}})
    jobs.running(name, 2)
    jobs.delete(name, policy)
    jobs.gone(name)
    assert policy == "Background" or not jobs.pods(name)
    wait_for(lambda: not jobs.pods(name))
    assert core.list_namespaced_service(NAMESPACE).items == []


@pytest.mark.parametrize("policy", ["Orphan", None])
def test_the_policy_orphan_keeps_the_pods_and_is_the_default(jobs: Jobs, policy: str | None) -> None:
    name = jobs.create(*SLEEPER)
    jobs.running(name, 1)
    jobs.delete(name, policy)
    jobs.gone(name)
    (pod,) = jobs.running(name, 1)
    assert not pod.metadata.owner_references
    jobs.all_pods.delete(pod.metadata.name)


def test_a_job_is_deleted_after_its_time_to_live(jobs: Jobs) -> None:
    name = jobs.create("true", ttlSecondsAfterFinished=1)
    jobs.until(name, "Complete")
    jobs.gone(name)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"completionMode": "Indexed", "parallelism": 2}, "when completion mode is Indexed"),
        ({"parallelism": -1}, "must be greater than or equal to 0"),
        ({"successPolicy": {"rules": []}}, "does not support it"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "not auto-generated"),
        ({"pod": {"restartPolicy": "Always"}}, "restartPolicy"),
        ({"pod": {"containers": []}}, "spec.containers"),
    ],
)
def test_an_invalid_job_is_rejected(jobs: Jobs, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ApiException, match=message) as refused:
        jobs.create("true", **wrong)
    assert refused.value.status == 422


def test_invalid_templates_and_owners_are_rejected_at_once(jobs: Jobs) -> None:
    invalid = {"name": "base", "image": "python", "command": ["true"], "env": [{"value": "no name"}]}
    with pytest.raises(ApiException, match=r"spec.containers\[0\].env\[0\].name: Required value"):
        jobs.create(completions=1, completionMode="Indexed", pod={"containers": [invalid]})
    owned = {"metadata": {"name": "owned", "ownerReferences": [{"kind": "Job"}]}, "spec": {"clusterIP": "None"}}
    with pytest.raises(ApiException, match=r"ownerReferences\[0\].apiVersion: Required value"):
        jobs.all_pods.core.create_namespaced_service(NAMESPACE, owned)


def test_the_spec_of_a_job_is_immutable(jobs: Jobs) -> None:
    name = jobs.create(*SLEEPER)
    for change in ({"completions": 4}, {"template": {"spec": {"hostname": "other"}}}, {"completionMode": "Indexed"}):
        with pytest.raises(ApiException, match="immutable"):
            jobs.batch.patch_namespaced_job(name, NAMESPACE, {"spec": change})
    with pytest.raises(ApiException, match="already exists"):
        jobs.batch.create_namespaced_job(NAMESPACE, {"metadata": {"name": name}, "spec": MINIMAL})
    jobs.delete(name)


MINIMAL = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "base", "image": "python"}]}}}
