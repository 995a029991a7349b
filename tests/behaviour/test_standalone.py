"""Runs under a real scheduler: triggered manually, without a logical date, and with each task's process killed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import urlsplit

import httpx
import pytest

from airflow_home import PROJECT, Home
from campaigns.services import processes_of
from missing import missing
from ml_metrics.steps import TASKS
from servers.ports import free_port
from standalone_airflow import Standalone, standalone, wait_until
from workload_ends import core, recorded_workload

pytestmark = [pytest.mark.e2e]

WORK = """
import os, time
from tensorboard.summary import Writer
log = Writer(os.environ["MODEL_DIR"])
for step in range(3):
    log.add_scalar("loss", 1.0 / (step + 1), step)
log.close()
time.sleep(2)
"""
LONG_WORK = """
import os, time
here = os.environ["MODEL_DIR"]
open(os.path.join(here, "began-" + os.environ["POD_NAME"]), "w").close()
while not os.path.exists(os.path.join(here, "go-on")):
    time.sleep(0.2)
"""
STOPPED = {"worker-stopped": 1, "worker-of-two-hosts-stopped": 2}
"""The tests whose worker is stopped, and their hosts."""
ENDED = {"ended-by-hand": "Killed", "deferred-ended-by-hand": "WorkerLost"}
"""The tests whose task is marked as failed, and what is recorded: while the triggerer waits, no process records it."""
IN_WORKERS = """
def task_policy(task):
    if task.task_id == "run_workload" and task.dag_id in {tests}:
        task.deferrable = False
