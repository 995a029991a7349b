"""Pods that the cluster ends: evicted, preempted, shut down. Their status names the disruption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import ApiException

from harness import NAMESPACE, connect, wait_for
from local_kube import LocalCluster, Node
from local_kube.pods.scheduling import pods_to_preempt

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Pods

FILL = "head -c 3000000 /dev/urandom > {file}; exec sleep 600"


def disruption(pod: Any) -> Any:
    return next((entry for entry in pod.status.conditions or [] if entry.type == "DisruptionTarget"), None)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"emptyDir": {"sizeLimit": "1Mi"}}, 'Usage of EmptyDir volume "data" exceeds the limit "1Mi".'),
        ({"limit": "2Mi"}, 'Container base exceeded its local ephemeral storage limit "2Mi".'),
    ],
)
def test_a_pod_above_its_disk_limit_is_evicted(pods: Pods, limit: dict[str, Any], message: str) -> None:
    if "emptyDir" in limit:
        script, options = FILL.format(file="/data/file"), {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        spec = {"volumes": [{"name": "data", **limit}]}
    else:
        script, options = FILL.format(file="file"), {"resources": {"limits": {"ephemeral-storage": limit["limit"]}}}
        spec = {}
    pod = pods.run("sh", "-c", script, spec=spec, **options)
    assert (pod.status.phase, pod.status.reason, pod.status.message.strip()) == ("Failed", "Evicted", message)
    assert pods.terminated(pod).exit_code == 137
    assert disruption(pod).reason == "TerminationByKubelet"
    assert "Evicted" in pods.reasons(pod.metadata.name)


def test_a_pod_below_its_disk_limit_succeeds(pods: Pods) -> None:
    volumes = [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]
    mounts = [{"name": "data", "mountPath": "/data"}]
    script = "head -c 500000 /dev/urandom > /data/file; sleep 2"
    assert pods.run("sh", "-c", script, spec={"volumes": volumes}, volumeMounts=mounts).status.phase == "Succeeded"


def test_a_pod_is_evicted_through_the_api(pods: Pods) -> None:
    name = pods.create("sh", "-c", "trap 'sleep 0.5; exit 0' TERM; while true; do sleep 0.05; done")
    pods.until(name, "Running")
    pods.core.create_namespaced_pod_eviction(name, NAMESPACE, {"metadata": {"name": name, "namespace": NAMESPACE}})
    leaving = pods.get(name)
    assert leaving.metadata.deletion_timestamp
    assert disruption(leaving).reason == "EvictionByEvictionAPI"
    pods.gone(name)
    with pytest.raises(ApiException, match="not found"):
        pods.core.create_namespaced_pod_eviction(name, NAMESPACE, {"metadata": {"name": name}})


def test_a_pod_preempts_less_urgent_ones(tmp_path: Path, image_folder: Path) -> None:
    cluster = LocalCluster(str(tmp_path / "cluster"), str(image_folder), node=Node(max_pods=2))
    pods = connect(cluster)
    try:
        older = pods.create("sleep", "600", spec={"priority": 5})
        script = "trap 'sleep 0.5; exit 0' TERM; while true; do sleep 0.05; done"
        less_urgent = pods.create("sh", "-c", script)
        pods.until(less_urgent, "Running")
        urgent = pods.create("sleep", "600", spec={"priority": 9})
        wait_for(lambda: disruption(pods.get(less_urgent)))
        assert disruption(pods.get(less_urgent)).reason == "PreemptionByScheduler"
        assert "Preempted" in pods.reasons(less_urgent)
        pods.until(urgent, "Running")
        assert pods.get(older).status.phase == "Running"
        pods.gone(less_urgent)
    finally:
        cluster.stop()


def test_a_pod_ended_by_a_shutdown_has_a_disruption_condition(own: Pods) -> None:
    name = own.create("sleep", "600")
    own.until(name, "Running")
    own.cluster.stop()
    own.cluster.ensure_running()
    assert disruption(own.get(name)).reason == "TerminationByKubelet"


def pod(name: str, priority: int, cpu: int = 1, **spec: Any) -> dict[str, Any]:
    container = {"name": "base", "resources": {"requests": {"cpu": cpu}}}
    whole = {"containers": [container], "priority": priority, **spec}
    return {"metadata": {"name": name}, "spec": whole, "status": {"phase": "Running"}}


def test_no_more_pods_are_preempted_than_necessary() -> None:
    node = Node(resources={"cpu": 4})
    placed = [pod("a", 1), pod("b", 0), pod("c", 0), pod("d", 9)]

    def preempted(wanted: dict[str, Any]) -> list[str]:
        return [other["metadata"]["name"] for other in pods_to_preempt(wanted, placed, node)]

    assert preempted(pod("x", 5)) == ["c"]
    assert preempted(pod("x", 5, cpu=3)) == ["c", "b", "a"]
    assert preempted(pod("x", 5, cpu=4)) == []
    assert preempted(pod("x", 5, preemptionPolicy="Never")) == []
    assert preempted(pod("x", 0)) == []
    placed[2]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert preempted(pod("x", 5)) == [], "a pod is being deleted already"
