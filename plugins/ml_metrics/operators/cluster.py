"""The cluster and namespace in which the pods of a test run, and the restrictions of that cluster."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics.config.accelerator import Kind
from ml_metrics.connections import cluster_kubeconfig
from ml_metrics.errors import ConfigError
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from ml_metrics.config.definition import TestDefinition

COMPOSER_NAMESPACE = "composer-user-workloads"
"""The only namespace in which Cloud Composer runs pods."""
COMPOSER_KUBECONFIG = Path("/home/airflow/composer_kube_config")


@dataclass(frozen=True, slots=True)
class Place:
    """Where pods run."""

    kubeconfig: str | None
    """A kubeconfig that takes precedence over the connection."""
    connection: str | None
    """The Airflow connection."""
    namespace: str | None
    """None means the namespace of the connection."""


def place_of(test: TestDefinition) -> Place:
    """Return the place for a test without `cluster`. Raises ConfigError if the test cannot run there."""
    settings = Settings.load()
    if kubeconfig := cluster_kubeconfig():
        return Place(kubeconfig, None, test.namespace)
    if "COMPOSER_ENVIRONMENT" in os.environ and settings.kubernetes_conn_id == "kubernetes_default":
        _check_for_composer(test)
        kubeconfig = str(COMPOSER_KUBECONFIG) if COMPOSER_KUBECONFIG.exists() else None
        return Place(kubeconfig, settings.kubernetes_conn_id, COMPOSER_NAMESPACE)
    return Place(None, settings.kubernetes_conn_id, test.namespace)


def _check_for_composer(test: TestDefinition) -> None:
    own = "give a GKE cluster of your own: `cluster: {project: ..., location: ..., name: ...}`"
    if test.namespace not in {None, COMPOSER_NAMESPACE}:
        raise ConfigError(
            f"{test.name}: Cloud Composer runs pods in the namespace {COMPOSER_NAMESPACE} only, "
            f"not in {test.namespace!r}; leave `namespace` out, or {own}"
        )
    if test.accelerator.kind is not Kind.CPU or test.hosts > 1:
        raise ConfigError(
            f"{test.name}: Cloud Composer's own cluster runs single pods without accelerators only; {own}"
        )