"""
"""A policy of Airflow, since most workloads wait in the triggerer, where no worker can be stopped."""
CONDITIONS = {"loss_final": {"comparison": "less", "success_threshold": {"fixed_value": 0.5}}}
RECORDED = {"loss_final", "total_wall_time"}


def victim(task: str) -> str:
    """Return the test whose task of that name is killed. Each has its own DAG, so that they run in parallel."""
    return f"killed-{task.replace('_', '-')}"


@pytest.fixture(scope="module")
def airflow(home: Home) -> Iterator[Standalone]:
    for name in ("triggered", *map(victim, TASKS)):
        conditions = {"metric_success_conditions": CONDITIONS}
        home.add_test(name, command=["python3", "-c", WORK], regression_test_config=conditions)
    home.add_test("gate-killed", command=["false"])
    for name, hosts in {**STOPPED, **dict.fromkeys(ENDED, 1)}.items():
        home.add_test(name, command=["python3", "-c", LONG_WORK], hosts=hosts)
    home.write_policy(IN_WORKERS.format(tests={*STOPPED, "ended-by-hand"}))
    with standalone(home) as running:
        yield running


@pytest.fixture(scope="module")
def by_hand(airflow: Standalone, home: Home) -> str:
    """The run that was triggered by hand, ended."""
    airflow.unpause("triggered")
    home.airflow("dags", "trigger", "triggered", "--run-id", "by_hand").check_returncode()
    assert airflow.wait_until_ended("triggered", "by_hand") == "success"
    return "by_hand"


def test_a_manually_triggered_run_ends_like_any_other(airflow: Standalone, home: Home, by_hand: str) -> None:
    assert airflow.run("triggered", by_hand)["logical_date"] is None
    assert_recorded_once(home, "triggered")


def test_a_task_that_was_killed_and_cleared_leaves_exactly_one_row_for_each_metric(
    airflow: Standalone, home: Home
) -> None:
    def kill_and_clear(task: str) -> None:
        test = victim(task)
        airflow.unpause(test)
        run = airflow.trigger(test)
        airflow.kill(test, run, task)
        airflow.wait_until_ended(test, run)
        airflow.clear(test, run, task)
        assert airflow.wait_until_ended(test, run) == "success", task

    with ThreadPoolExecutor(len(TASKS)) as executor:
        list(executor.map(kill_and_clear, TASKS))
    for task in TASKS:
        assert_recorded_once(home, victim(task))


def test_a_gate_that_was_killed_still_sends_its_mail_once(airflow: Standalone, home: Home) -> None:
    airflow.unpause("gate-killed")
    run = airflow.trigger("gate-killed")
    airflow.kill("gate-killed", run, "assert_success")
    assert airflow.wait_until_ended("gate-killed", run) == "failed"
    wait_until(lambda: bool(home.mails("gate-killed")), "the next try of the gate has sent the mail")
    (mail,) = home.mails("gate-killed")
    assert "ExitCode:1" in mail.read_text()


def test_a_worker_that_is_stopped_leaves_the_pods_to_the_next_one(airflow: Standalone, home: Home) -> None:
    runs = {test: begin(airflow, home, test, hosts) for test, hosts in STOPPED.items()}
    before = {test: airflow.tasks(test, run)["run_workload"]["try_number"] for test, run in runs.items()}
    for test, run in runs.items():
        airflow.stop_worker(test, run, "run_workload")
    for test in runs:
        (folder,) = (home.runs / test).glob("*")
        (folder / "go-on").touch()
    for test, run in runs.items():
        assert airflow.wait_until_ended(test, run) == "success"
        assert airflow.tasks(test, run)["run_workload"]["try_number"] > before[test]
        assert len(began(home, test)) == STOPPED[test]


def test_a_task_that_is_marked_as_failed_ends_its_pod(airflow: Standalone, home: Home) -> None:
    runs = {test: begin(airflow, home, test, 1) for test in ENDED}
    deferred = partial(airflow.tasks, "deferred-ended-by-hand", runs["deferred-ended-by-hand"])
    wait_until(lambda: deferred()["run_workload"]["state"] == "deferred", "the workload waits in the triggerer")
    for test, run in runs.items():
        airflow.mark(test, run, "run_workload", "failed")
    for test, run in runs.items():
        assert airflow.wait_until_ended(test, run) == "failed"
    recorded = partial(recorded_workload, home)
    wait_until(lambda: {test: recorded(test)["failure_reason"] for test in ENDED} == ENDED, f"the ends are {ENDED}")
    pods = core(home).list_namespaced_pod("default").items
    assert [pod.metadata.name for pod in pods if pod.metadata.labels["ml-metrics/test"] in ENDED] == []


def begin(airflow: Standalone, home: Home, test: str, hosts: int) -> str:
    """Start a run, wait until all its hosts work, and return its name."""
    airflow.unpause(test)
    run = airflow.trigger(test)
    wait_until(lambda: len(began(home, test)) == hosts, f"{test} works")
    return run


def began(home: Home, test: str) -> list[str]:
    """Return the pods in which the workload of a test began to work."""
    return sorted(file.name for file in (home.runs / test).glob("*/began-*"))


@pytest.mark.usefixtures("by_hand")
def test_airflow_listens_on_loopback_only(airflow: Standalone) -> None:
    """After a whole run, every process that `make up` starts has been there for long."""
    listening = airflow.listens_on()
    port = str(urlsplit(airflow.url).port)
    assert f"127.0.0.1:{port}" in listening
    assert {address: command for address, command in listening.items() if not address.startswith("127.0.0.1:")} == {}


def test_requests_that_change_something_at_once_are_answered(airflow: Standalone) -> None:
    """With SQLite, each waits for the lock of the others. The client waits half as long as the server."""
    headers = airflow.client.headers

    def post(number: int) -> set[int]:
        with httpx.Client(base_url=airflow.url, headers=headers, timeout=30) as client:
            entries = ({"key": f"k{number}-{one}", "value": "v"} for one in range(12))
            return {client.post("/api/v2/variables", json=entry).status_code for entry in entries}

    with ThreadPoolExecutor(6) as clients:
        assert list(clients.map(post, range(6))) == [{201}] * 6
    logged = airflow.client.get("/api/v2/eventLogs", params={"event": "post_variable"}).json()
    assert logged["total_entries"] == 6 * 12


def test_the_log_of_a_task_is_shown_without_a_log_server(airflow: Standalone, by_hand: str) -> None:
    path = f"/api/v2/dags/triggered/dagRuns/{by_hand}/taskInstances/run_workload/logs/1"
    assert "Building pod triggered" in airflow.client.get(path).raise_for_status().text


def test_a_second_airflow_of_the_same_home_is_refused(airflow: Standalone, home: Home) -> None:
    other = {**home.environment, "AIRFLOW__API__PORT": str(free_port())}
    command = [sys.executable, "deploy/standalone.py"]
    done = subprocess.run(command, cwd=PROJECT, env=other, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1
    expected = f"An Airflow of {home.path} is running already: process {airflow.process.pid}, {airflow.url}"
    assert expected in done.stderr


def test_a_dag_processor_that_ended_is_started_again_and_finds_new_files(airflow: Standalone, home: Home) -> None:
    processes_of(airflow, "dag-processor")[0].terminate()
    home.add_test("came-later", command=["true"])
    airflow.wait_until_parsed("came-later")


@pytest.mark.usefixtures("by_hand")
def test_a_program_reads_a_page_as_the_docs_describe(airflow: Standalone, home: Home) -> None:
    if not shutil.which("curl"):
        missing("curl is not installed")
    (block,) = re.findall(r"```sh\n(PASSWORD=.*?)```", (PROJECT / "docs" / "dashboard.md").read_text(), re.DOTALL)
    for documented, here in (
        ("http://localhost:8080", airflow.url),
        (".airflow/", f"{home.path}/"),
        ("tf-mnist-example-cpu", "triggered"),
    ):
        assert documented in block
        block = block.replace(documented, here)
    done = subprocess.run(["sh", "-euc", block], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout)["test"] == "triggered"


def assert_recorded_once(home: Home, test: str) -> None:
    """Assert that the test has one run with one row for each metric."""
    with home.warehouse() as warehouse:
        (job,) = warehouse.runs.newest(test)
        count = Counter(row.metric for row in warehouse.metrics.of_run(job.uuid))
    assert set(count) >= RECORDED
    assert set(count.values()) == {1}, count
