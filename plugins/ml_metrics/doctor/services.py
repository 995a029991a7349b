"""The services that tests need: clusters, and the channels of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.channels.smtp import Smtp
from ml_metrics.alerts.channels.unusable import Unusable
from ml_metrics.config.airflow_namespace import airflow_namespaces
from ml_metrics.config.clusters import configured_clusters
from ml_metrics.config.policy import current_policy
from ml_metrics.config.policy_check import refused_namespace
from ml_metrics.connections import uses_local_cluster
from ml_metrics.errors import ClusterError, ConfigError
from ml_metrics.notify.channel_factories import channel_of, outbox_of

if TYPE_CHECKING:
    from ml_metrics.settings import Settings


def cluster_names(settings: Settings) -> tuple[str | None, ...]:
    """Return the clusters to check: those of the setting `clusters`, and the one of tests that name none, as None."""
    named = tuple(sorted(configured_clusters().clusters))
    return named if settings.cluster in named else (None, *named)


def cluster(name: str | None, settings: Settings, seconds: float) -> str:
    """Return Airflow's account in a cluster. Raises ClusterError without an answer, or if a permission is missing."""
    if name is None and uses_local_cluster(settings):
        return _local_cluster()
    from ml_metrics.operators.cluster_check import check_cluster

    found = check_cluster(name, None, seconds)
    if refused := refused_namespace(found.namespace, current_policy()):
        raise ConfigError(f"{refused}; docs/kubernetes.md, `A namespace for workloads`, has the steps")
    if missing := [str(one) for one in found.missing or () if not one.for_hosts]:
        who = found.user or "Airflow"
        raise ClusterError(
            f"{who} may not {', '.join(missing)} in namespace {found.namespace}: grant the Role of docs/kubernetes.md"
        )
    known = (
        "" if airflow_namespaces() else "; Airflow's own namespace is not known here ([ml_metrics] airflow_namespace)"
    )
    who = found.user or "an unknown user"
    return f"Kubernetes {found.version} at {found.server}, as {who}, in namespace {found.namespace}{known}"


def channel(name: str, settings: Settings, seconds: float) -> str:
    """Return that a channel can be used; no message is sent. Raises ConfigError if it cannot."""
    found: Any = channel_of(name, settings, outbox_of(settings))
    if isinstance(found, Unusable):
        raise ConfigError(found.reason)
    if isinstance(found, Smtp):
        return found.check(seconds)
    return "its connection is complete; nothing was sent"


def _local_cluster() -> str:
    from importlib.util import find_spec

    from ml_metrics.clusters.local_cluster import NOT_INSTALLED

    if find_spec("local_kube") is None:
        raise ConfigError(NOT_INSTALLED)
    return "the local cluster: workloads are processes of this machine"
