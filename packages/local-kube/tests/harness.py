"""A real server in a process of its own, used through the real Kubernetes client."""

from __future__ import annotations

import itertools
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest
from kubernetes import client, config

from local_kube import LocalCluster
from local_kube.pods.users import user_of
from local_kube.processes import landlock

if TYPE_CHECKING:
    from collections.abc import Callable

NAMESPACE = "default"
TIMEOUT_SECONDS = 60
NUMBERS = itertools.count(1)
PACKAGE = Path(__file__).parents[1]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "KUBECONFIG", "PYTHON"))},
    "PYTHONPATH": str(PACKAGE / "src"),
}
"""The environment for programs that import the package."""
T = TypeVar("T")
needs_landlock = pytest.mark.skipif(landlock.version() == 0, reason="this kernel has no Landlock")
needs_root = pytest.mark.skipif(user_of("") is None, reason="only root with its capabilities can become another user")


def wait_for(condition: Callable[[], T], seconds: float = TIMEOUT_SECONDS) -> T:
    """Return the first truthy result; fail after the timeout."""
    until = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < until, f"timed out after {seconds} s"
        time.sleep(0.02)
    return result


def missing(reason: str) -> NoReturn:
    """Skip a test because a program is not installed here; fail where everything must be tested."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass
class Pods:
    """The pods of one cluster, with short calls for tests."""

    core: client.CoreV1Api
    kubeconfig: str
    cluster: LocalCluster

    @property
    def root(self) -> Path:
        return Path(self.kubeconfig).parent

    def create(self, *argv: str, name: str | None = None, spec: dict[str, Any] | None = None, **container: Any) -> str:
        """Create a pod with one container, `base`, and return its name."""
        name = name or f"pod-{next(NUMBERS)}"
        base = {"name": "base", "image": "python", "command": [*argv], **container}
        metadata = {"name": name, "labels": {"test": "yes"}}
        body = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [base], **(spec or {})}}
        self.core.create_namespaced_pod(NAMESPACE, body)
        return name

    def get(self, name: str) -> Any:
        return self.core.read_namespaced_pod(name, NAMESPACE)

    def until(self, name: str, *phases: str) -> Any:
        return wait_for(lambda: pod if (pod := self.get(name)).status.phase in phases else None)

    def ended(self, name: str) -> Any:
        return self.until(name, "Succeeded", "Failed")

    def run(self, *argv: str, **options: Any) -> Any:
        return self.ended(self.create(*argv, **options))

    def terminated(self, pod: Any, container: int = 0) -> Any:
        return pod.status.container_statuses[container].state.terminated

    def log(self, name: str, **options: Any) -> str:
        response = self.core.read_namespaced_pod_log(name, NAMESPACE, _preload_content=False, **options)
        return response.data.decode()

    def delete(self, name: str, grace: int = 0) -> None:
        self.core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=grace)
        self.gone(name)

    def gone(self, name: str) -> None:
        wait_for(
            lambda: not [pod for pod in self.core.list_namespaced_pod(NAMESPACE).items if pod.metadata.name == name]
        )

    def reasons(self, name: str) -> list[str]:
        events = self.core.list_namespaced_event(NAMESPACE, field_selector=f"involvedObject.name={name}")
        return [event.reason for event in events.items]


def connect(cluster: LocalCluster) -> Pods:
    kubeconfig = cluster.ensure_running()
    return Pods(client.CoreV1Api(config.new_client_from_config(kubeconfig)), kubeconfig, cluster)
