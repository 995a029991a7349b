"""A workload on several hosts of a real cluster, or the error on a cluster that is too old for it."""

from __future__ import annotations

import pytest
from kubernetes import client

from campaigns.kubernetes.cluster import Cluster, has_indexed_jobs
from ml_metrics.core.model import Workload

pytestmark = [pytest.mark.e2e]


def test_two_hosts_are_one_workload(cluster: Cluster, hosts: Workload) -> None:
    if has_indexed_jobs(cluster):
        assert (hosts.status, hosts.failure_reason) == ("success", None)
        logs = (cluster.home.runs / "two-hosts").glob("*/_ml_metrics/logs/*")
        assert sorted(one.name for one in logs) == ["attempt-1-host-0.log", "attempt-1-host-1.log"]
    else:
        assert (hosts.status, hosts.failure_reason) == ("missed", "Config")
        assert "has no Indexed Jobs" in str(hosts.detail)


def test_all_objects_are_removed(cluster: Cluster, hosts: Workload) -> None:
    assert hosts.attempts == 1
    namespace, label = cluster.access.namespace, "ml-metrics/test=two-hosts"
    batch = client.BatchV1Api(cluster.access.admin)
    assert batch.list_namespaced_job(namespace, label_selector=label).items == []
    assert cluster.core.list_namespaced_service(namespace, label_selector=label).items == []
