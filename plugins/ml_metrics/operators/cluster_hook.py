"""The provider's hook, which gets a kubeconfig as data that was checked, and never reads one itself."""

from __future__ import annotations

import os
from typing import Any

from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import BaseHook, Connection
from kubernetes.config.incluster_config import SERVICE_CERT_FILENAME, SERVICE_TOKEN_FILENAME

from ml_metrics.airflow_versions import AirflowNotFoundException, check_names
from ml_metrics.clusters.kubeconfig import kubeconfig_file, kubeconfig_text
from ml_metrics.errors import ConfigError
from ml_metrics.operators.cluster import COMPOSER_KUBECONFIG
from ml_metrics.settings import Settings, is_on

KUBECONFIG = "KUBECONFIG"
DEFAULT_KUBECONFIG = "~/.kube/config"
IN_CONNECTION = ("kube_config_path", "kube_config")

# without them, a kubeconfig would be used that nobody has checked
check_names(KubernetesHook, "get_conn", "_get_field", "_get_default_client")
check_names(KubernetesPodOperator, "convert_config_file_to_dict")


class CheckedHook(KubernetesHook):
    """Connects as the provider's hook does, by the connection or a kubeconfig."""

    _checked = False

    @classmethod
    def get_connection(cls, conn_id: str) -> Any:
        """Return a connection; an empty one if the default connection does not exist.

        The provider's hook then makes one of Airflow's database models, which configures all of them: 0.3 CPU seconds
        in a task whose parent process has not done so.
        """
        try:
            return BaseHook.get_connection(conn_id)
        except AirflowNotFoundException:
            if conn_id == cls.default_conn_name:
                return Connection(conn_id=conn_id, conn_type=cls.conn_type)
            raise

    def get_conn(self) -> Any:
        """Return a client. Raises ConfigError for a kubeconfig with programs, or that others could have written."""
        in_cluster = self._get_field("in_cluster") if self.in_cluster is None else self.in_cluster
        path = self.config_file or self._get_field("kube_config_path")
        text = self._get_field("kube_config")
        if not in_cluster and not self.config_dict and bool(path) != bool(text):
            context = self.cluster_context or self._get_field("cluster_context")
            self._use(kubeconfig_of(path, text, context, f"connection `{self.conn_id}`"))
        return super().get_conn()

    def _get_field(self, field_name: str) -> Any:
        """Return a field of the connection, without the kubeconfig once it was checked or if it does not count."""
        if (self._checked or self.in_cluster) and field_name in IN_CONNECTION:
            return None
        return super()._get_field(field_name)  # type: ignore[no-untyped-call]

    def _get_default_client(self, *, cluster_context: str | None = None, **options: Any) -> Any:
        """Return the client for a connection that names nothing: the cluster around this process, or the usual file."""
        path = default_kubeconfig()
        if is_in_cluster() or path is None:
            return super()._get_default_client(cluster_context=cluster_context, **options)
        self._use(kubeconfig_of(path, None, cluster_context, ""))
        return super().get_conn()

    def _use(self, content: dict[str, Any]) -> None:
        self.config_dict, self.config_file, self._checked = content, None, True


def kubeconfig_of(path: str | None, text: Any, context: str | None, where: str) -> dict[str, Any]:
    """Return a kubeconfig from a file or a text, checked by the rules of the settings."""
    of_composer = path == str(COMPOSER_KUBECONFIG)  # Google's own, with the program of GKE
    programs = of_composer or is_on(Settings.load().kubeconfig_programs, "kubeconfig_programs")
    if path:
        return kubeconfig_file(path, context=context, programs=programs)
    return kubeconfig_text(text, where, context=context, programs=programs)


def default_kubeconfig() -> str | None:
    """Return the kubeconfig that Kubernetes' client would read by itself; None if there is none."""
    given = os.environ.get(KUBECONFIG, DEFAULT_KUBECONFIG).split(os.pathsep)
    paths = [path for path in map(os.path.expanduser, filter(None, given)) if os.path.exists(path)]  # noqa: PTH110
    if len(paths) > 1:
        raise ConfigError(f"{KUBECONFIG} names several files, {', '.join(paths)}; name one")
    return paths[0] if paths else None


def is_in_cluster() -> bool:
    """Return whether this process runs in a pod that can use its own cluster."""
    files = (SERVICE_TOKEN_FILENAME, SERVICE_CERT_FILENAME)
    return "KUBERNETES_SERVICE_HOST" in os.environ and all(map(os.path.isfile, files))
