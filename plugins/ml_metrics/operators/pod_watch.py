"""The provider's pod manager, which decides when a pod has ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.utils.pod_manager import PodManager

from ml_metrics.model import WORKLOAD_CONTAINER

if TYPE_CHECKING:
    from kubernetes.client import models as k8s

ENDED_PHASES = frozenset({"Failed", "Succeeded"})
SIDECAR_SECONDS = 30.0
"""How much longer than the workload its sidecars may run, for example to upload what is left."""


class PodWatch(PodManager):
    """Treats containers of ended pods as ended, and keeps the last known state of the pod.

    Up to Kubernetes 1.22, a kubelet that ends a pod at its deadline leaves its container `running`, and the provider
    would wait forever. An eviction through the API, for example when a node is drained, is not reported by an event:
    only the pod itself shows it, until it is deleted.
    """

    last: k8s.V1Pod | None = None

    def read_pod(self, pod: k8s.V1Pod) -> k8s.V1Pod:
        """Return the current state of the pod."""
        self.last = super().read_pod(pod)
        return self.last

    def await_pod_completion(
        self,
        pod: k8s.V1Pod,
        istio_enabled: bool = False,  # noqa: ARG002, FBT001, FBT002  (the provider's signature)
        container_name: str = WORKLOAD_CONTAINER,
        *rest: Any,
        **options: Any,
    ) -> k8s.V1Pod:
        """Wait until the workload has ended, and its sidecars for a while. The exit of the workload decides."""
        remote = super().await_pod_completion(pod, True, container_name, *rest, **options)  # noqa: FBT003
        deadline = time.monotonic() + SIDECAR_SECONDS
        while remote.status.phase not in ENDED_PHASES and _has_ended(remote, container_name):
            if time.monotonic() > deadline:
                self.log.warning("the workload has ended; its sidecars have not, and are removed with the pod")
                break
            time.sleep(1)
            remote = self.read_pod(pod)
        return remote

    def container_is_running(self, pod: k8s.V1Pod, container_name: str) -> bool:
        """Return whether the container runs, which it never does in an ended pod."""
        running: bool = super().container_is_running(pod, container_name)
        return running and self.read_pod(pod).status.phase not in ENDED_PHASES


def _has_ended(pod: k8s.V1Pod, container: str) -> bool:
    statuses = pod.status.container_statuses or []
    return any(one.name == container and one.state and one.state.terminated for one in statuses)
