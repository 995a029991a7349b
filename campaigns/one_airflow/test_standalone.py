"""A real Airflow as `make up` starts it: a run that is triggered by hand, its log and page, and its processes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest

from airflow_home import PROJECT, Home
from missing import missing
from servers.ports import free_port
from standalone_airflow import Standalone

pytestmark = [pytest.mark.e2e, pytest.mark.campaign]

WORK = """
import os
from tensorboard.summary import Writer
log = Writer(os.environ["MODEL_DIR"])
for step in range(3):
    log.add_scalar("loss", 1.0 / (step + 1), step)
log.close()
"""


def add_tests(home: Home) -> None:
    condition = {"comparison": "less", "success_threshold": {"fixed_value": 0.5}}
    conditions = {"metric_success_conditions": {"loss_final": condition}}
    home.add_test("triggered", command=["python3", "-c", WORK], regression_test_config=conditions)


@pytest.fixture(scope="module")
def by_hand(airflow: Standalone, home: Home) -> str:
    """The run that was triggered by hand, ended."""
    airflow.unpause("triggered")
    home.airflow("dags", "trigger", "triggered", "--run-id", "by_hand").check_returncode()
    assert airflow.wait_until_ended("triggered", "by_hand") == "success"
    return "by_hand"


def test_a_manually_triggered_run_ends_like_any_other(airflow: Standalone, home: Home, by_hand: str) -> None:
    assert airflow.run("triggered", by_hand)["logical_date"] is None
    with home.warehouse() as warehouse:
        (job,) = warehouse.runs.newest("triggered")
        count = Counter(row.metric for row in warehouse.metrics.of_run(job.uuid))
    assert set(count) >= {"loss_final", "total_wall_time"}
    assert set(count.values()) == {1}, count


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
    # with SQLite, two parts of Airflow that schedule a task at once count two tries: only the last has a page
    number = airflow.tasks("triggered", by_hand)["run_workload"]["try_number"]
    path = f"/api/v2/dags/triggered/dagRuns/{by_hand}/taskInstances/run_workload/logs/{number}"
    lines = airflow.client.get(path).json()["content"]
    assert [line for line in lines if line.get("logger") == "task"], lines


def test_a_second_airflow_of_the_same_home_is_refused(airflow: Standalone, home: Home) -> None:
    other = {**home.environment, "AIRFLOW__API__PORT": str(free_port())}
    command = [sys.executable, "deploy/standalone.py"]
    done = subprocess.run(command, cwd=PROJECT, env=other, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1
    expected = f"An Airflow of {home.path} is running already: process {airflow.process.pid}, {airflow.url}"
    assert expected in done.stderr


def test_a_dag_processor_that_ended_is_started_again_and_finds_new_files(airflow: Standalone, home: Home) -> None:
    airflow.processes_of("dag-processor")[0].terminate()
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
