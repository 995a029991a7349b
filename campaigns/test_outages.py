"""What befalls a workload on the local cluster, through whole DAGs: its status, its reason, one row and one message."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from kubernetes import client

from airflow_home import Home
from campaigns.pace import settings
from local_kube.kubeconfig import read_address
from standalone_airflow import TIMEOUT_SECONDS
from workload_ends import assert_reported, core, interfere, recorded_workload

pytestmark = [pytest.mark.e2e]

WORK = """
import os, time
while not os.path.exists({gone!r}):
    time.sleep(0.1)
for step in range({seconds}):
    print("step", step, flush=True)
    time.sleep(1)
open(os.path.join(os.environ["MODEL_DIR"], "ran-" + os.environ["POD_NAME"]), "w").close()
"""
"""The workload works as long as the API server is gone, and five seconds more."""


SHORT = bool(os.environ.get("ML_METRICS_KILLS_SHORT"))
IN_CAMPAIGN = pytest.mark.skipif(not os.environ.get("ML_METRICS_KILLS"), reason="`make campaign NAME=kills` plays this")


@pytest.mark.parametrize("deferrable", ["False", pytest.param("True", marks=[pytest.mark.campaign, IN_CAMPAIGN])])
def test_a_pod_that_somebody_deleted(home: Home, deferrable: str) -> None:
    test = home.add_test(f"deleted-{deferrable.lower()}", command=["sleep", "600"])

    def delete(pod: client.V1Pod) -> None:
        core(home).delete_namespaced_pod(pod.metadata.name, "default", grace_period_seconds=1)

    interfere(home, test, delete, AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE=deferrable)
    assert_reported(home, test, "failure", "PodDeleted")


GONE_SECONDS = int(os.environ.get("ML_METRICS_OUTAGE_SECONDS", "5"))
"""How long the API server is gone. `make campaign NAME=kills` makes it a minute."""


@pytest.mark.campaign
@IN_CAMPAIGN
def test_an_api_server_that_is_gone_in_the_middle(home: Home) -> None:
    """The server hangs for a while, and is then killed: pods go on without it, and so do the runs, deferred or not."""
    gone = home.shared / "gone"
    tests = {
        deferrable: home.add_test(
            f"outage-{deferrable.lower()}",
            command=["python3", "-c", WORK.format(gone=str(gone), seconds=GONE_SECONDS + 5)],
            timeout="5m",
        )
        for deferrable in ("False", "True")
    }

    def take_away() -> None:
        address = read_address(home.cluster)
        assert address is not None
        gone.touch()
        os.kill(address.pid, signal.SIGSTOP)
        time.sleep(GONE_SECONDS)
        os.kill(address.pid, signal.SIGKILL)

    both_run = threading.Barrier(len(tests), take_away, timeout=TIMEOUT_SECONDS)
    with ThreadPoolExecutor(len(tests)) as threads:
        ends = [
            threads.submit(
                interfere,
                home,
                test,
                lambda _: both_run.wait(),
                AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE=deferrable,
                **settings(short=SHORT),
            )
            for deferrable, test in tests.items()
        ]
        for end in ends:
            end.result()
    for test in tests.values():
        workload = recorded_workload(home, test)
        assert (workload["status"], workload["attempts"]) == ("success", 1), workload
        (folder,) = (home.runs / test).iterdir()
        assert len(list(folder.glob("ran-*"))) == 1
        with home.warehouse() as warehouse:
            (job,) = warehouse.runs.newest(test)
        assert job.job_status == "success"


@pytest.mark.campaign
@IN_CAMPAIGN
def test_a_workload_that_is_retried_runs_in_a_new_pod_and_is_counted(home: Home) -> None:
    second_time = "import os,sys; seen = os.path.join(os.environ['MODEL_DIR'], 'seen'); there = os.path.exists(seen);"
    second_time += "open(seen, 'a').write(os.environ['POD_NAME'] + chr(10)); sys.exit(0 if there else 7)"
    test = home.add_test("retried", command=["python3", "-c", second_time], retries=1)
    assert home.airflow("dags", "test", test).returncode == 0
    workload = recorded_workload(home, test)
    assert (workload["status"], workload["attempts"]) == ("success", 2)
    (seen,) = (home.runs / test).glob("*/seen")
    assert len(set(seen.read_text().split())) == 2, "each attempt has a pod of its own"


def test_no_more_attempts_than_were_asked_for(home: Home) -> None:
    test = home.add_test("fails-always", command=["false"], retries=1)
    assert home.airflow("dags", "test", test).returncode == 1
    assert recorded_workload(home, test)["attempts"] == 2
    assert_reported(home, test, "failure", "ExitCode:1")
