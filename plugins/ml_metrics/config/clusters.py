"""The clusters of the administrator: how Airflow connects to each, under a name that test files can use.

They are in a YAML file that the setting `clusters` names. The keys are those of Airflow's operators for GKE and
Kubernetes. A test file names a cluster and nothing of this: its author does not choose the account that Airflow uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.settings_file import settings_file
from ml_metrics.config.strict import Strict, matching
from ml_metrics.core.airflow_options import airflow_option
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.settings import SECTION, Settings
from ml_metrics.core.text import did_you_mean

GOOGLE = "google_cloud_default"

Text = Annotated[str, Field(min_length=1)]
Account = Annotated[
    str,
    matching(
        r"[A-Za-z0-9._-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+",
        "a service account like tests@my-project.iam.gserviceaccount.com",
    ),
]
Chain = Annotated[
    tuple[Account, ...],
    BeforeValidator(lambda given: (given,) if isinstance(given, str) else given),
    Field(min_length=1),
]
ClusterName = Annotated[
    str,
    matching(
        r"(?!(?:auto|local|kubernetes)$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
        "the name of a cluster: use a-z, 0-9 and '-', and not auto, kubernetes, local",
    ),
]


class ClusterAccess(Strict):
    """How Airflow connects to a cluster: to a GKE cluster, by a Kubernetes connection, or to its own cluster."""

    project: Text | None = None
    """The Google Cloud project of a GKE cluster."""
    location: Text | None = None
    """Its region or zone."""
    name: Text | None = None
    """Its name, if it is not the name above it."""
    use_dns_endpoint: bool = False
    """Connect by its DNS endpoint, which works from other networks without a public address."""
    use_internal_ip: bool = False
    """Connect by its internal address, from a network that reaches it."""
    gcp_conn_id: Text | None = None
    """The Airflow connection to Google Cloud. Default: `google_cloud_default`."""
    impersonation_chain: Chain | None = None
    """The service account that Airflow becomes, or a list of accounts, each of which becomes the next."""
    kubernetes_conn_id: Text | None = None
    """The Airflow connection to any other cluster."""
    context: Text | None = None
    """The context of that connection's kubeconfig. Default: the current one."""
    in_cluster: bool = False
    """Airflow's own cluster, with the service account of its pods."""
    namespace: Text | None = None
    """The namespace of tests that name none. Default: the setting `namespace`, else the connection's."""

    @model_validator(mode="after")
    def one_way_to_connect(self) -> Self:
        given = [key for key, value in self if value and key != "namespace"]
        kubernetes = [key for key in given if key in {"kubernetes_conn_id", "context", "in_cluster"}]
        google = [key for key in given if key not in kubernetes]
        if google and kubernetes:
            raise ValueError(f"{google[0]!r} is for GKE and {kubernetes[0]!r} for other clusters: give one of them")
        if google and not (self.project and self.location):
            raise ValueError(f"{google[0]!r} is for GKE, which needs `project` and `location`")
        if not google and not kubernetes:
            raise ValueError("give `project` and `location` of a GKE cluster, `kubernetes_conn_id`, or `in_cluster`")
        if self.use_dns_endpoint and self.use_internal_ip:
            raise ValueError("give `use_dns_endpoint` or `use_internal_ip`: a connection has one address")
        if self.in_cluster and (self.kubernetes_conn_id or self.context):
            raise ValueError("`in_cluster` uses no connection and no context: leave those out")
        if self.context and not self.kubernetes_conn_id:
            raise ValueError("`context` is one of a kubeconfig, which needs `kubernetes_conn_id`")
        return self

    @property
    def on_gke(self) -> bool:
        return self.project is not None


class Clusters(Strict):
    """The file of the setting `clusters`."""

    clusters: dict[ClusterName, ClusterAccess]
    """How Airflow connects to each cluster, by name."""

    def named(self, name: str) -> ClusterAccess | None:
        """With the name that GKE knows; None if there is none."""
        found = self.clusters.get(name)
        if found is None or not found.on_gke or found.name:
            return found
        return found.model_copy(update={"name": name})


def cluster_of(test: TestDefinition) -> ClusterAccess | None:
    """None if the setting `kubernetes_conn_id` or `cluster` states it.

    Raises ConfigError if the settings have no such cluster, or if their file of clusters cannot be used.
    """
    asked = test.cluster
    if asked is None:
        default = airflow_option(SECTION, "cluster") or "auto"  # thousands of tests ask when DAGs are parsed
        unnamed = default in {"auto", "local", "kubernetes"}
        return None if unnamed else named_cluster(default, f"[{SECTION}] cluster")
    if asked.project is None:
        return named_cluster(asked.name, "cluster")
    wanted = (asked.project, asked.location, asked.name)
    known = configured_clusters()
    same = {
        name: found
        for name in known.clusters
        if (found := known.named(name)) is not None and (found.project, found.location, found.name) == wanted
    }
    if len(same) > 1:
        raise ConfigError(
            f"cluster: {' and '.join(map(repr, same))} of [ml_metrics] clusters are both this cluster; name one of "
            f"them: `cluster: {next(iter(same))}`"
        )
    own = ClusterAccess(project=asked.project, location=asked.location, name=asked.name)
    return next(iter(same.values()), own)


def namespace_of(test: TestDefinition) -> str | None:
    """None for that of the connection. Raises ConfigError as `cluster_of`."""
    cluster = cluster_of(test)
    return test.namespace or (cluster.namespace if cluster else None) or airflow_option(SECTION, "namespace") or None


def named_cluster(name: str, where: str) -> ClusterAccess:
    """`where` is the key that names it."""
    known = configured_clusters()
    if found := known.named(name):
        return found
    if not Settings.load().clusters:
        raise ConfigError(
            f"{where}: {name!r} is the name of a cluster, but no file has its address: set [ml_metrics] clusters"
        )
    raise ConfigError(f"{where}: no cluster {name!r} in {Settings.load().clusters}{did_you_mean(name, known.clusters)}")


def configured_clusters() -> Clusters:
    """Raises InvalidFileError if their file cannot be used."""
    settings = Settings.load()
    if not settings.clusters:
        return Clusters(clusters={})
    return settings_file(settings.clusters, Clusters, "the file of clusters", settings.config_root)


def pool_of(test: TestDefinition, configured: Iterable[str]) -> str | None:
    """Return the pool of the test; else the configured pool of its accelerator, else of the accelerator's kind.

    None means Airflow's default pool. Only configured pools are used, because Airflow never schedules a task whose pool
    does not exist, and reports that only in its own log.
    """
    names = set(configured)
    accelerator = test.accelerator
    own = (name for name in (accelerator.name, str(accelerator.kind)) if name in names)
    return test.pool or next(own, None)
