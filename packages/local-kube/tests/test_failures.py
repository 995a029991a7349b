"""Pods that fail for other reasons than their program: image, memory, references, deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness import wait_for
from local_kube.pods.container_runner import pull_failure

if TYPE_CHECKING:
    from harness import Pods

GREEDY = "import time; held = b'x' * 200_000_000; time.sleep(60)"


def waiting(pods: Pods, name: str, reason: str) -> str:
    def message() -> str | None:
        statuses = pods.get(name).status.container_statuses or []
        states = [entry.state.waiting for entry in statuses if entry.state.waiting]
        return next((state.message for state in states if state.reason == reason), None)

    return wait_for(message) or ""


def test_a_container_above_its_memory_limit_is_killed(pods: Pods) -> None:
    pod = pods.run("python3", "-c", GREEDY, resources={"limits": {"memory": "100Mi"}})
    ended = pods.terminated(pod)
    assert (pod.status.phase, ended.reason, ended.exit_code) == ("Failed", "OOMKilled", 137)
    assert int(pod.metadata.annotations["local-kube/peak-memory-bytes.base"]) > 100 * 2**20


def test_the_memory_of_children_counts(pods: Pods) -> None:
    children = f'for _ in 1 2 3; do python3 -c "{GREEDY.replace("200", "60")}" & done; wait'
    pod = pods.run("sh", "-c", children, resources={"limits": {"memory": "150Mi"}})
    assert pods.terminated(pod).reason == "OOMKilled"


def test_a_container_below_its_memory_limit_succeeds(pods: Pods) -> None:
    pod = pods.run("python3", "-c", "held = b'x' * 50_000_000", resources={"limits": {"memory": "500Mi"}})
    assert pod.status.phase == "Succeeded"


def test_memory_shared_with_children_counts_once(pods: Pods) -> None:
    script = (
        "import os, time\nheld = bytearray(b'x' * 100_000_000)\n"
        "for _ in range(4):\n    if os.fork() == 0:\n        time.sleep(1)\n        os._exit(0)\n"
        "for _ in range(4): os.wait()"
    )
    pod = pods.run("python3", "-c", script, resources={"limits": {"memory": "250Mi"}})
    assert pod.status.phase == "Succeeded", pods.terminated(pod)


def test_an_image_from_a_registry_that_does_not_exist(pods: Pods) -> None:
    name = pods.create("true", image="registry.invalid/team/image:1")
    assert "no such host" in waiting(pods, name, "ErrImagePull")
    assert "Back-off pulling image" in waiting(pods, name, "ImagePullBackOff")
    assert pods.get(name).status.phase == "Pending"
    assert {"Pulling", "Failed", "BackOff"} <= set(pods.reasons(name))
    pods.delete(name)


def test_a_malformed_image_name(pods: Pods) -> None:
    name = pods.create("true", image="Not An Image")
    assert "invalid reference format" in waiting(pods, name, "InvalidImageName")
    pods.delete(name)


def test_a_deadline_ends_a_pod_that_waits_for_its_image(pods: Pods) -> None:
    pod = pods.run("true", image="registry.invalid/x", spec={"activeDeadlineSeconds": 1})
    assert (pod.status.reason, pods.terminated(pod).reason) == ("DeadlineExceeded", "ContainerStatusUnknown")


@pytest.mark.parametrize(
    "image",
    [
        *("python", "python:3.11", "gcr.io/my-project/tensorflow:r2.2", "localhost:5000/a/b_c/d-e:latest"),
        "us-docker.pkg.dev/p/r/i@sha256:" + "0a" * 32,
    ],
)
def test_valid_image_names(image: str) -> None:
    assert pull_failure(image) is None


@pytest.mark.parametrize("image", ["", "UPPER", "a b", "-a", "a:", "a@sha256:12", "x" * 300, "http://a/b"])
def test_invalid_image_names(image: str) -> None:
    failure = pull_failure(image)
    assert failure is not None
    assert failure.reason == "InvalidImageName"


def test_a_missing_secret(pods: Pods) -> None:
    reference = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "nothing", "key": "k"}}}
    name = pods.create("true", env=[reference])
    assert waiting(pods, name, "CreateContainerConfigError") == 'secret "nothing" not found'
    pods.delete(name)
    reference["valueFrom"]["secretKeyRef"]["optional"] = True  # type: ignore[index]
    assert pods.run("true", env=[reference]).status.phase == "Succeeded"


def test_a_failed_init_container_keeps_the_others_from_starting(pods: Pods) -> None:
    init = {"name": "first", "image": "x", "command": ["sh", "-c", "exit 5"]}
    pod = pods.run("true", spec={"initContainers": [init]})
    assert pod.status.phase == "Failed"
    assert pod.status.init_container_statuses[0].state.terminated.exit_code == 5
    assert pod.status.container_statuses[0].state.waiting.reason == "PodInitializing"


def test_containers_start_after_the_init_containers_one_by_one(pods: Pods) -> None:
    def init(name: str, script: str) -> dict[str, object]:
        mounts = [{"name": "data", "mountPath": "/data"}]
        return {"name": name, "image": "x", "command": ["sh", "-c", script], "volumeMounts": mounts}

    inits = [init("one", "sleep 0.2; echo 1 >> /data/order"), init("two", "echo 2 >> /data/order")]
    name = pods.create(
        *("cat", "/data/order"),
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
        spec={"initContainers": inits, "volumes": [{"name": "data", "emptyDir": {}}]},
    )
    assert pods.ended(name).status.phase == "Succeeded"
    assert pods.log(name) == "1\n2\n"


def test_termination_messages(pods: Pods) -> None:
    pod = pods.run("sh", "-c", "echo because > /dev/termination-log; exit 1")
    assert pods.terminated(pod).message == "because\n"
    pod = pods.run("sh", "-c", "echo last words; exit 1", terminationMessagePolicy="FallbackToLogsOnError")
    assert pods.terminated(pod).message == "last words"


def test_one_failing_container_fails_the_pod_when_all_have_ended(pods: Pods) -> None:
    both = [
        {"name": name, "image": "x", "command": ["sh", "-c", f"exit {code}"]} for name, code in (("a", 0), ("b", 4))
    ]
    pod = pods.run("true", spec={"containers": both})
    assert pod.status.phase == "Failed"
    assert [pods.terminated(pod, number).exit_code for number in (0, 1)] == [0, 4]
