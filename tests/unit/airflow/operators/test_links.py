from __future__ import annotations

import shlex
from datetime import UTC, datetime

from ml_metrics.airflow.operators.run_workload import logs_command, workload_link
from ml_metrics.config.clusters import ClusterAccess
from ml_metrics.core.model import JobStatus, Workload

GKE = ClusterAccess(project="a-project", location="us-central1-a", name="tests")
PAGE = "http://airflow:8080/dags/a-test/runs/manual__2026-01-01T00%3A00%3A00/tasks/run_workload?try_number=2"
RAN = Workload(JobStatus.SUCCESS, namespace="ns", pod="a-pod", queued_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


def test_a_pod_on_gke_has_a_page() -> None:
    assert workload_link(GKE, "ns", "pod", "a-pod") == (
        "https://console.cloud.google.com/kubernetes/pod/us-central1-a/tests/ns/a-pod/details?project=a-project"
    )
    assert workload_link(None, "ns", "pod", "a-pod") is None


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
