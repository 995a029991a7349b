"""The unmodified KubernetesPodOperator and KubernetesJobOperator, in a real Airflow, against the local cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import BatchV1Api

from harness import Pods, connect, missing
from local_kube import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e
PROGRAM = Path(__file__).with_name("operator_dags.py")
TIMEOUT_SECONDS = 280


@dataclass
class Airflow:
    """The result of running every DAG."""

    pods: Pods
    results: dict[str, Any]
    log: str

    def pod(self, case: str) -> Any:
        """Return the pod that a DAG left, or None."""
        found = self.pods.core.list_namespaced_pod("default", label_selector=f"case={case}").items
        assert len(found) <= 1
        return found[0] if found else None


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, image_folder: Path) -> Iterator[Airflow]:
    if find_spec("airflow") is None:
        missing("Airflow is not installed here")
    home = tmp_path_factory.mktemp("airflow")
    pods = connect(LocalCluster(str(home / "cluster"), str(image_folder)))
    (home / "dags").mkdir()
    (home / "dags" / PROGRAM.name).symlink_to(PROGRAM)
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": pods.kubeconfig}}
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps(connection),
    }

    def python(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command,
            env=environment,
            cwd=home / "dags",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-5000:]
        return done.stdout

    python("-m", "airflow", "db", "migrate")
    log = python(str(home / "dags" / PROGRAM.name), str(home / "results.json"))
    yield Airflow(pods, json.loads((home / "results.json").read_text()), log)
    pods.cluster.stop()


def test_every_dag_ends_as_expected(airflow: Airflow) -> None:
    succeed = {"plain", "deferred", "returning", "kept", "job", "job-deferred"}
    states = {case: result["state"] for case, result in airflow.results.items()}
    assert states == {case: "success" if case in succeed else "failed" for case in states}
    assert len(states) == 13


def test_lines_arrive_once_and_without_interruption(airflow: Airflow) -> None:
    assert [airflow.log.count(f"[base] line {number}") for number in (1, 2, 3)] == [1, 1, 1]
    assert "log read interrupted" not in airflow.log


def test_pods_are_kept_or_deleted_as_configured(airflow: Airflow) -> None:
    kept = {case for case in airflow.results if not case.startswith("job") and airflow.pod(case) is not None}
    assert kept == {"failing", "past-deadline", "deferred-failing", "kept", "greedy"}


def test_a_task_that_is_too_slow_leaves_no_process(airflow: Airflow) -> None:
    assert airflow.pod("too-slow") is None
    assert "AirflowTaskTimeout" in airflow.log


def test_the_reasons_are_those_of_kubernetes(airflow: Airflow) -> None:
    assert airflow.pod("past-deadline").status.reason == "DeadlineExceeded"
    assert airflow.pod("failing").status.container_statuses[0].state.terminated.exit_code == 3
    assert airflow.pod("deferred-failing").status.container_statuses[0].state.terminated.exit_code == 4
    assert airflow.pod("greedy").status.container_statuses[0].state.terminated.reason == "OOMKilled"
    assert "registry.invalid" in airflow.log


def test_the_xcom_result_is_returned(airflow: Airflow) -> None:
    assert airflow.results["returning"]["returned"] == {"loss": 1.5}


def test_jobs_run_all_their_pods_and_one_failed_pod_fails_the_job(airflow: Airflow) -> None:
    assert all(f"[base] worker {index}" in airflow.log for index in (0, 1))
    jobs = BatchV1Api(airflow.pods.core.api_client).list_namespaced_job("default").items
    states = {
        job.metadata.labels["case"]: {entry.type: entry.reason for entry in job.status.conditions} for job in jobs
    }
    assert states["job"]["Complete"] == states["job-deferred"]["Complete"] == "CompletionsReached"
    assert states["job-failing"]["Failed"] == "BackoffLimitExceeded"
    (left,) = airflow.pods.core.list_namespaced_pod("default", label_selector="case=job-failing").items
    assert left.status.container_statuses[0].state.terminated.exit_code == 3
