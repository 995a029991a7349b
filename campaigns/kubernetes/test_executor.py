"""KubernetesExecutor on a real cluster: each task is a pod, and a worker pod that ends early costs no workload.

`make campaign NAME=kubernetes-executor` runs all of it on the cluster of KUBECONFIG, whose node has to be this machine;
`make campaign NAME=kubernetes-executor SHORT=1` the failing test and the killed worker only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from kubernetes import client

from airflow_home import PROJECT
from campaigns.kubernetes.access import access, documented_role
from campaigns.kubernetes.executor import DOCTOR, HEARTBEAT_SECONDS, WITH_CELERY, Deployment, airflow_in_pods
from ml_metrics.core.model import Run
from ml_metrics.pipeline.steps import TASKS
from standalone_airflow import wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(
        not os.environ.get("ML_METRICS_TEST_EXECUTOR"), reason="NOT RUN: `make campaign NAME=kubernetes-executor`"
    ),
]
LONGEST_RUN = 900
DEMO = PROJECT / "include" / "metric_configs" / "mnist-cpu.yaml"
DIGITS = PROJECT / "include" / "workloads" / "digits.py"
WAITING = """
import os, time
shared = {shared!r}
open(os.path.join(shared, {test!r} + "-began-" + os.environ["POD_NAME"]), "w").close()
while not os.path.exists(os.path.join(shared, {test!r} + "-goes-on")):
    time.sleep(0.2)
"""
SHORT = ("failing", "worker-killed")
AT_ONCE = SHORT if os.environ.get("ML_METRICS_EXECUTOR_SHORT") else (*SHORT, "demo", "worker-deleted", WITH_CELERY)
"""Tests whose runs are in progress at the same time."""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("in-pods")
    with access(documented_role()) as granted, airflow_in_pods(folder, granted, contents(folder / "shared")) as made:
        yield made


@pytest.fixture(scope="module")
def runs(deployment: Deployment) -> dict[str, Run]:
    return {test: deployment.start(test) for test in AT_ONCE}


@pytest.fixture(autouse=True)
def the_bucket(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process find the bucket."""
    for name, value in deployment.cloud.items():
        monkeypatch.setenv(name, value)


def contents(shared: Path) -> dict[str, dict[str, Any]]:
    demo = yaml.safe_load(DEMO.read_text())
    parts = ("params", "metric_collection_config", "regression_test_config", "goodput")
    command = [sys.executable, str(DIGITS), *demo["command"][2:]]

    def waiting(name: str) -> dict[str, Any]:
        return {"command": ["python3", "-u", "-c", WAITING.format(shared=str(shared), test=name)]}

    return {
        "demo": {"command": command, **{name: demo[name] for name in parts}},
        "failing": {"command": ["python3", "-c", "raise SystemExit(3)"]},
        WITH_CELERY: {"command": ["python3", "-c", "print('hello')"]},
        **{name: waiting(name) for name in ("worker-killed", "worker-deleted", "deferred")},
    }


def began(deployment: Deployment, test: str) -> list[Path]:
    return list((deployment.folder / "shared").glob(f"{test}-began-*"))


def go_on(deployment: Deployment, test: str) -> None:
    (deployment.folder / "shared" / f"{test}-goes-on").touch()


def end_of(deployment: Deployment, run: Run) -> tuple[Any, ...]:
    """Wait for the end of a run. Return its state and what is recorded, and check that nothing of it goes on."""
    state = deployment.api.wait_until_ended(run.test, run.run_id, LONGEST_RUN)
    workload = deployment.workload(run)
    assert workload.attempts == 1, workload
    with deployment.warehouse() as warehouse:
        rows = [row for row in warehouse.runs.newest(run.test) if row.uuid == run.key]
    (row,) = rows
    assert (row.job_status, row.failure_reason) == (workload.status, workload.failure_reason), workload
    assert deployment.workloads(run.test) == [], "the pod of the workload is removed"
    ended = {"Succeeded", "Failed"}
    wait_until(lambda: {one.status.phase for one in deployment.workers(run.test)} <= ended, "workers end", 60)
    return state, str(row.job_status), row.failure_reason, row.verdict, len(deployment.messages(run))


def tasks_of(deployment: Deployment, test: str) -> list[str]:
    """Return the task of each worker pod."""
    return sorted(pod.metadata.labels["task_id"] for pod in deployment.workers(test))


