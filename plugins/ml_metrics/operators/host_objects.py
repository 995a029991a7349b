"""The Kubernetes objects of a workload of several hosts: a Job, and the service by which its hosts find each other."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException

from ml_metrics.clusters.hosts import Hosts
from ml_metrics.clusters.manifests import job as job_of
from ml_metrics.clusters.manifests import service as service_of
from ml_metrics.clusters.outcome import outcome_of
from ml_metrics.errors import ConfigError
from ml_metrics.operators.run_workload import CONFLICT, NOT_FOUND, without_program
from ml_metrics.operators.workload_base import RUN_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes.client import BatchV1Api, CoreV1Api
    from kubernetes.client import models as k8s

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Run

LONGEST_TEST_NAME = 36
"""So much of a test's name goes into the name of its Jobs: a host's own name, with its number, has 63 characters."""
EXPLAINED = 5
"""Of so many hosts that have not started the events are read: a thousand would say the same."""
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True, slots=True)
class HostObjects:
    """What lies in the cluster for one run."""

    core: CoreV1Api
    batch: BatchV1Api
    namespace: str
    labels: dict[str, str]

    @staticmethod
    def name(run: Run, attempt: int) -> str:
        """The name of an attempt: the same for every process that asks."""
        return f"{run.test[:LONGEST_TEST_NAME].rstrip('-')}-{run.key[:8]}-{attempt}"

    @staticmethod
    def job(test: TestDefinition, name: str, run: Run, run_dir: str) -> dict[str, Any]:
        """The Job of a run."""
        # the same for every attempt, so that the goodput of a restarted job is that of one job
        env = {"JOB_NAME": f"{run.test}-{run.key[:8]}"}
        return job_of(test, name=name, run_dir=run_dir, env=env, labels={RUN_KEY: run.key})

    @staticmethod
    def template(job: dict[str, Any]) -> dict[str, Any]:
        """The pod of a Job, as the provider takes it."""
        template = job["spec"]["template"]
        return {"apiVersion": "v1", "kind": "Pod", **template, "spec": without_program(template)}

    @staticmethod
    def corrected(job: k8s.V1Job) -> k8s.V1Job:
        """Without what the provider says of the pod and a Job's pods must not have."""
        pod = job.spec.template.metadata
        pod.name = pod.namespace = None
        pod.labels.pop(QUEUE_LABEL, None)  # a queue admits the Job, and would admit its pods once more
        return job

    def newest_job(self) -> k8s.V1Job | None:
        """The Job of the run that was made last and is not going away."""
        living = [job for job in self._jobs() if job.metadata.deletion_timestamp is None]
        return max(living, key=lambda job: job.metadata.creation_timestamp, default=None)

    def create_service(self, test: TestDefinition, name: str) -> None:
        """Make the service of a Job."""
        with _unless(CONFLICT):
            body = service_of(test, name=name, labels={RUN_KEY: self.labels[RUN_KEY]})
            self.core.create_namespaced_service(self.namespace, body)

    def adopt_service(self, name: str) -> None:
        """Let the service go when its Job goes, also if nobody is left to take it away."""
        job = self.batch.read_namespaced_job(name, self.namespace)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job.metadata.uid}
        self.core.patch_namespaced_service(name, self.namespace, {"metadata": {"ownerReferences": [owner]}})
        if job.spec.completion_mode != "Indexed":
            raise ConfigError(
                f"{name}: this cluster does not know Indexed Jobs, which several hosts need; Kubernetes 1.24 has them"
            )

    def ask(self, name: str, *, with_events: bool = False) -> Hosts:
        """How the Job of a name and its pods stand."""
        plain = ApiClient().sanitize_for_serialization
        job = plain(self.batch.read_namespaced_job(name, self.namespace))
        pods = plain(self.core.list_namespaced_pod(self.namespace, label_selector=f"job-name={name}"))["items"]
        told = [job["metadata"]["uid"]] if with_events else []
        if with_events:
            told += [pod["metadata"]["uid"] for pod in pods if outcome_of(pod, []).started_at is None][:EXPLAINED]
        events = [
            event
            for uid in told
            for event in plain(
                self.core.list_namespaced_event(self.namespace, field_selector=f"involvedObject.uid={uid}")
            )["items"]
        ]
        return Hosts(job, tuple(pods), tuple(events))

    def remove_all(self) -> None:
        """Take away every Job and service of the run; their pods go with them."""
        for job in self._jobs():
            with _unless(NOT_FOUND):
                self.batch.delete_namespaced_job(job.metadata.name, self.namespace, propagation_policy="Background")
        for service in self.core.list_namespaced_service(self.namespace, label_selector=self._selector).items:
            with _unless(NOT_FOUND):
                self.core.delete_namespaced_service(service.metadata.name, self.namespace)

    def _jobs(self) -> list[k8s.V1Job]:
        found: list[k8s.V1Job] = self.batch.list_namespaced_job(self.namespace, label_selector=self._selector).items
        return found

    @property
    def _selector(self) -> str:
        return f"{RUN_KEY}={self.labels[RUN_KEY]}"


@contextmanager
def _unless(status: int) -> Iterator[None]:
    """Do it, unless it is done: by an earlier process, or by the cluster itself."""
    try:
        yield
    except ApiException as error:
        if error.status != status:
            raise
