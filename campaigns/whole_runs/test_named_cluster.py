"""Whole runs in a cluster that the settings name, by its connection and a context of its kubeconfig."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from google.cloud import container_v1

from airflow_home import Home
from ml_metrics.core.model import JobStatus
from servers.google_over_tls import google_service

pytestmark = pytest.mark.e2e


@pytest.fixture
def settings(home: Home) -> dict[str, str]:
    """A kubeconfig whose current context leads nowhere, and a cluster `lab` that is its other context."""
    known = yaml.safe_load(Path(home.local_cluster().ensure_running()).read_text())
    right = known["contexts"][0]
    known["contexts"] = [
        {"name": "wrong", "context": {"cluster": "wrong", "user": "wrong"}},
        {"name": "nightly", "context": right["context"]},
    ]
    known["clusters"].append({"name": "wrong", "cluster": {"server": "https://127.0.0.1:9"}})
    known["current-context"] = "wrong"
    file = home.path / "kubeconfig"
    file.write_text(yaml.safe_dump(known))
    file.chmod(0o600)
    clusters = home.path / "clusters.yaml"
    clusters.write_text("clusters: {lab: {kubernetes_conn_id: lab, context: nightly, namespace: default}}")
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(file)}}
    return {
        "AIRFLOW_CONN_LAB": json.dumps(connection),
        "AIRFLOW__ML_METRICS__CLUSTERS": str(clusters),
        # without a name, a run would go nowhere
        "AIRFLOW__ML_METRICS__CLUSTER": "kubernetes",
        "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps({**connection, "extra": {"kube_config_path": "/nowhere"}}),
    }


@pytest.mark.parametrize("deferrable", ["False", "True"])
def test_a_test_runs_in_the_cluster_that_it_names(deferrable: str, home: Home, settings: dict[str, str]) -> None:
    name = home.add_test(f"in-lab-{deferrable.lower()}", command=["echo", "hello"], cluster="lab")
    done = home.airflow("dags", "test", name, AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE=deferrable, **settings)
    assert done.returncode == 0, done.stdout[-3000:]
    with home.warehouse() as warehouse:
        (run,) = warehouse.runs.newest(name)
    assert run.job_status == JobStatus.SUCCESS


def test_several_hosts_run_in_the_default_cluster_of_the_settings(home: Home, settings: dict[str, str]) -> None:
    name = home.add_test("hosts-in-lab", command=["echo", "hello"], hosts=2)
    done = home.airflow("dags", "test", name, **{**settings, "AIRFLOW__ML_METRICS__CLUSTER": "lab"})
    assert done.returncode == 0, done.stdout[-3000:]
    with home.warehouse() as warehouse:
        (run,) = warehouse.runs.newest(name)
    assert run.job_status == JobStatus.SUCCESS


def test_the_cluster_can_be_checked(home: Home, settings: dict[str, str]) -> None:
    done = subprocess.run(
        ["ml-metrics", "clusters", "check", "lab"],
        env={**home.environment, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "namespace    default" in done.stdout
    assert "permissions  unknown: the cluster does not report them" in done.stdout


def test_a_private_gke_cluster_is_reached_at_its_internal_address(home: Home, tmp_path: Path) -> None:
    """With Google's client in an unmodified process: the public address of this cluster leads nowhere."""
    kubeconfig = yaml.safe_load(Path(home.local_cluster().ensure_running()).read_text())
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    found = container_v1.Cluster(
        name="accelerators",
        endpoint="127.0.0.1:9",
        private_cluster_config={"private_endpoint": cluster["server"].removeprefix("https://")},
        master_auth={"cluster_ca_certificate": cluster["certificate-authority-data"]},
    )
    asked: list[str] = []

    def get(request: Any, _: grpc.ServicerContext) -> Any:
        asked.append(request.name)
        return found

    method = grpc.unary_unary_rpc_method_handler(
        get,
        request_deserializer=container_v1.GetClusterRequest.deserialize,
        response_serializer=container_v1.Cluster.serialize,
    )
    handler = grpc.method_handlers_generic_handler("google.container.v1.ClusterManager", {"GetCluster": method})
    (tmp_path / "clusters.yaml").write_text(
        "clusters: {tpus: {project: p, location: l, name: accelerators, use_internal_ip: true, gcp_conn_id: tests}}"
    )
    name = home.add_test("on-private-gke", command=["sh", "-c", "echo hello; sleep 1"], cluster="tpus")
    elsewhere: list[str] = []
    with google_service("container.googleapis.com", handler, tmp_path, elsewhere, user["token"]) as variables:
        settings = {
            **variables,
            "AIRFLOW__ML_METRICS__CLUSTERS": str(tmp_path / "clusters.yaml"),
            "AIRFLOW__ML_METRICS__CLUSTER": "kubernetes",
            "AIRFLOW_CONN_TESTS": "google-cloud-platform://",
        }
        done = home.airflow("dags", "test", name, **settings)
    assert done.returncode == 0, done.stdout[-5000:]
    assert set(asked) == {"projects/p/locations/l/clusters/accelerators"}
    with home.warehouse() as warehouse:
        (run,) = warehouse.runs.newest(name)
    assert run.job_status == JobStatus.SUCCESS
