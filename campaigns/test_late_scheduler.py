"""A scheduler that is late: it reads the end of the first half of a deferred task after the pod has ended.

The provider's own trigger then costs a second try (decision 0371): it shows that the scheduler was late enough.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from airflow_home import Home
from standalone_airflow import Standalone, standalone, wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(not os.environ.get("ML_METRICS_PODS"), reason="`make campaign NAME=pods` plays this"),
]
PATIENT, AS_THE_PROVIDER_HAS_IT = "quick", "quick-as-the-provider"
LATE_SECONDS = 60
"""How long a task is under way before it defers. As long does our trigger keep its event afterwards: the provider's has
to fire in that time on a busy machine, too.
"""
POLICY = f"""
import time


def task_policy(task):
    if task.task_id != "run_workload":
        return
    task.pre_execute = lambda context: time.sleep({LATE_SECONDS})  # meanwhile, the scheduler is stopped
    from ml_metrics.airflow.operators import pod_trigger, run_workload

    pod_trigger.MOST_SECONDS = {2 * LATE_SECONDS}
    if task.dag_id == "{AS_THE_PROVIDER_HAS_IT}":
        run_workload.patient = lambda trigger, due: trigger
"""


@pytest.fixture(scope="module")
def airflow(home: Home) -> Iterator[Standalone]:
    for name in (PATIENT, AS_THE_PROVIDER_HAS_IT):
        home.add_test(name, command=["sleep", "3"])  # one that has ended when it is first looked at is not deferred
    home.write_policy(POLICY)
    with standalone(home) as running:
        yield running


@contextmanager
def stopped_scheduler(airflow: Standalone, home: Home) -> Iterator[None]:
    """Stop the scheduler while it holds no lock of the database; its workers go on."""
    (scheduler,) = airflow.processes_of("scheduler")
    while True:
        scheduler.suspend()
        with closing(sqlite3.connect(home.path / "airflow.db", timeout=0, isolation_level=None)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
                database.execute("ROLLBACK")
                break
            except sqlite3.OperationalError:
                scheduler.resume()
                time.sleep(0.05)
    try:
        yield
    finally:
        scheduler.resume()


def test_a_pod_that_ends_before_the_scheduler_knows_that_its_task_waits(airflow: Standalone, home: Home) -> None:
    for test in (PATIENT, AS_THE_PROVIDER_HAS_IT):
        airflow.unpause(test)
    runs = {test: airflow.trigger(test) for test in (PATIENT, AS_THE_PROVIDER_HAS_IT)}

    def workload(test: str) -> dict[str, Any]:
        return airflow.tasks(test, runs[test])["run_workload"]

    wait_until(lambda: all(workload(test)["state"] == "running" for test in runs), "both tasks run")
    with stopped_scheduler(airflow, home):
        wait_until(lambda: workload(AS_THE_PROVIDER_HAS_IT)["state"] == "scheduled", "its trigger has fired")
        wait_until(lambda: workload(PATIENT)["state"] == "deferred", "the other one waits")
    assert [airflow.wait_until_ended(test, run) for test, run in runs.items()] == ["success"] * 2
    tries = {test: workload(test)["try_number"] for test in runs}
    assert tries == {PATIENT: 1, AS_THE_PROVIDER_HAS_IT: 2}, "the second try shows that the scheduler was late enough"
