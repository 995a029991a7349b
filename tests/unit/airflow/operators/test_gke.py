"""The provider's operators get every option of a cluster, and the address that was asked for."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from google.cloud.container_v1.types import Cluster
from kubernetes.config import ConfigException

from ml_metrics import ConfigError, TestDefinition
from ml_metrics.airflow.operators.chosen_operator import workload_operator
from ml_metrics.airflow.operators.gke import RunWorkloadOnGke
from ml_metrics.airflow.operators.run_workload import RunWorkload, logs_command, workload_link
from ml_metrics.config.clusters import ClusterAccess
from ml_metrics.core.model import JobStatus, Workload

CHAIN = ["a@p.iam.gserviceaccount.com", "b@p.iam.gserviceaccount.com"]
PRIVATE = Cluster(
    endpoint="34.1.1.1",
    private_cluster_config={"private_endpoint": "10.0.0.2"},
    control_plane_endpoints_config={"dns_endpoint_config": {"endpoint": "gke-1.us-central1.gke.goog"}},
    master_auth={"cluster_ca_certificate": "Y2E="},
)


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(hosts: int = 1, **options: Any) -> Any:
        (tmp_path / "clusters.yaml").write_text(yaml.safe_dump({"clusters": {"tpus": options}}))
        monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTERS", str(tmp_path / "clusters.yaml"))
        content = {"name": "t", "image": "i", "command": ["x"], "hosts": hosts, "cluster": "tpus"}
        return workload_operator(TestDefinition.model_validate(content), task_id="run_workload")

    return make


@pytest.mark.parametrize(("hosts", "kind", "page"), [(1, "pod", "pod_name"), (2, "job", "job_name")])
def test_every_option_reaches_the_operator(
    hosts: int, kind: str, page: str, operator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", "google-cloud-platform://")
    made = operator(
        hosts,
        project="p",
        location="l",
        name="n",
        use_dns_endpoint=True,
        gcp_conn_id="other",
        impersonation_chain=CHAIN,
        namespace="ml",
    )
    assert type(made) is RunWorkloadOnGke
    assert (made.project_id, made.location, made.cluster_name, made.namespace) == ("p", "l", "n", "ml")
    assert (made.use_dns_endpoint, made.use_internal_ip) == (True, False)
    assert (made.gcp_conn_id, made.impersonation_chain) == ("other", CHAIN)
    assert (made.cluster_hook.gcp_conn_id, made.cluster_hook.impersonation_chain) == ("other", CHAIN)
    pushed: dict[str, Any] = {}
    made.link({"ti": SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))}, "x", "ml")
    place = {"project_id": "p", "location": "l", "cluster_name": "n", "namespace": "ml", page: "x"}
    assert pushed == {f"kubernetes_{kind}_conf": place}, "the task links to its page in the console"


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ({}, "https://34.1.1.1"),
        ({"use_internal_ip": True}, "https://10.0.0.2"),
        ({"use_dns_endpoint": True}, "https://gke-1.us-central1.gke.goog"),
    ],
)
def test_the_address_is_the_one_that_was_asked_for(options: dict[str, Any], address: str, operator: Any) -> None:
    made = operator(project="p", location="l", **options)
    made.__dict__["cluster_hook"] = SimpleNamespace(get_cluster=lambda **_: PRIVATE)
    assert made.cluster_url == address


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({}, "has no public address; give another endpoint in"),
        ({"use_internal_ip": True}, "has no internal address; take `use_internal_ip` from"),
        ({"use_dns_endpoint": True}, "has no DNS endpoint; take `use_dns_endpoint` from"),
    ],
)
def test_an_address_that_the_cluster_has_not_is_an_error(options: dict[str, Any], what: str, operator: Any) -> None:
    made = operator(project="p", location="l", **options)
    made.__dict__["cluster_hook"] = SimpleNamespace(get_cluster=lambda **_: Cluster())
    with pytest.raises(ConfigError, match=what):
        _ = made.cluster_url


def test_another_cluster_is_used_by_its_connection(operator: Any) -> None:
    made = operator(kubernetes_conn_id="lab", context="c", namespace="ml")
    assert type(made) is RunWorkload
    made.use_cluster()
    assert (made.kubernetes_conn_id, made.cluster_context, made.in_cluster, made.namespace) == ("lab", "c", None, "ml")
    assert (made.hook.conn_id, made.hook.cluster_context) == ("lab", "c")


def test_a_namespace_that_a_policy_gave_a_task_stays(operator: Any) -> None:
    made = operator(kubernetes_conn_id="lab", context="c")
    made.namespace = "of-a-policy"
    made.use_cluster()
    assert made.namespace == "of-a-policy"


def test_the_cluster_around_airflow_needs_no_connection(operator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = '{"conn_type": "kubernetes", "extra": {"kube_config_path": "/another/cluster"}}'
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", connection)
    made = operator(in_cluster=True)
    made.use_cluster()
    assert (made.kubernetes_conn_id, made.in_cluster) == (None, True)
    with pytest.raises(ConfigException, match="Service host/port is not set"):
        _ = made.client  # what a pod has, and this process has not


GKE = ClusterAccess(project="a-project", location="us-central1-a", name="tests")
PAGE = "http://airflow:8080/dags/a-test/runs/manual__2026-01-01T00%3A00%3A00/tasks/run_workload?try_number=2"
RAN = Workload(JobStatus.SUCCESS, namespace="ns", pod="a-pod", queued_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


def test_a_pod_on_gke_has_a_page() -> None:
    assert workload_link(GKE, "ns", "pod", "a-pod") == (
        "https://console.cloud.google.com/kubernetes/pod/us-central1-a/tests/ns/a-pod/details?project=a-project"
    )
    for other in (None, ClusterAccess(in_cluster=True)):
        assert workload_link(other, "ns", "pod", "a-pod") is None


def test_logs_on_gke_are_downloaded_from_cloud_logging() -> None:
    words = shlex.split(logs_command(GKE, RAN, PAGE))
    assert words[:3] == ["gcloud", "logging", "read"]
    assert words[3].split(" AND ") == [
        'resource.type="k8s_container"',
        'resource.labels.project_id="a-project"',
        'resource.labels.location="us-central1-a"',
        'resource.labels.cluster_name="tests"',
        'resource.labels.namespace_name="ns"',
        'resource.labels.pod_name="a-pod"',
        'timestamp>="2026-01-02T03:04:05+00:00"',
    ]


def test_other_logs_are_downloaded_from_airflow() -> None:
    assert shlex.split(logs_command(None, RAN, PAGE)) == [
        "curl",
        "-fsS",
        "-H",
        "Authorization: Bearer $AIRFLOW_TOKEN",
        (
            "http://airflow:8080/api/v2/dags/a-test/dagRuns/manual__2026-01-01T00%3A00%3A00/taskInstances/run_workload"
            "/logs/2?full_content=true"
        ),
    ]
