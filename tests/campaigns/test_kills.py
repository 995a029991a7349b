"""kill -9 of the worker, the triggerer and the local cluster, at any moment of a run: one pod run and one row."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from airflow_home import Home
from local_kube.kubeconfig import read_address
from ml_metrics.run_folder import RunFolder
from standalone_airflow import Standalone, standalone, wait_until

KILLS = int(os.environ.get("ML_METRICS_KILLS", "0"))
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(not KILLS, reason="`make campaign-kills` plays this; test_standalone.py kills once"),
]
SEED = int(os.environ.get("ML_METRICS_SEED", str(random.SystemRandom().randrange(10**6))))
SECONDS = 10
WORK = f"""
import os, time
open(os.path.join(os.environ["MODEL_DIR"], "began-" + os.environ["POD_NAME"]), "w").close()
time.sleep({SECONDS})
open(os.path.join(os.environ["MODEL_DIR"], "ended-" + os.environ["POD_NAME"]), "w").close()
"""


@pytest.fixture
def deferring(home: Home) -> Iterator[Standalone]:
    """An Airflow whose triggerer waits for pods."""
    home.add_test("kill-triggerer", command=["python3", "-c", WORK])
    os.environ["AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE"] = "True"
    try:
        with standalone(home) as running:
            yield running
    finally:
        del os.environ["AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE"]


@pytest.fixture
def waiting(home: Home) -> Iterator[Standalone]:
    """An Airflow whose workers wait for pods."""
    for name in ("kill-worker", "kill-cluster"):
        home.add_test(name, command=["python3", "-c", WORK])
    with standalone(home) as running:
        yield running


def test_a_worker_that_is_killed(waiting: Standalone, home: Home) -> None:
    def kill(run: str) -> None:
        waiting.kill_now("kill-worker", run, "run_workload")

    play(waiting, home, "kill-worker", kill)


def test_a_local_cluster_that_is_killed(waiting: Standalone, home: Home) -> None:
    def kill(_: str) -> None:
        address = read_address(home.cluster)
        with suppress(psutil.NoSuchProcess, AttributeError):  # it was just not there, or is starting
            psutil.Process(address.pid).kill()  # type: ignore[union-attr]

    play(waiting, home, "kill-cluster", kill)


def test_a_triggerer_that_is_killed(deferring: Standalone, home: Home) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def kill(_: str) -> None:
        for process in triggerers(deferring, started):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        started.append(start_triggerer(deferring, home))

    try:
        play(deferring, home, "kill-triggerer", kill)
    finally:
        for process in started:
            end_family(process.pid)
            process.wait()


def play(airflow: Standalone, home: Home, test: str, kill: Callable[[str], None]) -> None:
    """Run and kill, so often; each run must end well, with one pod that ran once, and with one row."""
    chance = random.Random(f"{SEED} {test}")
    airflow.unpause(test)
    for number in range(KILLS):
        run = airflow.trigger(test)
        wait_until(
            lambda run=run: airflow.tasks(test, run)["run_workload"]["state"] in UNDER_WAY, f"{test} is under way"
        )
        delay = chance.uniform(0, SECONDS + 5)
        print(f"seed {SEED}: {test} number {number}: kill after {delay:.2f} s", flush=True)
        time.sleep(delay)
        kill(run)
        assert airflow.wait_until_ended(test, run) == "success", (run, delay)
    folders = list((home.runs / test).iterdir())
    assert len(folders) == KILLS
    for folder in folders:
        workload = RunFolder(str(folder), believe_unsigned=True).read_workload()
        assert workload is not None
        assert (workload.status, workload.attempts) == ("success", 1), workload
        assert [len(list(folder.glob(f"{word}-*"))) for word in ("began", "ended")] == [1, 1], folder
    with home.warehouse() as warehouse:
        assert [job.job_status for job in warehouse.runs.newest(test, KILLS + 1)] == ["success"] * KILLS


UNDER_WAY = frozenset({"running", "deferred"})


def triggerers(airflow: Standalone, started: list[subprocess.Popen[bytes]]) -> list[psutil.Process]:
    """Every process of every triggerer."""
    roots = [psutil.Process(airflow.process.pid), *(psutil.Process(one.pid) for one in started if one.poll() is None)]
    family = [one for root in roots for one in (root, *root.children(recursive=True))]
    found = []
    for process in family:
        with suppress(psutil.Error):
            if "triggerer" in " ".join(process.cmdline()):
                found.extend([process, *process.children(recursive=True)])
    return found


def start_triggerer(airflow: Standalone, home: Home) -> subprocess.Popen[bytes]:
    """What a supervisor of services does with one that died. It has the environment of the others."""
    environment = psutil.Process(airflow.process.pid).environ()
    with Path(home.path, "triggerer.log").open("ab") as log:
        return subprocess.Popen(["airflow", "triggerer"], env=environment, stdout=log, stderr=log)


def end_family(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in (*root.children(recursive=True), root):
            with suppress(psutil.NoSuchProcess):
                process.kill()