def test_each_task_of_a_failing_test_is_a_pod_and_one_message_is_sent(
    deployment: Deployment, runs: dict[str, Run]
) -> None:
    assert end_of(deployment, runs["failing"]) == ("failed", "failure", "ExitCode:3", "fail", 1)
    assert tasks_of(deployment, "failing") == sorted(TASKS)
    accounts = {pod.spec.service_account_name for pod in deployment.workers("failing")}
    assert accounts == {"ml-metrics"}, "the account of the template, with the Role of the docs"


def test_the_demo_passes(deployment: Deployment, runs: dict[str, Run]) -> None:
    assert end_of(deployment, runs["demo"]) == ("success", "success", None, "pass", 0)
    assert tasks_of(deployment, "demo") == sorted(TASKS)
    with deployment.warehouse() as warehouse:
        metrics = {one.metric: one.value for one in warehouse.metrics.of_run(runs["demo"].key)}
    assert metrics["epoch_sparse_categorical_accuracy_final"] > 0.96
    assert {"goodput", "total_wall_time"} <= metrics.keys()


def test_a_cluster_policy_gives_a_test_another_executor(deployment: Deployment, runs: dict[str, Run]) -> None:
    run = runs[WITH_CELERY]
    assert end_of(deployment, run) == ("success", "success", None, "recorded", 0)
    executors = {name: task["executor"] for name, task in deployment.api.tasks(run.test, run.run_id).items()}
    assert executors == dict.fromkeys(TASKS, "CeleryExecutor")
    assert deployment.workers(run.test) == [], "no task has a pod"


def kill_on_the_node(deployment: Deployment, run: Run, _: client.V1Pod) -> None:
    """kill -9 all processes of the worker, which know the task instance from their command."""
    instance = deployment.api.tasks(run.test, run.run_id)["run_workload"]["id"]
    found = [one for one in psutil.process_iter(["cmdline"]) if instance in " ".join(one.info["cmdline"] or ())]
    assert found
    for one in found:
        with suppress(psutil.NoSuchProcess):  # those of a container go with its first one
            one.kill()


def delete(deployment: Deployment, _: Run, worker: client.V1Pod) -> None:
    """Delete the pod, as an autoscaler does: SIGTERM to its first process, and time to end."""
    deployment.core.delete_namespaced_pod(worker.metadata.name, worker.metadata.namespace)


@pytest.mark.parametrize(("test", "fault"), [("worker-killed", kill_on_the_node), ("worker-deleted", delete)])
def test_a_worker_pod_that_ends_early_costs_no_workload(
    deployment: Deployment, runs: dict[str, Run], test: str, fault: Callable[[Deployment, Run, client.V1Pod], None]
) -> None:
    wait_until(lambda: len(began(deployment, test)) == 1, "the workload works", LONGEST_RUN)
    (worker,) = deployment.workers(test, "run_workload")
    fault(deployment, runs[test], worker)

    def is_taken_up() -> bool:
        others = [one for one in deployment.workers(test, "run_workload") if one.metadata.uid != worker.metadata.uid]
        return any(one.status.phase == "Running" for one in others)

    wait_until(is_taken_up, "another worker takes the workload up", 10 * HEARTBEAT_SECONDS)
    go_on(deployment, test)
    assert end_of(deployment, runs[test]) == ("success", "success", None, "recorded", 0)
    assert len(began(deployment, test)) == 1, "the workload ran once"


def test_a_deferred_workload_holds_no_worker_pod(deployment: Deployment, runs: dict[str, Run]) -> None:
    test = "deferred"
    for one in runs.values():  # the setting is for all that starts from now on
        deployment.api.wait_until_ended(one.test, one.run_id, LONGEST_RUN)
    deployment.change_settings(airflow__operators__default_deferrable="True")
    run = deployment.start(test)
    wait_until(lambda: len(began(deployment, test)) == 1, "the workload works", LONGEST_RUN)
    tasks = deployment.api.tasks
    wait_until(lambda: tasks(test, run.run_id)["run_workload"]["state"] == "deferred", "the task defers", 300)
    ended = {"Succeeded"}
    wait_until(lambda: {one.status.phase for one in deployment.workers(test)} == ended, "its worker pod ends", 300)
    go_on(deployment, test)
    assert end_of(deployment, run) == ("success", "success", None, "recorded", 0)
    assert len(began(deployment, test)) == 1, "the workload ran once"


def test_doctor_finds_nothing_wrong_from_a_worker_pod(deployment: Deployment, runs: dict[str, Run]) -> None:
    assert runs
    run = deployment.start(DOCTOR)
    assert deployment.api.wait_until_ended(DOCTOR, run.run_id, LONGEST_RUN) == "success"
