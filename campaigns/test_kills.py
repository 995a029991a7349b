"""kill -9 of the worker, the triggerer and the local cluster, at any moment of a run: one pod run and one row."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil
import pytest

from airflow_home import PROJECT, Home
from campaigns.pace import settings
from local_kube.kubeconfig import read_address
from ml_metrics.store.run_folder import RunFolder
from standalone_airflow import Standalone, standalone, wait_until

KILLS = int(os.environ.get("ML_METRICS_KILLS", "0"))
SHORT = bool(os.environ.get("ML_METRICS_KILLS_SHORT"))
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(not KILLS, reason="`make campaign NAME=kills` plays this; test_killed_tasks.py kills once"),
]
SEED = int(os.environ.get("ML_METRICS_SEED", str(random.SystemRandom().randrange(10**6))))
SECONDS = 10
WORK = f"""
import os, time
open(os.path.join(os.environ["MODEL_DIR"], "began-" + os.environ["POD_NAME"]), "w").close()
time.sleep({SECONDS})
open(os.path.join(os.environ["MODEL_DIR"], "ended-" + os.environ["POD_NAME"]), "w").close()
"""
COMMAND = ["python3", "-c", WORK]
WORKER, CLUSTER, TRIGGERER = "kill-worker", "kill-cluster", "kill-triggerer"
DEFERRING = """# Airflow opens only files that have the words airflow and dag in them
from ml_metrics import TestDefinition, accelerator_test

dag = accelerator_test(TestDefinition(**{content}))
dag.get_task("run_workload").deferrable = True
"""


@pytest.fixture(scope="module")
def airflow(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """An Airflow whose workers wait for the pods of two tests, and whose triggerer for those of a third."""
    for name in (WORKER, CLUSTER):
        home.add_test(name, command=COMMAND)
    dags = tmp_path_factory.mktemp("dags")
    shutil.copy(PROJECT / "dags" / "ml_tests.py", dags)
    content = {"name": TRIGGERER, "image": "local/image:1", "owner": "a-new-user", "timeout": "2m", "command": COMMAND}
    (dags / "deferring.py").write_text(DEFERRING.format(content=content))
    variables = settings(short=SHORT) | {"AIRFLOW__CORE__DAGS_FOLDER": str(dags)}
    # `make up` sets it to True
    with standalone(home, 15 if SHORT else 30, AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE="False", **variables) as running:
        yield running


def test_a_worker_that_is_killed(airflow: Standalone, home: Home) -> None:
    def kill(run: str) -> bool:
        was_there = airflow.process_of(WORKER, run, "run_workload") is not None
        airflow.kill_now(WORKER, run, "run_workload")
        return was_there

    play(airflow, home, WORKER, kill)


def test_a_local_cluster_that_is_killed(airflow: Standalone, home: Home) -> None:
    def kill(_: str) -> bool:
        address = read_address(home.cluster)
        if address is None:  # it was just not there, or is starting
            return False
        with suppress(psutil.NoSuchProcess):
            psutil.Process(address.pid).kill()
            return True
        return False

    play(airflow, home, CLUSTER, kill)


def test_a_triggerer_that_is_killed(airflow: Standalone, home: Home) -> None:
    def kill(run: str) -> bool:
        waits = airflow.is_watched(TRIGGERER, run)
        airflow.kill_service("triggerer")
        return waits

    play(airflow, home, TRIGGERER, kill, waits="deferred")


def play(airflow: Standalone, home: Home, test: str, kill: Callable[[str], bool], waits: str = "running") -> None:
    """Run and kill, so often; each run must end well, with one pod that ran once, and with one row.

    The first kill comes while the workload works and its task waits, the others at any time. `kill` returns whether it
    met its victim.
    """
    chance = random.Random(f"{SEED} {test}")
    airflow.unpause(test)
    met = 0
    for number in range(KILLS):
        run = airflow.trigger(test)
        wait_until(
            lambda run=run, states=UNDER_WAY if number else {waits}: state_of(airflow, test, run) in states,
            f"{test} is under way",
        )
        if number == 0:
            wait_until(lambda: any((home.runs / test).glob("*/began-*")), f"the workload of {test} works")
        delay = chance.uniform(0, SECONDS + 5 if number else 3)
        time.sleep(delay)
        was_there = kill(run)
        met += was_there
        moment = "" if was_there else ", when it was not there"
        print(f"seed {SEED}: {test} number {number}: kill after {delay:.2f} s{moment}", flush=True)
        assert airflow.wait_until_ended(test, run) == "success", (run, delay)
    assert met, "no kill met its victim"
    folders = list((home.runs / test).iterdir())
    assert len(folders) == KILLS
    for folder in folders:
        workload = RunFolder(str(folder), believe_unsigned=True).read_workload()
        assert workload is not None
        assert (workload.status, workload.attempts) == ("success", 1), workload
        assert [len(list(folder.glob(f"{word}-*"))) for word in ("began", "ended")] == [1, 1], folder
    with home.warehouse() as warehouse:
        assert [job.job_status for job in warehouse.runs.newest(test, KILLS + 1)] == ["success"] * KILLS


UNDER_WAY = {"running", "deferred"}


def state_of(airflow: Standalone, test: str, run: str) -> str:
    return str(airflow.tasks(test, run)["run_workload"]["state"])
