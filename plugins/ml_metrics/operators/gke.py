"""The same operators for a GKE cluster that the test names. Importing this module takes seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.google.cloud.operators.kubernetes_engine import GKEStartJobOperator, GKEStartPodOperator

from ml_metrics.operators.run_hosts import RunHosts
from ml_metrics.operators.run_job_set import RunJobSet
from ml_metrics.operators.run_workload import RunWorkload

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.config.pod import Cluster


class RunWorkloadOnGke(RunWorkload, GKEStartPodOperator):
    """Run the workload of a test in one pod of its own GKE cluster."""

    def __init__(self, *, test: TestDefinition, **options: Any) -> None:
        super().__init__(test=test, **_where(test.cluster), **options)


class RunHostsOnGke(RunHosts, GKEStartJobOperator):
    """Run the workload of a test on several hosts of its own GKE cluster."""

    invoke_defer_method = GKEStartPodOperator.invoke_defer_method
    """The triggerer watches a pod, as for a workload in one."""

    def __init__(self, *, test: TestDefinition, **options: Any) -> None:
        super().__init__(test=test, **_where(test.cluster), **options)

    def execute(self, context: Context) -> None:
        """Run the Job, with a link from the task to its page in the Google Cloud console."""
        self._job_link_context = context
        super().execute(context)


class RunJobSetOnGke(RunJobSet, RunHostsOnGke):
    """Run the workload of a test as a JobSet in its own GKE cluster."""


def _where(cluster: Cluster | None) -> dict[str, str]:
    if cluster is None:
        raise ValueError("the test has no GKE cluster")
    return {"project_id": cluster.project, "location": cluster.location, "cluster_name": cluster.name}
