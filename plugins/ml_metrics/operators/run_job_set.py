"""The operator that runs a workload of several Jobs, such as a TPU multislice, as a JobSet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubernetes.client import ApiClient

from ml_metrics.clusters.job_set import job_set_of
from ml_metrics.operators.job_set_objects import JobSetObjects
from ml_metrics.operators.run_hosts import RunHosts

if TYPE_CHECKING:
    from kubernetes.client import models as k8s

    from ml_metrics.model import Workload


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
