"""How a workload ended, in every place where it is told, and ways to end one from outside."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from kubernetes import client, config

from behaviour.standalone import until
from local_kube import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from behaviour.home import Home


def core(home: Home) -> client.CoreV1Api:
    """The API of the home's local cluster."""
    return client.CoreV1Api(config.new_client_from_config(LocalCluster(str(home.cluster)).ensure_running()))


def told(home: Home, test: str) -> dict[str, Any]:
    """What the run folder says of a test's only run."""
    (document,) = (home.runs / test).glob("*/_ml_metrics/workload.json")
    workload: dict[str, Any] = json.loads(document.read_text())
    return workload


def meddle(home: Home, test: str, deed: Callable[[client.V1Pod], object], **more: str) -> None:
    """Do something to the pod of a test once it runs."""
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(home.airflow, "dags", "test", test, **more)
        api = core(home)

        def pods() -> list[client.V1Pod]:
            found = api.list_namespaced_pod("default", label_selector=f"ml-metrics/test={test}").items
            return [pod for pod in found if pod.status.phase == "Running"]

        until(lambda: running.done() or bool(pods()), f"the pod of {test} runs", 60)
        assert not running.done(), running.result().stdout[-3000:]
        deed(pods()[0])
        running.result()


def assert_told(home: Home, test: str, status: str, *reasons: str) -> None:
    """The folder, the row and the one message agree, on one of the reasons."""
    workload = told(home, test)
    assert workload["status"] == status, workload
    assert workload["failure_reason"] in reasons, workload
    with home.warehouse() as warehouse:
        (job,) = warehouse.runs.newest(test)
    assert (job.job_status, job.failure_reason) == (status, workload["failure_reason"])
    (mail,) = home.mails(test)
    assert f"job_status was `{status}` for test `{test}`" in mail.read_text().replace("=\n", "")
    assert workload["failure_reason"] in mail.read_text()
