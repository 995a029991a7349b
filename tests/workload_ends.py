"""How a workload ended, as the run folder, the warehouse and the mail report it, and a way to interfere with one."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from kubernetes import client, config

from standalone_airflow import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_home import Home


def core(home: Home) -> client.CoreV1Api:
    """Return the API of the home's local cluster."""
    return client.CoreV1Api(config.new_client_from_config(home.local_cluster().ensure_running()))


def recorded_workload(home: Home, test: str) -> dict[str, Any]:
    """Return the document about the workload of a test's only run."""
    (document,) = (home.runs / test).glob("*/_ml_metrics/workload.json")
    workload: dict[str, Any] = json.loads(document.read_text())
    return workload


def interfere(home: Home, test: str, action: Callable[[client.V1Pod], object], **more: str) -> None:
    """Run a test, and act on its pod once the pod is running."""
    with ThreadPoolExecutor(1) as background:
        running = background.submit(home.airflow, "dags", "test", test, **more)
        api = core(home)

        def pods() -> list[client.V1Pod]:
            found = api.list_namespaced_pod("default", label_selector=f"ml-metrics/test={test}").items
            return [pod for pod in found if pod.status.phase == "Running"]

        wait_until(lambda: running.done() or bool(pods()), f"the pod of {test} runs")
        assert not running.done(), running.result().stdout[-3000:]
        action(pods()[0])
        running.result()


def assert_reported(home: Home, test: str, status: str, *reasons: str) -> None:
    """Assert that the folder, the row and the only message have the same status and one of the reasons."""
    workload = recorded_workload(home, test)
    assert workload["status"] == status, workload
    assert workload["failure_reason"] in reasons, workload
    with home.warehouse() as warehouse:
        (job,) = warehouse.runs.newest(test)
    assert (job.job_status, job.failure_reason) == (status, workload["failure_reason"])
    (mail,) = home.mails(test)
    assert workload["failure_reason"] in mail.read_text()
