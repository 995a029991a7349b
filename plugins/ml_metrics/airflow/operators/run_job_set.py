"""The operator that runs a workload of several Jobs, such as a TPU multislice, as a JobSet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubernetes.client import ApiClient, CustomObjectsApi
from kubernetes.client.exceptions import ApiException

from ml_metrics.airflow.clusters.hosts import Hosts
from ml_metrics.airflow.clusters.manifests import GROUP, NAME_LABEL, PLURAL, VERSION, as_job, job_set_of, numbered
from ml_metrics.airflow.operators.run_hosts import HostObjects, RunHosts, ignoring
from ml_metrics.airflow.operators.run_workload import NOT_FOUND
from ml_metrics.core.errors import ConfigError

if TYPE_CHECKING:
    from kubernetes.client import models as k8s

    from ml_metrics.airflow.clusters.manifests import Manifest
    from ml_metrics.core.model import Workload


NO_JOB_SETS = (
    f"this cluster has no JobSets ({GROUP}/{VERSION}), which `job_set` needs: install the JobSet controller, or leave "
    "`job_set` out"
)


@dataclass(frozen=True, slots=True)
class JobSetObjects(HostObjects):
    """The objects of one run in the cluster."""

    def newest_job(self) -> Manifest | None:
        """Return the newest JobSet of the run that is not being deleted."""
        present = [one for one in self._job_sets() if not one["metadata"].get("deletionTimestamp")]
        return max(present, key=lambda one: str(one["metadata"]["creationTimestamp"]), default=None)

    def create_job_set(self, body: Manifest) -> None:
        """Create a JobSet. Raises ConfigError if the cluster does not know them."""
        try:
            self._api.create_namespaced_custom_object(GROUP, VERSION, self.namespace, PLURAL, body)
        except ApiException as error:
            raise (ConfigError(NO_JOB_SETS) if error.status == NOT_FOUND else error) from error

    def read_hosts(self, name: str, *, with_events: bool = False) -> Hosts:
        """Return a JobSet with the pods of all its Jobs, and on request their events."""
        plain = ApiClient().sanitize_for_serialization
        found: Any = self._api.get_namespaced_custom_object(GROUP, VERSION, self.namespace, PLURAL, name)
        pods = plain(self.core.list_namespaced_pod(self.namespace, label_selector=f"{NAME_LABEL}={name}"))["items"]
        hosts = numbered(found, pods)
        job = as_job(found, hosts)
        return Hosts(job, hosts, *self.explanations(job, hosts) if with_events else ())

    def remove_all(self) -> None:
        """Remove every JobSet of the run; the cluster removes what it has made."""
        for one in self._job_sets():
            with ignoring(NOT_FOUND):
                self._api.delete_namespaced_custom_object(
                    GROUP, VERSION, self.namespace, PLURAL, one["metadata"]["name"], propagation_policy="Background"
                )

    def _job_sets(self) -> list[Manifest]:
        try:
            found: Any = self._api.list_namespaced_custom_object(
                GROUP, VERSION, self.namespace, PLURAL, label_selector=self.selector
            )
        except ApiException as error:
            raise (ConfigError(NO_JOB_SETS) if error.status == NOT_FOUND else error) from error
        return list(found["items"])

    @property
    def _api(self) -> Any:
        return CustomObjectsApi(self.core.api_client)


class RunJobSet(RunHosts):
    """Run the workload of a test as a JobSet with one Job for each slice."""

    kind_of_object = "pod"
    max_name_length = 24
    """The names of its pods also contain the slice."""

    def _objects(self) -> JobSetObjects:
        return JobSetObjects(self.client, self.job_client, self.own_namespace, dict(self.labels))

    def name_of_object(self, end: Workload) -> str | None:
        """Return the name of the first pod: the console has no pages of JobSets."""
        return end.pod

    def _check_created(self, name: str) -> None:
        """Nothing is left to do: a JobSet has a service of its own."""

    def _create(self, request: k8s.V1Job) -> None:
        plain: Any = ApiClient().sanitize_for_serialization(request)
        self._objects().create_job_set(job_set_of(self.test, plain))
