"""The provider's pod manager, extended for clusters that do not report everything about a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.cncf.kubernetes.utils.pod_manager import PodManager

if TYPE_CHECKING:
    from kubernetes.client import models as k8s

ENDED_PHASES = frozenset({"Failed", "Succeeded"})


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

    def container_is_running(self, pod: k8s.V1Pod, container_name: str) -> bool:
        """Return whether the container runs, which it never does in an ended pod."""
        running: bool = super().container_is_running(pod, container_name)
        return running and self.read_pod(pod).status.phase not in ENDED_PHASES
