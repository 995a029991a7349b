"""Faults while a pod runs: its process is killed on the node, its object is deleted."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from kubernetes import client

from campaigns.kubernetes.cluster import Cluster
from ml_metrics.model import Workload
from standalone_airflow import wait_until

pytestmark = [pytest.mark.e2e]


def test_a_process_killed_on_its_node(cluster: Cluster) -> None:
    mark = uuid.uuid4().hex
    test = cluster.add_test("killed-on-its-node", f"import time; time.sleep(600)  # {mark}")

    def kill(_: client.V1Pod) -> None:
        found = [one for one in psutil.process_iter(["cmdline"]) if mark in " ".join(one.info["cmdline"] or ())]
        # the processes of Airflow do not have the program in their arguments
        if not found:
            pytest.skip("the nodes of this cluster are other machines")
        for one in found:
            one.kill()

    workload = run_with_fault(cluster, test, kill)
    assert (workload.status, workload.failure_reason) == ("failure", "ExitCode:137")


def test_a_deleted_pod(cluster: Cluster) -> None:
    test = cluster.add_test("deleted-by-hand", "import time; time.sleep(600)")

    def delete(pod: client.V1Pod) -> None:
        cluster.core.delete_namespaced_pod(pod.metadata.name, pod.metadata.namespace, grace_period_seconds=2)

    workload = run_with_fault(cluster, test, delete)
    assert (workload.status, workload.failure_reason) == ("failure", "PodDeleted")
    assert workload.started_at is not None


def run_with_fault(cluster: Cluster, test: str, fault: Callable[[client.V1Pod], None]) -> Workload:
    """Run a test, cause a fault once its pod runs, and return the outcome of the workload."""
    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(cluster.run, test)
        wait_until(
            lambda: running.done() or any(pod.status.phase == "Running" for pod in cluster.pods(test)), "it runs", 60
        )
        assert not running.done(), running.result()
        fault(cluster.pods(test)[0])
        return running.result()[0]
