"""The same operator for a GKE cluster that the test names. Importing this module takes seconds."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.google.cloud.links.kubernetes_engine import KubernetesEngineJobLink, KubernetesEnginePodLink
from airflow.providers.google.cloud.operators.kubernetes_engine import GKEStartPodOperator

from ml_metrics.airflow.operators.run_workload import RunWorkload
from ml_metrics.airflow.versions import checked
from ml_metrics.config.clusters import GOOGLE, cluster_of
from ml_metrics.core.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ml_metrics.config.definition import TestDefinition


ENDPOINTS = {"use_dns_endpoint": "DNS endpoint", "use_internal_ip": "internal address"}


@checked
class RunWorkloadOnGke(RunWorkload, GKEStartPodOperator):
    """Run the workload of a test in its own GKE cluster."""

    operator_extra_links: Any = (KubernetesEnginePodLink(), KubernetesEngineJobLink())

    def __init__(self, *, test: TestDefinition, **options: Any) -> None:
        cluster = cluster_of(test)
        if cluster is None or not cluster.on_gke:
            raise ValueError("the test has no GKE cluster")
        given = {
            "use_dns_endpoint": cluster.use_dns_endpoint,
            "use_internal_ip": cluster.use_internal_ip,
            "impersonation_chain": list(cluster.impersonation_chain or ()),
        }
        own = {
            "project_id": cluster.project,
            "location": cluster.location,
            "cluster_name": cluster.name,
            "gcp_conn_id": cluster.gcp_conn_id or GOOGLE,
            **{key: value for key, value in given.items() if value},  # an older provider does not know all of them
        }
        super().__init__(test=test, **own, **options)

    @cached_property
    def cluster_info(self) -> tuple[str, str]:
        """The address of the control plane, and its certificate authority. Raises ConfigError if it has none."""
        found: tuple[str, str] = super().cluster_info
        if found[0] in {"https://", "https://None"}:
            asked = next((key for key in ENDPOINTS if getattr(self, key)), "")
            raise ConfigError(
                f"{self.test.name}: the GKE cluster has no {ENDPOINTS.get(asked, 'public address')}; "
                f"{'take `' + asked + '` from' if asked else 'give another endpoint in'} [ml_metrics] clusters"
            )
        return found

    def link(self, context: Context, name: str, namespace: str) -> None:
        if self.test.job_set is not None:
            return  # the console has no pages of JobSets
        kind = KubernetesEnginePodLink if self.is_single else KubernetesEngineJobLink
        place = {"project_id": self.project_id, "location": self.location, "cluster_name": self.cluster_name}
        one = {"pod_name" if self.is_single else "job_name": name, "namespace": namespace}
        context["ti"].xcom_push(key=kind.key, value={**place, **one})
