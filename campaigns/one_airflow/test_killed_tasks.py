"""Runs under a real scheduler: tasks are killed, workers are stopped, and a person marks tasks as failed."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from airflow_home import Home
from ml_metrics.pipeline.steps import TASKS
from standalone_airflow import Standalone, kill_next, wait_until
from workload_ends import core, recorded_workload

pytestmark = [pytest.mark.e2e, pytest.mark.campaign]

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
POLICY = f"""
def task_policy(task):
    if task.task_id == "run_workload" and task.dag_id in { {*STOPPED, "ended-by-hand"} }:
        task.deferrable = False
"""
"""Of Airflow, since most workloads wait in the triggerer, where no worker can be stopped."""
CONDITIONS = {"loss_final": {"comparison": "less", "success_threshold": {"fixed_value": 0.5}}}
REGRESSED = "killed-while-regressed"
RECORDED = {"loss_final", "total_wall_time"}


def victim(task: str) -> str:
    """Return the test whose task of that name is killed. Each has its own DAG, so that they run in parallel."""
    return f"killed-{task.replace('_', '-')}"


def add_tests(home: Home) -> None:
    for name in map(victim, TASKS):
        conditions = {"metric_success_conditions": CONDITIONS}
        home.add_test(name, command=["python3", "-c", WORK], regression_test_config=conditions)
    home.add_test("gate-killed", command=["false"])
    confirmed = {**CONDITIONS["loss_final"], "comparison": "greater", "confirm": 2}
    conditions = {"metric_success_conditions": {"loss_final": confirmed}}
    home.add_test(REGRESSED, command=["python3", "-c", WORK], regression_test_config=conditions)
    for name, hosts in {**STOPPED, **dict.fromkeys(ENDED, 1)}.items():
        home.add_test(name, command=["python3", "-c", LONG_WORK], hosts=hosts)


def test_a_task_that_was_killed_and_cleared_leaves_exactly_one_row_for_each_metric(
    airflow: Standalone, home: Home
) -> None:
    def kill_and_clear(task: str) -> None:
        test = victim(task)
        airflow.unpause(test)
        run = airflow.trigger(test)
        kill_next(home, test, run, task)
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
    kill_next(home, "gate-killed", run, "assert_success")
    assert airflow.wait_until_ended("gate-killed", run) == "failed"
    wait_until(lambda: bool(home.mails("gate-killed")), "the next try of the gate has sent the mail")
    (mail,) = home.mails("gate-killed")
    assert "ExitCode:1" in mail.read_text()


def test_a_regression_whose_tasks_are_killed_starts_one_run_and_sends_one_mail(airflow: Standalone, home: Home) -> None:
    airflow.unpause(REGRESSED)
    first = airflow.trigger(REGRESSED, {}, "by_hand")
    second = f"confirm__{first}__1"
    kill_next(home, REGRESSED, first, "confirm_run")
    kill_next(home, REGRESSED, first, "assert_success", times=2)
    wait_until(lambda: second in airflow.runs(REGRESSED), "the run is confirmed")
    kill_next(home, REGRESSED, second, "assert_success")
    assert [airflow.wait_until_ended(REGRESSED, run) for run in (first, second)] == ["failed", "failed"]
    wait_until(lambda: bool(home.mails(REGRESSED)), "the next try of the gate has sent the mail")
    assert len(home.mails(REGRESSED)) == 1
    assert set(airflow.runs(REGRESSED)) == {first, second}


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


def assert_recorded_once(home: Home, test: str) -> None:
    """Assert that the test has one run with one row for each metric."""
    with home.warehouse() as warehouse:
        (job,) = warehouse.runs.newest(test)
        count = Counter(row.metric for row in warehouse.metrics.of_run(job.uuid))
    assert set(count) >= RECORDED
    assert set(count.values()) == {1}, count
