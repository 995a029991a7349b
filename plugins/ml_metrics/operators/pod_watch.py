"""The provider's watch over a pod, for a cluster whose kubelet does not say all that it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.cncf.kubernetes.utils.pod_manager import PodManager

if TYPE_CHECKING:
    from kubernetes.client import models as k8s

OVER = frozenset({"Failed", "Succeeded"})


class PodWatch(PodManager):
    """Knows that nothing runs in a pod that is over, and how a pod looked that is gone.

    Up to Kubernetes 1.22 a kubelet that ends a pod whose time is up leaves its container `running` for ever; the
    provider then waits for ever. And of a pod that was evicted through the API, as when its node is drained, no event
    says so: only the pod itself does, for as long as it takes to leave.
    """

    last: k8s.V1Pod | None = None

    def read_pod(self, pod: k8s.V1Pod) -> k8s.V1Pod:
        """The pod as it is now."""
        self.last = super().read_pod(pod)
        return self.last

    def container_is_running(self, pod: k8s.V1Pod, container_name: str) -> bool:
        """Whether it runs, in a pod that is not over."""
        running: bool = super().container_is_running(pod, container_name)
        return running and self.read_pod(pod).status.phase not in OVER
