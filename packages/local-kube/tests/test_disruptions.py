"""Pods that the cluster ends: evicted, preempted, shut down. The status says that it was not their own doing."""

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

FILL = "head -c 3000000 /dev/urandom > {place}; exec sleep 600"


def disruption(pod: Any) -> Any:
    return next((entry for entry in pod.status.conditions or [] if entry.type == "DisruptionTarget"), None)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"emptyDir": {"sizeLimit": "1Mi"}}, 'Usage of EmptyDir volume "data" exceeds the limit "1Mi".'),
        ({"limit": "2Mi"}, 'Container base exceeded its local ephemeral storage limit "2Mi".'),
    ],
)
def test_who_takes_more_disk_than_agreed_is_evicted(pods: Pods, where: dict[str, Any], words: str) -> None:
    if "emptyDir" in where:
        script, options = FILL.format(place="/data/file"), {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        spec = {"volumes": [{"name": "data", **where}]}
    else:
        script, options = FILL.format(place="file"), {"resources": {"limits": {"ephemeral-storage": where["limit"]}}}
        spec = {}
    pod = pods.run("sh", "-c", script, spec=spec, **options)
    assert (pod.status.phase, pod.status.reason, pod.status.message.strip()) == ("Failed", "Evicted", words)
    assert pods.terminated(pod).exit_code == 137
    assert disruption(pod).reason == "TerminationByKubelet"
    assert "Evicted" in pods.reasons(pod.metadata.name)


def test_who_stays_within_the_agreed_disk_is_left_alone(pods: Pods) -> None:
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


def test_the_urgent_take_the_place_of_others(tmp_path: Path, image_folder: Path) -> None:
    cluster = LocalCluster(str(tmp_path / "cluster"), str(image_folder), node=Node(max_pods=2))
    pods = connect(cluster)
    try:
        older = pods.create("sleep", "600", spec={"priority": 5})
        script = "trap 'sleep 0.5; exit 0' TERM; while true; do sleep 0.05; done"
        lesser = pods.create("sh", "-c", script)
        pods.until(lesser, "Running")
        urgent = pods.create("sleep", "600", spec={"priority": 9})
        wait_for(lambda: disruption(pods.get(lesser)))
        assert disruption(pods.get(lesser)).reason == "PreemptionByScheduler"
        assert "Preempted" in pods.reasons(lesser)
        pods.until(urgent, "Running")
        assert pods.get(older).status.phase == "Running"
        pods.gone(lesser)
    finally:
        cluster.stop()


def test_a_shut_down_node_says_that_it_was_the_node(own: Pods) -> None:
    name = own.create("sleep", "600")
    own.until(name, "Running")
    own.cluster.stop()
    own.cluster.ensure_running()
    assert disruption(own.get(name)).reason == "TerminationByKubelet"


def pod(name: str, priority: int, cpu: int = 1, **spec: Any) -> dict[str, Any]:
    container = {"name": "base", "resources": {"requests": {"cpu": cpu}}}
    whole = {"containers": [container], "priority": priority, **spec}
    return {"metadata": {"name": name}, "spec": whole, "status": {"phase": "Running"}}


def test_no_more_pods_give_way_than_need_to_and_none_in_vain() -> None:
    node = Node(resources={"cpu": 4})
    placed = [pod("a", 1), pod("b", 0), pod("c", 0), pod("d", 9)]

    def give_way(wanted: dict[str, Any]) -> list[str]:
        return [other["metadata"]["name"] for other in pods_to_preempt(wanted, placed, node)]

    assert give_way(pod("x", 5)) == ["c"]
    assert give_way(pod("x", 5, cpu=3)) == ["c", "b", "a"]
    assert give_way(pod("x", 5, cpu=4)) == []
    assert give_way(pod("x", 5, preemptionPolicy="Never")) == []
    assert give_way(pod("x", 0)) == []
    placed[2]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert give_way(pod("x", 5)) == [], "somebody is leaving already"
