"""The same operators for a GKE cluster that the test names. Importing this module takes seconds."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.google.cloud.operators.kubernetes_engine import GKEStartJobOperator, GKEStartPodOperator

from ml_metrics.airflow.operators.run_hosts import RunHosts, RunJobSet
from ml_metrics.airflow.operators.run_workload import RunWorkload
from ml_metrics.airflow.private import checked
from ml_metrics.config.clusters import GOOGLE, cluster_of
from ml_metrics.core.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ml_metrics.config.clusters import ClusterAccess
    from ml_metrics.config.definition import TestDefinition


ENDPOINTS = {"use_dns_endpoint": "DNS endpoint", "use_internal_ip": "internal address"}


class OnGke:
    """The part of an operator that connects to a GKE cluster."""

    test: TestDefinition

    @cached_property
    def cluster_info(self) -> tuple[str, str]:
        """The address of the control plane, and its certificate authority. Raises ConfigError if it has none."""
        found: tuple[str, str] = super().cluster_info  # type: ignore[misc]
        if found[0] in {"https://", "https://None"}:
            asked = next((key for key in ENDPOINTS if getattr(self, key)), "")
            raise ConfigError(
                f"{self.test.name}: the GKE cluster has no {ENDPOINTS.get(asked, 'public address')}; "
                f"{'take `' + asked + '` from' if asked else 'give another endpoint in'} [ml_metrics] clusters"
            )
        return found


@checked
class RunWorkloadOnGke(OnGke, RunWorkload, GKEStartPodOperator):
    """Run the workload of a test in one pod of its own GKE cluster."""

    def __init__(self, *, test: TestDefinition, **options: Any) -> None:
        super().__init__(test=test, **_connection(cluster_of(test)), **options)


@checked
class RunHostsOnGke(OnGke, RunHosts, GKEStartJobOperator):
    """Run the workload of a test on several hosts of its own GKE cluster."""

    invoke_defer_method = GKEStartPodOperator.invoke_defer_method
    """The triggerer watches a pod, as for a workload in one."""

    def __init__(self, *, test: TestDefinition, **options: Any) -> None:
        super().__init__(test=test, **_connection(cluster_of(test)), **options)

    def execute(self, context: Context) -> None:
        """Run the Job, with a link from the task to its page in the Google Cloud console."""
        self._job_link_context = context
        super().execute(context)


class RunJobSetOnGke(RunJobSet, RunHostsOnGke):
    """Run the workload of a test as a JobSet in its own GKE cluster."""


def _connection(cluster: ClusterAccess | None) -> dict[str, Any]:
    if cluster is None or not cluster.on_gke:
        raise ValueError("the test has no GKE cluster")
    given = {
        "use_dns_endpoint": cluster.use_dns_endpoint,
        "use_internal_ip": cluster.use_internal_ip,
        "impersonation_chain": list(cluster.impersonation_chain or ()),
    }
    return {
        "project_id": cluster.project,
        "location": cluster.location,
        "cluster_name": cluster.name,
        "gcp_conn_id": cluster.gcp_conn_id or GOOGLE,
        **{key: value for key, value in given.items() if value},  # an older provider does not know all of them
    }
