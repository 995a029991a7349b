"""Pods that wait for room, with the reason."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from harness import connect, wait_for
from local_kube import LocalCluster, Node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from harness import Pods


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, image_folder: Path) -> Iterator[Pods]:
    node = Node(max_pods=2, resources={"cpu": 4, "nvidia.com/gpu": 1}, labels={"zone": "here"})
    cluster = LocalCluster(str(tmp_path_factory.mktemp("small")), str(image_folder), node=node)
    yield connect(cluster)
    cluster.stop()


@pytest.fixture(autouse=True)
def _empty(small: Pods) -> Iterator[None]:
    yield
    for pod in small.core.list_namespaced_pod("default").items:
        small.delete(pod.metadata.name)


def unscheduled(pods: Pods, name: str) -> str:
    """Return the reason why a pod waits."""

    def message() -> str | None:
        conditions = pods.get(name).status.conditions or []
        return next((entry.message for entry in conditions if entry.reason == "Unschedulable"), None)

    return wait_for(message) or ""


def test_pods_wait_for_room(small: Pods) -> None:
    first, second, third = (small.create("sleep", "600", name=name) for name in ("first", "second", "third"))
    small.until(second, "Running")
    assert "Too many pods" in unscheduled(small, third)
    assert small.get(third).status.phase == "Pending"
    assert small.get(third).status.start_time is None
    assert "FailedScheduling" in small.reasons(third)
    small.delete(first)
    small.until(third, "Running")
    assert "Scheduled" in small.reasons(third)


@pytest.mark.parametrize(
    ("demand", "reason"),
    [
        ({"resources": {"requests": {"cpu": "4500m"}}}, "Insufficient cpu"),
        ({"resources": {"limits": {"nvidia.com/gpu": "2"}}}, "Insufficient nvidia.com/gpu"),
        ({"resources": {"limits": {"google.com/tpu": "8"}}}, "Insufficient google.com/tpu"),
    ],
)
def test_a_pod_waits_for_resources_that_the_node_lacks(small: Pods, demand: dict[str, Any], reason: str) -> None:
    assert reason in unscheduled(small, small.create("true", **demand))


def test_a_node_selector_is_obeyed(small: Pods) -> None:
    assert small.run("true", spec={"nodeSelector": {"zone": "here", "kubernetes.io/hostname": "local"}})
    elsewhere = small.create("true", spec={"nodeSelector": {"cloud.google.com/gke-tpu-topology": "2x4"}})
    assert "didn't match Pod's node affinity/selector" in unscheduled(small, elsewhere)


def test_a_device_is_free_again_after_its_pod_has_ended(small: Pods) -> None:
    gpu = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
    names = [small.create("sleep", "0.2", **gpu) for _ in range(3)]
    assert [small.ended(name).status.phase for name in names] == ["Succeeded"] * 3
    starts = sorted((small.terminated(small.get(name)) for name in names), key=lambda state: state.started_at)
    assert all(before.finished_at <= after.started_at for before, after in pairwise(starts))


def test_urgent_pods_are_placed_first(small: Pods) -> None:
    blockers = [small.create("sleep", "600") for _ in range(2)]
    small.until(blockers[1], "Running")
    later = small.create("sleep", "600", name="later")
    urgent = small.create("sleep", "600", name="urgent", spec={"priority": 10, "preemptionPolicy": "Never"})
    unscheduled(small, urgent)
    small.delete(blockers[0])
    small.until(urgent, "Running")
    assert small.get(later).status.phase == "Pending"


def test_a_waiting_pod_can_be_deleted(small: Pods) -> None:
    name = small.create("true", resources={"limits": {"google.com/tpu": "8"}})
    unscheduled(small, name)
    small.delete(name, grace=30)


def test_a_deadline_does_not_count_the_wait(small: Pods) -> None:
    name = small.create("true", spec={"activeDeadlineSeconds": 1}, resources={"limits": {"nvidia.com/gpu": 2}})
    unscheduled(small, name)
    assert small.get(name).status.reason is None


def test_the_node_reports_its_resources_exactly(tmp_path: Path, image_folder: Path) -> None:
    node = Node(max_pods=7, resources={"cpu": 1.5, "memory": 8 * 1024.0**3 + 1})
    cluster = LocalCluster(str(tmp_path / "cluster"), str(image_folder), node=node)
    allocatable = connect(cluster).core.read_node("local").status.allocatable
    cluster.stop()
    assert allocatable == {"cpu": "1500m", "memory": str(8 * 1024**3 + 1), "pods": "7"}
