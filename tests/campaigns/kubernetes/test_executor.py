"""KubernetesExecutor: each task is a pod, and a worker pod that disappears costs no workload."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from airflow_home import PROJECT, Home
from campaigns.kubernetes.access import Access, access, documented_role
from campaigns.kubernetes.cluster import IMAGE
from campaigns.kubernetes.executor import HEARTBEAT_SECONDS, airflow_in_pods, share_settings
from ml_metrics.model import Workload
from ml_metrics.run_folder import RunFolder
from standalone_airflow import Standalone, wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(
        not os.environ.get("ML_METRICS_TEST_EXECUTOR"), reason="`make test-kubernetes-executor` runs this"
    ),
]
WAITING = """
import os, time
here = os.environ["MODEL_DIR"]
open(os.path.join(here, "began-" + os.environ["POD_NAME"]), "w").close()
while not os.path.exists(os.path.join(here, "go-on")):
    time.sleep(0.2)
"""
TESTS: dict[str, dict[str, Any]] = {
    "demo": {"command": [sys.executable, str(PROJECT / "include" / "workloads" / "digits.py"), "--train_epochs=10"]},
    "failing": {"command": ["python3", "-c", "raise SystemExit(3)"]},
    "deferred": {"command": ["python3", "-u", "-c", WAITING]},
    "worker-deleted": {"command": ["python3", "-u", "-c", WAITING]},
    "worker-killed": {"command": ["python3", "-u", "-c", WAITING]},
}


@dataclass(frozen=True)
class Deployment:
    """An Airflow, its home, and its namespace."""

    airflow: Standalone
    home: Home
    granted: Access
    settings: dict[str, str]

    def start(self, test: str) -> str:
        self.airflow.unpause(test)
        return self.airflow.trigger(test)

    def workload(self, test: str) -> Workload:
        (folder,) = (self.home.runs / test).glob("*")
        found = RunFolder(str(folder), believe_unsigned=True).read_workload()
        assert found is not None
        return found

    def began(self, test: str) -> list[Path]:
        return list((self.home.runs / test).glob("*/began-*"))

    def workers(self, test: str) -> list[str]:
        """Return the pods that run the task of the workload."""
        labels = f"kubernetes_executor=True,dag_id={test},task_id=run_workload"
        found = client.CoreV1Api(self.granted.admin).list_namespaced_pod(self.granted.namespace, label_selector=labels)
        return [pod.metadata.name for pod in found.items if pod.metadata.deletion_timestamp is None]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    home = Home.make(tmp_path_factory.mktemp("airflow"))
    runs = str(home.runs)
    volumes = {path: {"host_path": path} for path in (runs, str(PROJECT), sys.base_prefix)}
    for name, content in TESTS.items():
        home.add_test(name, **{"image": IMAGE, "startup_timeout": "2m", "volumes": volumes, **content})
    with access(documented_role()) as granted, airflow_in_pods(home, granted) as (airflow, settings):
        yield Deployment(airflow, home, granted, settings)


def test_the_demo_and_a_failing_test(deployment: Deployment) -> None:
    runs = {test: deployment.start(test) for test in ("demo", "failing")}
    assert deployment.airflow.wait_until_ended("demo", runs["demo"], 600) == "success"
    assert deployment.airflow.wait_until_ended("failing", runs["failing"], 600) == "failed"
    assert deployment.workload("failing").failure_reason == "ExitCode:3"


@pytest.mark.parametrize(("test", "grace"), [("worker-deleted", 30), ("worker-killed", 0)])
def test_a_worker_pod_that_disappears_costs_no_workload(deployment: Deployment, test: str, grace: int) -> None:
    run = deployment.start(test)
    wait_until(lambda: len(deployment.began(test)) == 1, "the workload works", 600)
    (worker,) = deployment.workers(test)
    core = client.CoreV1Api(deployment.granted.admin)
    core.delete_namespaced_pod(worker, deployment.granted.namespace, grace_period_seconds=grace)
    limit = 10 * HEARTBEAT_SECONDS
    wait_until(lambda: deployment.workers(test) not in ([], [worker]), "another worker takes the pod up", limit)
    (began,) = deployment.began(test)
    (began.parent / "go-on").touch()
    assert deployment.airflow.wait_until_ended(test, run, 600) == "success"
    assert deployment.began(test) == [began], "the workload ran once"


def test_a_deferred_workload_holds_no_worker_pod(deployment: Deployment) -> None:
    more = {"AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True"}
    share_settings(deployment.home, deployment.granted, {**deployment.settings, **more})
    run = deployment.start("deferred")
    wait_until(lambda: len(deployment.began("deferred")) == 1, "the workload works", 600)
    airflow = deployment.airflow
    wait_until(lambda: airflow.tasks("deferred", run)["run_workload"]["state"] == "deferred", "the task defers", 300)
    wait_until(lambda: deployment.workers("deferred") == [], "its worker pod ends", 300)
    (began,) = deployment.began("deferred")
    (began.parent / "go-on").touch()
    assert airflow.wait_until_ended("deferred", run, 600) == "success"
