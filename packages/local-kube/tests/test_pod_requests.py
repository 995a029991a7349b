"""Requests for pods: create, select, change, watch and delete."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from kubernetes import watch
from kubernetes.client import ApiException

from harness import NAMESPACE, wait_for

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from harness import Pods


def test_a_name_can_be_used_once(pods: Pods) -> None:
    name = pods.create("true")
    with pytest.raises(ApiException, match="already exists") as caught:
        pods.create("true", name=name)
    assert caught.value.status == 409
    pods.delete(name)
    assert pods.ended(pods.create("true", name=name))


def secret_at(path: str) -> dict[str, Any]:
    return {"name": "keys", "secret": {"secretName": "keys", "items": [{"key": "token", "path": path}]}}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "Upper"}, "metadata.name"),
        ({"spec": {"containers": []}}, "spec.containers: Required value"),
        ({"spec": {"restartPolicy": "Sometimes"}}, "spec.restartPolicy"),
        ({"spec": {"activeDeadlineSeconds": 0}}, "spec.activeDeadlineSeconds"),
        ({"volumeMounts": [{"name": "ghost", "mountPath": "/x"}]}, "volumeMounts: Not found"),
        ({"resources": {"limits": {"memory": "lots"}}}, "is not a quantity"),
        ({"spec": {"volumes": [{"name": "../../..", "emptyDir": {}}]}}, "spec.volumes[0].name"),
        ({"spec": {"volumes": [secret_at("../x")]}}, "spec.volumes[0].secret.items"),
        ({"spec": {"volumes": [secret_at("/etc/x")]}}, "spec.volumes[0].secret.items"),
        ({"volumeMounts": [{"name": "ghost", "mountPath": "/x", "subPath": "a/../.."}]}, "volumeMounts.subPath"),
    ],
)
def test_an_invalid_pod_is_rejected(pods: Pods, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ApiException) as caught:
        pods.create("true", **change)
    assert caught.value.status == 422
    assert reason in caught.value.body


def test_pods_are_found_by_labels_and_fields(pods: Pods) -> None:
    wanted = pods.run("true", name="wanted")
    pods.core.patch_namespaced_pod("wanted", NAMESPACE, {"metadata": {"labels": {"team": "vision"}}})

    def found(**selectors: str) -> list[str]:
        return [pod.metadata.name for pod in pods.core.list_namespaced_pod(NAMESPACE, **selectors).items]

    assert found(label_selector="team=vision,test in (yes, no),!other") == ["wanted"]
    assert found(label_selector="team notin (vision)", field_selector="metadata.name=wanted") == []
    assert found(field_selector=f"metadata.name=wanted,status.phase={wanted.status.phase}") == ["wanted"]
    assert [pod.metadata.name for pod in pods.core.list_pod_for_all_namespaces(label_selector="team").items] == [
        "wanted"
    ]
    with pytest.raises(ApiException, match="unable to parse"):
        found(label_selector="a b")


def test_labels_and_annotations_can_change_and_other_fields_cannot(pods: Pods) -> None:
    name = pods.create("sleep", "600")
    patched = pods.core.patch_namespaced_pod(name, NAMESPACE, {"metadata": {"labels": {"test": None, "new": "1"}}})
    assert patched.metadata.labels == {"new": "1"}
    with pytest.raises(ApiException, match="pod updates may not change fields"):
        pods.core.patch_namespaced_pod(name, NAMESPACE, {"spec": {"containers": [{"name": "base", "image": "other"}]}})
    with pytest.raises(ApiException, match="field is immutable"):
        pods.core.patch_namespaced_pod(name, NAMESPACE, {"metadata": {"uid": "another"}})
    with pytest.raises(ApiException, match="the object has been modified"):
        pods.core.patch_namespaced_pod(name, NAMESPACE, {"metadata": {"resourceVersion": "1"}})
    assert pods.get(name).status.phase in {"Pending", "Running"}, "a client cannot write the status"
    pods.delete(name)


def test_a_pod_is_replaced_if_its_version_is_current(pods: Pods) -> None:
    name = pods.create("sleep", "600")
    pods.until(name, "Running")
    current = pods.core.api_client.sanitize_for_serialization(pods.get(name))
    current["metadata"]["labels"] = {"replaced": "yes"}
    assert pods.core.replace_namespaced_pod(name, NAMESPACE, current).metadata.labels == {"replaced": "yes"}
    with pytest.raises(ApiException, match="the object has been modified"):
        pods.core.replace_namespaced_pod(name, NAMESPACE, current)
    pods.delete(name)


def test_a_json_patch_is_a_list_of_operations(pods: Pods) -> None:
    name = pods.create("true")
    added = [
        {"op": "add", "path": "/metadata/labels/a~1b", "value": "c"},
        {"op": "remove", "path": "/metadata/labels/test"},
    ]
    assert pods.core.patch_namespaced_pod(name, NAMESPACE, added).metadata.labels == {"a/b": "c"}
    with pytest.raises(ApiException, match="the server rejected our request"):
        pods.core.patch_namespaced_pod(name, NAMESPACE, [{"op": "remove", "path": "/metadata/labels/ghost"}])


def test_a_watch_reports_a_pod_from_creation_to_deletion(pods: Pods) -> None:
    version = pods.core.list_namespaced_pod(NAMESPACE).metadata.resource_version
    seen: list[tuple[str, str]] = []

    def look() -> None:
        stream = watch.Watch().stream(
            pods.core.list_namespaced_pod,
            NAMESPACE,
            resource_version=version,
            field_selector="metadata.name=watched",
            timeout_seconds=60,
        )
        for event in stream:
            seen.append((event["type"], event["object"].status.phase))
            if event["type"] == "DELETED":
                return

    watcher = threading.Thread(target=look)
    watcher.start()
    pods.run("true", name="watched")
    pods.delete("watched")
    watcher.join(60)
    assert seen[0] == ("ADDED", "Pending")
    assert ("MODIFIED", "Succeeded") in seen
    assert seen[-1] == ("DELETED", "Succeeded")


def test_a_watch_from_an_old_version_ends_with_410(pods: Pods) -> None:
    with pytest.raises(ApiException, match="too old resource version") as caught:
        list(watch.Watch().stream(pods.core.list_namespaced_pod, NAMESPACE, resource_version="1", timeout_seconds=5))
    assert caught.value.status == 410


def test_a_deleted_pod_gets_its_grace_period(pods: Pods, tmp_path: Path) -> None:
    script = "trap 'sleep 0.3; echo tidy > /data/end; exit 0' TERM; echo ready; while true; do sleep 0.05; done"
    name = pods.create(
        *("sh", "-c", script),
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
        spec={"volumes": [{"name": "data", "hostPath": {"path": str(tmp_path / "kept")}}]},
    )
    wait_for(lambda: pods.get(name).status.phase == "Running" and pods.log(name))
    pods.core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=60)
    assert pods.get(name).metadata.deletion_timestamp is not None
    pods.gone(name)
    assert (tmp_path / "kept" / "end").read_text() == "tidy\n"


def test_a_program_that_ignores_sigterm_is_killed_after_the_grace_period(pods: Pods) -> None:
    name = pods.create("sh", "-c", "trap '' TERM; echo ready; while true; do sleep 0.05; done")
    wait_for(lambda: pods.get(name).status.phase == "Running" and pods.log(name))
    begun = time.monotonic()
    pods.delete(name, grace=1)
    assert time.monotonic() - begun > 0.9


def test_a_second_deletion_can_shorten_the_grace_period(pods: Pods) -> None:
    name = pods.create("sh", "-c", "trap '' TERM; echo ready; while true; do sleep 0.05; done")
    wait_for(lambda: pods.get(name).status.phase == "Running" and pods.log(name))
    pods.core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=3600)
    pods.delete(name, grace=0)


def test_the_files_of_a_deleted_pod_are_removed(pods: Pods) -> None:
    pod = pods.run("true")
    folder = pods.root / "pods" / pod.metadata.uid
    assert folder.is_dir()
    pods.delete(pod.metadata.name)
    assert not folder.exists()


def test_pods_of_other_namespaces_are_separate(pods: Pods) -> None:
    body = {
        "metadata": {"name": "elsewhere"},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "x", "command": ["true"]}]},
    }
    pods.core.create_namespaced_pod("team-a", body)
    with pytest.raises(ApiException, match='pods \\\\"elsewhere\\\\" not found'):
        pods.get("elsewhere")
    assert "team-a" in [space.metadata.name for space in pods.core.list_namespace().items]
    pods.core.delete_namespaced_pod("elsewhere", "team-a", grace_period_seconds=0)
