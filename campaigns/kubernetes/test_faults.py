"""Faults while a pod runs: its process is killed on the node, its object is deleted, its node is drained."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from kubernetes import client

from campaigns.kubernetes.cluster import Cluster, has_indexed_jobs
from ml_metrics.core.model import Workload
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


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_drained_node_while_the_triggerer_waits(cluster: Cluster, hosts: int) -> None:
    """The program ends with 0 after SIGTERM, which does not make the run a success."""
    if hosts > 1 and not has_indexed_jobs(cluster):
        pytest.skip("this cluster has no Indexed Jobs")
    program = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); time.sleep(600)"
    test = cluster.add_test(f"drained-{hosts}", program, hosts=hosts)

    def evict(pod: client.V1Pod) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        cluster.core.create_namespaced_pod_eviction(name, namespace, {"metadata": {"name": name}})

    workload = run_with_fault(cluster, test, evict, AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE="True")
    assert (workload.status, workload.attempts) == ("failure", 1)
    assert workload.failure_reason in {"Evicted", "PodDeleted"}, "only the pod has the reason, while it stops"
    assert cluster.pods(test) == []
    with cluster.home.warehouse() as warehouse:
        (job,) = warehouse.runs.newest(test)
    assert (job.job_status, job.failure_reason) == ("failure", workload.failure_reason)


def test_a_deleted_job_is_not_started_again(cluster: Cluster) -> None:
    if not has_indexed_jobs(cluster):
        pytest.skip("this cluster has no Indexed Jobs")
    test = cluster.add_test("job-deleted", "import time; time.sleep(600)", hosts=2)

    def delete(pod: client.V1Pod) -> None:
        batch = client.BatchV1Api(cluster.access.admin)
        (owner,) = pod.metadata.owner_references
        batch.delete_namespaced_job(owner.name, pod.metadata.namespace, propagation_policy="Background")

    workload = run_with_fault(cluster, test, delete, AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE="True")
    end = (workload.status, workload.failure_reason, workload.attempts)
    assert end == ("failure", "JobDeleted", 1)


def run_with_fault(cluster: Cluster, test: str, fault: Callable[[client.V1Pod], None], **environment: str) -> Workload:
    """Run a test, cause a fault once its first pod runs, and return the outcome of the workload."""
    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(lambda: cluster.run_all([test], **environment)[test])
        wait_until(
            lambda: running.done() or any(pod.status.phase == "Running" for pod in cluster.pods(test)), "it runs", 60
        )
        assert not running.done(), running.result()
        fault(cluster.pods(test)[0])
        return running.result()[0]
