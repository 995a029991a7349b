"""Secrets and ConfigMaps, and the pods that refer to them."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import ApiException

from harness import NAMESPACE, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness import Pods


@pytest.fixture
def objects(pods: Pods) -> Iterator[Pods]:
    secret = {"metadata": {"name": "keys"}, "stringData": {"token": "s3cret", "user": "me"}}
    pods.core.create_namespaced_secret(NAMESPACE, secret)
    pods.core.create_namespaced_config_map(
        NAMESPACE, {"metadata": {"name": "settings"}, "data": {"rate": "0.1", "a.b": "c"}}
    )
    yield pods
    pods.core.delete_namespaced_secret("keys", NAMESPACE)
    pods.core.delete_namespaced_config_map("settings", NAMESPACE)


def output(pods: Pods, *argv: str, **options: Any) -> str:
    name = pods.create(*argv, **options)
    assert pods.ended(name).status.phase == "Succeeded", pods.log(name)
    return pods.log(name)


def test_values_become_variables(objects: Pods) -> None:
    env = [
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
        {"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "rate"}}},
        {"name": "BOTH", "value": "$(TOKEN)-$(RATE)"},
    ]
    assert output(objects, "sh", "-c", "echo $BOTH", env=env) == "s3cret-0.1\n"


def test_whole_objects_become_variables(objects: Pods) -> None:
    sources = [{"secretRef": {"name": "keys"}}, {"prefix": "C_", "configMapRef": {"name": "settings"}}]
    sources.append({"configMapRef": {"name": "ghost", "optional": True}})
    assert output(objects, "sh", "-c", "echo $user $C_rate", envFrom=sources) == "me 0.1\n"


def test_objects_become_files(objects: Pods) -> None:
    volumes = [
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "some", "configMap": {"name": "settings", "items": [{"key": "a.b", "path": "deep/file"}]}},
    ]
    mounts = [{"name": "keys", "mountPath": "/keys"}, {"name": "some", "mountPath": "/some"}]
    script = "cat /keys/token /some/deep/file; ls /some"
    assert output(objects, "sh", "-c", script, volumeMounts=mounts, spec={"volumes": volumes}) == "s3cretcdeep\n"


def test_one_file_of_an_object_is_mounted_at_its_own_path(objects: Pods) -> None:
    mounts = [
        {"name": "settings", "mountPath": "/etc/rate.txt", "subPath": "rate"},
        {"name": "settings", "mountPath": "/etc/other.txt", "subPath": "a.b"},
    ]
    volumes = [{"name": "settings", "configMap": {"name": "settings"}}]
    assert (
        output(objects, "cat", "/etc/rate.txt", "/etc/other.txt", volumeMounts=mounts, spec={"volumes": volumes})
        == "0.1c"
    )


@pytest.mark.parametrize(
    ("volume", "reason"),
    [
        ({"secret": {"secretName": "ghost"}}, 'secret "ghost" not found'),
        ({"configMap": {"name": "settings", "items": [{"key": "no", "path": "x"}]}}, "non-existent config key: no"),
        ({"persistentVolumeClaim": {"claimName": "disk"}}, "volumes of the kind persistentVolumeClaim"),
    ],
)
def test_a_pod_waits_for_a_missing_volume(objects: Pods, volume: dict[str, Any], reason: str) -> None:
    mounts = [{"name": "v", "mountPath": "/v"}]
    name = objects.create("true", volumeMounts=mounts, spec={"volumes": [{"name": "v", **volume}]})
    wait_for(lambda: "FailedMount" in objects.reasons(name))
    events = objects.core.list_namespaced_event(NAMESPACE, field_selector=f"involvedObject.name={name}").items
    assert any(reason in event.message for event in events)
    assert objects.get(name).status.phase == "Pending"
    objects.delete(name)


def test_a_pod_starts_when_a_missing_secret_is_created(pods: Pods) -> None:
    env = [{"name": "LATE", "valueFrom": {"secretKeyRef": {"name": "late", "key": "k"}}}]
    name = pods.create("sh", "-c", "echo $LATE", env=env)
    wait_for(lambda: "Failed" in pods.reasons(name))
    pods.core.create_namespaced_secret(NAMESPACE, {"metadata": {"name": "late"}, "stringData": {"k": "created"}})
    assert pods.ended(name).status.phase == "Succeeded"
    assert pods.log(name) == "created\n"
    pods.core.delete_namespaced_secret("late", NAMESPACE)


def test_objects_are_changed_selected_and_validated(objects: Pods) -> None:
    core = objects.core
    core.patch_namespaced_config_map(
        "settings", NAMESPACE, {"data": {"rate": "0.2"}, "metadata": {"labels": {"x": "y"}}}
    )
    found = core.list_namespaced_config_map(NAMESPACE, label_selector="x=y").items
    assert [entry.data["rate"] for entry in found] == ["0.2"]
    with pytest.raises(ApiException, match="already exists"):
        core.create_namespaced_secret(NAMESPACE, {"metadata": {"name": "keys"}})
    with pytest.raises(ApiException, match="is not base64"):
        core.create_namespaced_secret(NAMESPACE, {"metadata": {"name": "bad"}, "data": {"x": "%"}})
    for key in ("../x", "..", "a/b", ""):
        with pytest.raises(ApiException, match="a valid key consists of"):
            core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "bad"}, "data": {key: "x"}})
        with pytest.raises(ApiException, match="a valid key consists of"):
            core.create_namespaced_secret(NAMESPACE, {"metadata": {"name": "bad"}, "stringData": {key: "x"}})
    with pytest.raises(ApiException, match="not found"):
        core.read_namespaced_secret("ghost", NAMESPACE)
    for file in (objects.root / "objects").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_objects_outlive_the_server(own: Pods) -> None:
    own.core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "kept"}, "data": {"a": "1"}})
    own.cluster.stop()
    own.cluster.ensure_running()
    assert own.core.read_namespaced_config_map("kept", NAMESPACE).data == {"a": "1"}
