"""Workloads on several hosts under a whole Airflow: while they run, the triggerer waits and no worker.

`make campaign NAME=ends` runs this with 64 hosts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from airflow_home import Home
from standalone_airflow import Standalone, standalone, wait_until
from workload_ends import recorded_workload

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(not os.environ.get("ML_METRICS_ENDS"), reason="NOT RUN: `make campaign NAME=ends` plays this"),
]

HOSTS = int(os.environ.get("ML_METRICS_HOSTS", "3"))
LOOKS = 30
"""How often the slots are looked at while the hosts run."""
WAITING = """
i=0
while [ $i -lt 2000 ]; do echo "host $JOB_COMPLETION_INDEX line $i"; i=$((i+1)); done
until [ -e {shared}/go ]; do sleep 1; done
"""
BREAKING = """
import os, sys, time
host, ready = int(os.environ["JOB_COMPLETION_INDEX"]), "{shared}/ready-"
open(ready + str(host), "w").close()
while len([name for name in os.listdir("{shared}") if name.startswith("ready-")]) < {hosts}:
    time.sleep(0.1)
if host == {hosts} - 1:
    open("{shared}/broken", "w").close()
    raise RuntimeError("the chip is hot")
while not os.path.exists("{shared}/broken"):
    time.sleep(0.02)
time.sleep(0.3)
try:
    raise ConnectionError("host {hosts} is gone")
except ConnectionError as error:
    raise SystemError("the ring is broken") from error
"""


@pytest.fixture(scope="module")
def airflow(home: Home) -> Iterator[Standalone]:
    shared = str(home.shared)
    home.add_test("waiting", command=["sh", "-c", WAITING.format(shared=shared)], hosts=HOSTS, timeout="20m")
    breaking = BREAKING.format(shared=shared, hosts=HOSTS)
    home.add_test("breaking", command=["python3", "-c", breaking], hosts=HOSTS, timeout="20m")
    with standalone(home, AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE="True") as running:
        yield running


def slots(airflow: Standalone) -> tuple[int, int, int]:
    pool = airflow.client.get("/api/v2/pools/default_pool").json()
    return pool["running_slots"], pool["queued_slots"], pool["deferred_slots"]


def test_while_the_hosts_run_no_worker_is_held(airflow: Standalone, home: Home) -> None:
    airflow.unpause("waiting")
    run = airflow.trigger("waiting")
    wait_until(lambda: airflow.is_watched("waiting", run), "the triggerer watches the hosts", 600)
    seen = []
    for _ in range(LOOKS):
        seen.append(slots(airflow))
        time.sleep(0.5)
    assert seen == [(0, 0, 1)] * LOOKS, "running, queued and deferred slots"
    (home.shared / "go").touch()
    assert airflow.wait_until_ended("waiting", run, 600) == "success"
    workload = recorded_workload(home, "waiting")
    assert (workload["status"], workload["attempts"]) == ("success", 1)
    (folder,) = (home.runs / "waiting").glob("*/_ml_metrics/logs")
    logs = {file.name: file.read_text().splitlines() for file in folder.iterdir()}
    assert len(logs) == HOSTS
    for host in range(HOSTS):
        lines = logs[f"attempt-1-host-{host}.log"]
        assert (len(lines), lines[-1]) == (2000, f"host {host} line 1999")


def test_the_host_that_failed_first_is_named_with_its_first_error(airflow: Standalone, home: Home) -> None:
    airflow.unpause("breaking")
    run = airflow.trigger("breaking")
    assert airflow.wait_until_ended("breaking", run, 600) == "failed"
    workload = recorded_workload(home, "breaking")
    expected = f"host {HOSTS - 1} of {HOSTS}: RuntimeError: the chip is hot"
    assert (workload["status"], workload["failure_reason"], workload["detail"]) == ("failure", "ExitCode:1", expected)
    wait_until(lambda: bool(home.mails("breaking")), "the mail is sent")
    (mail,) = home.mails("breaking")
    assert "RuntimeError: the chip is hot" in mail.read_text().split("\n\n")[0], "the subject has the first error"
