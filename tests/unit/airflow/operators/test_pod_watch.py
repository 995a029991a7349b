"""When a pod has ended: with its workload, and soon after it with its sidecars."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.cncf.kubernetes.utils.pod_manager import PodManager
from kubernetes.client import models as k8s

from ml_metrics.airflow.operators import workload_base
from ml_metrics.airflow.operators.workload_base import PodWatch

RUNS = k8s.V1ContainerState(running=k8s.V1ContainerStateRunning())
ENDED = k8s.V1ContainerState(terminated=k8s.V1ContainerStateTerminated(exit_code=0))


def pod(phase: str, **containers: Any) -> k8s.V1Pod:
    """A pod with the states of its containers; without any, a kubelet has not reported them."""
    statuses = [
        k8s.V1ContainerStatus(name=name, state=state, image="i", image_id="", ready=True, restart_count=0)
        for name, state in containers.items()
    ]
    metadata = k8s.V1ObjectMeta(name="p", namespace="ns")
    return k8s.V1Pod(metadata=metadata, status=k8s.V1PodStatus(phase=phase, container_statuses=statuses or None))


class Clock:
    """A time that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(workload_base, "time", made)
    return made


def watch(monkeypatch: pytest.MonkeyPatch, *states: k8s.V1Pod) -> PodWatch:
    """Watch a pod whose state is this one after the other; the last one stays."""
    left = list(states)
    monkeypatch.setattr(PodManager, "read_pod", lambda *_: left.pop(0) if len(left) > 1 else left[0])
    client: Any = SimpleNamespace()
    return PodWatch(kube_client=client)


ALONE = pod("Running", base=ENDED, proxy=RUNS)


def test_sidecars_get_a_while_to_end(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = pod("Succeeded", base=ENDED, proxy=ENDED)
    watching = watch(monkeypatch, pod("Running", base=RUNS, proxy=RUNS), ALONE, ALONE, ALONE, ended)
    monkeypatch.setattr("airflow.providers.cncf.kubernetes.utils.pod_manager.time", clock)
    assert watching.await_pod_completion(pod("Running")) is ended
    assert watching.last is ended


def test_sidecars_that_do_not_end_are_left_after_half_a_minute(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watching = watch(monkeypatch, ALONE)
    assert watching.await_pod_completion(pod("Running")) is ALONE
    assert 30 < clock.now <= 32
    assert "its sidecars have not, and are removed with the pod" in capsys.readouterr().out


@pytest.mark.parametrize(
    "state",
    [
        pod("Failed", base=ENDED, proxy=RUNS),
        pod("Succeeded", base=ENDED),
        pod("Running", base=RUNS),
        pod("Running", base=None),
        pod("Running", other=ENDED),
        pod("Pending"),
    ],
)
def test_only_sidecars_are_waited_for(state: k8s.V1Pod, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider has waited for the workload: a state that it takes for an end is one."""
    monkeypatch.setattr(PodManager, "await_pod_completion", lambda *_: state)
    assert watch(monkeypatch, ALONE).await_pod_completion(pod("Running")) is state
    assert clock.now == 0.0


def test_the_provider_returns_once_the_workload_has_ended(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(PodManager, "await_pod_completion", lambda _, *given: (asked.extend(given), pod("Failed"))[1])
    given = pod("Running")
    watch(monkeypatch, ALONE).await_pod_completion(given, False, "own")
    assert asked == [given, True, "own"]
    assert clock.now == 0.0


@pytest.mark.parametrize(
    ("phase", "state", "runs"),
    [
        ("Running", RUNS, True),
        ("Pending", RUNS, True),
        ("Running", ENDED, False),
        ("Failed", RUNS, False),
        ("Succeeded", RUNS, False),
    ],
)
def test_no_container_of_an_ended_pod_runs(phase: str, state: Any, runs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubelet up to Kubernetes 1.22 leaves the container of a pod that reached its deadline as running."""
    watching = watch(monkeypatch, pod(phase, base=state))
    assert watching.container_is_running(pod("Running"), "base") is runs
