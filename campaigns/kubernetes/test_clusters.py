"""`ml-metrics clusters check` with the service account of the suite, which has the Role of the docs alone."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from campaigns.kubernetes.cluster import Cluster
from ml_metrics.airflow.clusters.permissions import PERMISSIONS

pytestmark = [pytest.mark.e2e]


def checked(cluster: Cluster, namespace: str) -> tuple[int, dict[str, Any]]:
    """Ask the cluster directly: the recorder of the suite counts the requests of runs."""
    kubeconfig = json.dumps(cluster.access.kubeconfig())
    connection = {"conn_type": "kubernetes", "extra": {"kube_config": kubeconfig}}
    done = subprocess.run(
        ["ml-metrics", "clusters", "check", "--namespace", namespace, "--json"],
        env={
            **cluster.home.environment,
            "AIRFLOW__ML_METRICS__CLUSTER": "kubernetes",
            "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps(connection),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    (found,) = json.loads(done.stdout)["clusters"]
    return done.returncode, found


def test_the_role_of_the_docs_is_all_that_is_needed(cluster: Cluster) -> None:
    code, found = checked(cluster, cluster.access.namespace)
    assert (code, found["missing"], found["node_pools"]) == (0, [], None)
    account = f"system:serviceaccount:{cluster.access.namespace}:ml-metrics"
    assert found["user"] in {None, account}, "before Kubernetes 1.28, a cluster does not tell"


def test_in_another_namespace_everything_is_missing(cluster: Cluster) -> None:
    code, found = checked(cluster, "default")
    assert (code, len(found["missing"])) == (1, len(PERMISSIONS))
