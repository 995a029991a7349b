"""The Kubernetes objects of a workload of several Jobs: a JobSet, which makes Jobs, pods and a service itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubernetes.client import ApiClient, CustomObjectsApi
from kubernetes.client.exceptions import ApiException

from ml_metrics.clusters.hosts import Hosts
from ml_metrics.clusters.job_set import GROUP, NAME_LABEL, PLURAL, VERSION, as_job, numbered
from ml_metrics.errors import ConfigError
from ml_metrics.operators.host_objects import HostObjects, ignoring
from ml_metrics.operators.run_workload import NOT_FOUND

if TYPE_CHECKING:
    from ml_metrics.clusters.manifests import Manifest

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
