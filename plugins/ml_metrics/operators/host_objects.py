"""The Kubernetes objects of a workload on several hosts: a Job, and the service through which hosts find each other."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubernetes.client import ApiClient, CustomObjectsApi
from kubernetes.client.exceptions import ApiException

from ml_metrics.clusters import queue
from ml_metrics.clusters.hosts import Hosts
from ml_metrics.clusters.manifests import service as service_of
from ml_metrics.clusters.outcome import EVENT_REASONS, outcome_of
from ml_metrics.errors import ConfigError
from ml_metrics.operators.run_workload import CONFLICT, NOT_FOUND
from ml_metrics.operators.workload_base import RUN_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kubernetes.client import BatchV1Api, CoreV1Api
    from kubernetes.client import models as k8s

    from ml_metrics.config.definition import TestDefinition

FORBIDDEN = 403
MAX_PODS_WITH_EVENTS = 5
"""For how many hosts that have not started events are read: more would not add information."""


@dataclass(frozen=True, slots=True)
class HostObjects:
    """The objects of one run in the cluster."""

    core: CoreV1Api
    batch: BatchV1Api
    namespace: str
    labels: dict[str, str]

    def newest_job(self) -> Any:
        """Return the newest Job of the run that is not being deleted."""
        present = [job for job in self._jobs() if job.metadata.deletion_timestamp is None]
        return max(present, key=lambda job: job.metadata.creation_timestamp, default=None)

    def create_service(self, test: TestDefinition, name: str) -> None:
        """Create the service of a Job."""
        with ignoring(CONFLICT):
            body = service_of(test, name=name, labels={RUN_KEY: self.labels[RUN_KEY]})
            self.core.create_namespaced_service(self.namespace, body)

    def adopt_service(self, name: str) -> None:
        """Make the Job the owner of its service, so that the cluster removes both together."""
        job = self.batch.read_namespaced_job(name, self.namespace)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job.metadata.uid}
        self.core.patch_namespaced_service(name, self.namespace, {"metadata": {"ownerReferences": [owner]}})
        if job.spec.completion_mode != "Indexed":
            raise ConfigError(
                f"{name}: this cluster has no Indexed Jobs, which several hosts need; use Kubernetes 1.24 or later"
            )

    def read_hosts(self, name: str, *, with_events: bool = False) -> Hosts:
        """Return a Job with its pods, and on request their events."""
        plain = ApiClient().sanitize_for_serialization
        job = plain(self.batch.read_namespaced_job(name, self.namespace))
        pods = plain(self.core.list_namespaced_pod(self.namespace, label_selector=f"job-name={name}"))["items"]
        return Hosts(job, tuple(pods), *self.explanations(job, pods) if with_events else ())

    def explanations(
        self, job: dict[str, Any], pods: Sequence[dict[str, Any]]
    ) -> tuple[tuple[dict[str, Any], ...], dict[str, Any] | None]:
        """Return the events of a Job and of hosts that have not started, and what Kueue has decided about the Job."""
        waiting = [pod["metadata"]["uid"] for pod in pods if outcome_of(pod, []).started_at is None]
        selectors = [f"involvedObject.uid={uid}" for uid in (job["metadata"]["uid"], *waiting[:MAX_PODS_WITH_EVENTS])]
        events = [event for selector in selectors for event in self._events(selector)]
        if self._lost_pods(job, pods):
            prefix = f"{job['metadata']['name']}-"
            events += [
                event
                for reason in EVENT_REASONS
                for event in self._events(f"involvedObject.kind=Pod,reason={reason}")
                if str(event["involvedObject"].get("name")).startswith(prefix)
            ]
        return tuple(events), self._admission(job) if job["spec"].get("suspend") else None

    def _events(self, selector: str) -> list[dict[str, Any]]:
        found = self.core.list_namespaced_event(self.namespace, field_selector=selector)
        return list(ApiClient().sanitize_for_serialization(found)["items"])

    @staticmethod
    def _lost_pods(job: dict[str, Any], pods: Sequence[dict[str, Any]]) -> bool:
        """Return whether a Job failed without a pod that shows why: the cluster has ended it and removed it."""
        conditions = (job.get("status") or {}).get("conditions") or []
        failed = any(one.get("type") == "Failed" and one.get("status") == "True" for one in conditions)
        return failed and not any((pod.get("status") or {}).get("phase") == "Failed" for pod in pods)

    def _admission(self, job: dict[str, Any]) -> dict[str, Any] | None:
        """Return the Workload in which Kueue records what it decides about a Job; None if it cannot be read."""
        try:
            found: Any = CustomObjectsApi(self.core.api_client).list_namespaced_custom_object(
                queue.GROUP,
                queue.VERSION,
                self.namespace,
                queue.PLURAL,
                label_selector=f"{queue.OWNER_LABEL}={job['metadata']['uid']}",
            )
        except ApiException as error:
            if error.status not in {FORBIDDEN, NOT_FOUND}:
                raise
            return None
        return next(iter(found["items"]), None)

    def remove_all(self) -> None:
        """Remove every Job and service of the run; the cluster removes the pods of the Jobs."""
        for job in self._jobs():
            with ignoring(NOT_FOUND):
                self.batch.delete_namespaced_job(job.metadata.name, self.namespace, propagation_policy="Background")
        for service in self.core.list_namespaced_service(self.namespace, label_selector=self.selector).items:
            with ignoring(NOT_FOUND):
                self.core.delete_namespaced_service(service.metadata.name, self.namespace)

    def _jobs(self) -> list[k8s.V1Job]:
        found: list[k8s.V1Job] = self.batch.list_namespaced_job(self.namespace, label_selector=self.selector).items
        return found

    @property
    def selector(self) -> str:
        """The label of all objects of the run."""
        return f"{RUN_KEY}={self.labels[RUN_KEY]}"


@contextmanager
def ignoring(status: int) -> Iterator[None]:
    """Ignore a status: an earlier process or the cluster itself has done it already."""
    try:
        yield
    except ApiException as error:
        if error.status != status:
            raise
