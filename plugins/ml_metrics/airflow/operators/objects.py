"""The objects of one run in the cluster: a pod, a Job with a pod per host, or a JobSet with a Job per slice."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kubernetes.client import ApiClient, BatchV1Api, CustomObjectsApi
from kubernetes.client.exceptions import ApiException

from ml_metrics.airflow.clusters import outcome
from ml_metrics.airflow.clusters.manifests import (
    GROUP,
    NAME_LABEL,
    PLURAL,
    VERSION,
    as_job,
    job,
    job_set_of,
    numbered,
    pod,
    service,
)
from ml_metrics.airflow.clusters.outcome import EVENT_REASONS, Hosts, OnePod, outcome_of, outcome_of_lost_pod
from ml_metrics.airflow.operators.run import RUN_KEY
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.model import JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kubernetes.client import CoreV1Api

    from ml_metrics.airflow.clusters.manifests import Manifest
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Run, Workload


FORBIDDEN, NOT_FOUND, CONFLICT = 403, 404, 409
MAX_PODS_WITH_EVENTS = 5
"""For how many hosts that have not started events are read: more would not add information."""
NO_JOB_SETS = (
    f"this cluster has no JobSets ({GROUP}/{VERSION}), which `job_set` needs: install the JobSet controller, or leave "
    "`job_set` out"
)
plain = ApiClient().sanitize_for_serialization


def already_exists(error: ApiException) -> bool:
    """Other conflicts, such as that of a quota which many requests change at once, have created nothing."""
    return error.status == CONFLICT and "AlreadyExists" in str(error.body)


@dataclass(frozen=True, slots=True)
class PodObjects:
    """The pod of one run.

    Args:
        key: that of the run, which all its objects have as a label.
    """

    core: CoreV1Api
    namespace: str
    key: str
    test: TestDefinition

    @staticmethod
    def name_of(run: Run, attempt: int) -> str:
        """The same in every process. Names of tests are cut: a host name has at most 63 characters."""
        return f"{run.test[:48].rstrip('-')}-{run.key[:8]}-{attempt}"

    def made(self, **options: Any) -> Manifest:
        """What `ml-metrics render` prints."""
        return pod(self.test, **options)

    def create(self, body: Manifest) -> None:
        self.core.create_namespaced_pod(self.namespace, body)

    def adopt(self, name: str) -> None:
        """Complete what was created."""

    def is_there(self) -> bool:
        """Whether the run has one that is not being deleted."""
        return any(one.metadata.deletion_timestamp is None for one in self._pods())

    def read(self, name: str, *, with_events: bool = False) -> Hosts:
        found = plain(self.core.read_namespaced_pod(name, self.namespace))
        return OnePod.of(found, self._events(f"involvedObject.uid={found['metadata']['uid']}") if with_events else ())

    def lost(self, pending: Workload, last: Hosts | None, ending: Manifest | None) -> Workload:
        """The outcome if the cluster no longer has it. `ending`: what was seen when an earlier process left it."""
        events = self._events(f"involvedObject.kind=Pod,involvedObject.name={pending.pod}")
        return outcome_of_lost_pod(pending, events, last.pods[0] if last else ending)

    def remove_all(self) -> None:
        for one in self._pods():
            with ignoring(NOT_FOUND):
                self.core.delete_namespaced_pod(one.metadata.name, self.namespace)

    def _pods(self) -> list[Any]:
        return list(self.core.list_namespaced_pod(self.namespace, label_selector=self._selector).items)

    def _events(self, selector: str) -> list[Manifest]:
        return list(plain(self.core.list_namespaced_event(self.namespace, field_selector=selector))["items"])

    @property
    def _selector(self) -> str:
        return f"{RUN_KEY}={self.key}"


class JobObjects(PodObjects):
    """The Job of one run, and the service through which its hosts find each other."""

    __slots__ = ()

    @staticmethod
    def name_of(run: Run, attempt: int) -> str:
        return f"job-{run.test[:36].rstrip('-')}-{run.key[:8]}-{attempt}"

    def made(self, **options: Any) -> Manifest:
        return job(self.test, **options)

    def create(self, body: Manifest) -> None:
        name = body["metadata"]["name"]
        made = service(self.test, name=name, labels={RUN_KEY: self.key})
        try:
            self.core.create_namespaced_service(self.namespace, made)
        except ApiException as error:
            if not already_exists(error):
                raise
        self._batch.create_namespaced_job(self.namespace, body)

    def adopt(self, name: str) -> None:
        """Make the Job the owner of its service, so that the cluster removes both together."""
        found = self._batch.read_namespaced_job(name, self.namespace)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": found.metadata.uid}
        self.core.patch_namespaced_service(name, self.namespace, {"metadata": {"ownerReferences": [owner]}})
        if found.spec.completion_mode != "Indexed":
            raise ConfigError(
                f"{name}: this cluster has no Indexed Jobs, which several hosts need; use Kubernetes 1.24 or later"
            )

    def is_there(self) -> bool:
        return any(one.metadata.deletion_timestamp is None for one in self._jobs())

    def read(self, name: str, *, with_events: bool = False) -> Hosts:
        found = plain(self._batch.read_namespaced_job(name, self.namespace))
        pods = plain(self.core.list_namespaced_pod(self.namespace, label_selector=f"job-name={name}"))["items"]
        return Hosts(found, tuple(pods), *self.explanations(found, pods) if with_events else ())

    def lost(self, pending: Workload, last: Hosts | None, ending: Manifest | None) -> Workload:
        detail = "the Job was deleted before its workload had ended"
        known = last.outcome() if last else pending
        return replace(known, status=JobStatus.FAILURE, failure_reason="JobDeleted", detail=detail)

    def explanations(self, job: Manifest, pods: Sequence[Manifest]) -> tuple[tuple[Manifest, ...], Manifest | None]:
        """Return the events of a Job and of hosts that have not started, and what Kueue has decided about the Job."""
        waiting = [one["metadata"]["uid"] for one in pods if outcome_of(one, []).started_at is None]
        selectors = [f"involvedObject.uid={uid}" for uid in (job["metadata"]["uid"], *waiting[:MAX_PODS_WITH_EVENTS])]
        events = [event for selector in selectors for event in self._events(selector)]
        failed = any(
            one.get("type") == "Failed" and one.get("status") == "True"
            for one in (job.get("status") or {}).get("conditions") or []
        )
        # no pod shows why: the cluster has ended it and removed it
        if failed and not any((one.get("status") or {}).get("phase") == "Failed" for one in pods):
            prefix = f"{job['metadata']['name']}-"
            events += [
                event
                for reason in EVENT_REASONS
                for event in self._events(f"involvedObject.kind=Pod,reason={reason}")
                if str(event["involvedObject"].get("name")).startswith(prefix)
            ]
        return tuple(events), self._admission(job) if job["spec"].get("suspend") else None

    def _admission(self, job: Manifest) -> Manifest | None:
        """Return the Workload in which Kueue records what it decides about a Job; None if it cannot be read."""
        label = f"{outcome.OWNER_LABEL}={job['metadata']['uid']}"
        place = (outcome.GROUP, outcome.VERSION, self.namespace, outcome.PLURAL)
        try:
            found: Any = self._custom.list_namespaced_custom_object(*place, label_selector=label)
        except ApiException as error:
            if error.status not in {FORBIDDEN, NOT_FOUND}:
                raise
            return None
        return next(iter(found["items"]), None)

    def remove_all(self) -> None:
        for one in self._jobs():
            with ignoring(NOT_FOUND):
                self._batch.delete_namespaced_job(one.metadata.name, self.namespace, propagation_policy="Background")
        for one in self.core.list_namespaced_service(self.namespace, label_selector=self._selector).items:
            with ignoring(NOT_FOUND):
                self.core.delete_namespaced_service(one.metadata.name, self.namespace)

    def _jobs(self) -> list[Any]:
        return list(self._batch.list_namespaced_job(self.namespace, label_selector=self._selector).items)

    @property
    def _batch(self) -> Any:
        return BatchV1Api(self.core.api_client)

    @property
    def _custom(self) -> Any:
        return CustomObjectsApi(self.core.api_client)


class JobSetObjects(JobObjects):
    """The JobSet of one run, which has a service of its own."""

    __slots__ = ()

    @staticmethod
    def name_of(run: Run, attempt: int) -> str:
        """The names of its pods also contain the slice."""
        return f"job-{run.test[:24].rstrip('-')}-{run.key[:8]}-{attempt}"

    def create(self, body: Manifest) -> None:
        with self._known():
            self._custom.create_namespaced_custom_object(*self._place, job_set_of(self.test, body))

    def adopt(self, name: str) -> None:
        pass

    def is_there(self) -> bool:
        return any(not one["metadata"].get("deletionTimestamp") for one in self._job_sets())

    def read(self, name: str, *, with_events: bool = False) -> Hosts:
        found: Any = self._custom.get_namespaced_custom_object(*self._place, name)
        pods = plain(self.core.list_namespaced_pod(self.namespace, label_selector=f"{NAME_LABEL}={name}"))["items"]
        hosts = numbered(found, pods)
        job = as_job(found, hosts)
        return Hosts(job, hosts, *self.explanations(job, hosts) if with_events else ())

    def remove_all(self) -> None:
        for one in self._job_sets():
            name = one["metadata"]["name"]
            with ignoring(NOT_FOUND):
                self._custom.delete_namespaced_custom_object(*self._place, name, propagation_policy="Background")

    def _job_sets(self) -> list[Manifest]:
        with self._known():
            found: Any = self._custom.list_namespaced_custom_object(*self._place, label_selector=self._selector)
        return list(found["items"])

    @contextmanager
    def _known(self) -> Iterator[None]:
        """Raise ConfigError if the cluster does not know JobSets."""
        try:
            yield
        except ApiException as error:
            raise (ConfigError(NO_JOB_SETS) if error.status == NOT_FOUND else error) from error

    @property
    def _place(self) -> tuple[str, str, str, str]:
        return GROUP, VERSION, self.namespace, PLURAL


@contextmanager
def ignoring(status: int) -> Iterator[None]:
    """Ignore a status: an earlier process or the cluster itself has done it already."""
    try:
        yield
    except ApiException as error:
        if error.status != status:
            raise
