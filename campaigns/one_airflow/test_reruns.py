"""Runs that are run again in a real Airflow: values out of bounds are confirmed, far worse ones are measured thrice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from airflow_home import Home
from ml_metrics.core.model import JobStatus, Metric, Run, Workload
from ml_metrics.warehouse import RunRecord, run_record
from standalone_airflow import Standalone, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.campaign]

WORK = """
import json, os, pathlib
counter = pathlib.Path(os.environ["COUNTER"])
number = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(number))
if number == 1:
    counter.chmod(0o666)  # each run is another user
value = float(os.environ["GOOD"]) + number / 10 + (8 if str(number) in os.environ["BAD"] else 0)
with open(os.path.join(os.environ["MODEL_DIR"], "out.jsonl"), "w") as log:
    print(json.dumps({"step": 1, "latency": value}), file=log)
"""
"""The runs whose numbers are in BAD are worse by 8."""
SLOWER, ONCE = "slower", "slow-once"
FLAKY, REGRESSED, PAUSED = "flaky", "worse-twice", "paused"
CONF = {"image": "local/other:2", "trial": "no"}
RUN = "by_hand"
FIRST, SECOND = f"confirm__{RUN}__1", f"confirm__{RUN}__2"
NIGHTS = 40


def add_tests(home: Home) -> None:
    below_one = {"comparison": "less", "success_threshold": {"fixed_value": 1}, "confirm": 2}
    thrice = {"rerun": {"beyond": 4, "at_most": "50 % of the night"}}
    for name, bad, good, condition, more in (
        (SLOWER, "123456789", "100", {"comparison": "less"}, thrice),
        (ONCE, "1", "100", {"comparison": "less"}, thrice),
        (FLAKY, "1", "0", below_one, {}),
        (REGRESSED, "123456789", "0", below_one, {}),
        (PAUSED, "1", "0", below_one, {}),
    ):
        home.add_test(
            name,
            command=["python3", "-c", WORK],
            by_hand=["image"],
            env={"COUNTER": str(home.shared / f"{name}.count"), "BAD": bad, "GOOD": good},
            regression_test_config={"metric_success_conditions": {"latency_final": condition}, **more},
        )


def night(test: str, number: int, value: float) -> RunRecord:
    """The rows of a good night."""
    ended = datetime.now(UTC) - timedelta(days=NIGHTS - number)
    names = dict.fromkeys(("test_type", "accelerator", "framework_version"), "")
    metrics = (Metric("latency_final", value, "latency", "final"),)
    workload = Workload(JobStatus.SUCCESS, ended_at=ended)
    return run_record(Run(test, test, f"scheduled__{number}__{value}", "local"), workload, metrics, (), {}, **names)


def wait_for(airflow: Standalone, dag: str, *names: str) -> list[str]:
    """Wait until each of these runs has begun and ended, and return their states."""
    ended = []
    for name in names:
        wait_until(lambda name=name: name in airflow.runs(dag), f"{name} of {dag} begins")
        ended.append(airflow.wait_until_ended(dag, name))
    return ended


def test_three_runs_of_a_night_decide(airflow: Standalone, home: Home) -> None:
    random = Random(7)
    with home.warehouse() as warehouse:
        warehouse.load_all([
            night(name, number, random.gauss(100, 1)) for name in (SLOWER, ONCE) for number in range(NIGHTS)
        ])  # fmt: skip
        warehouse.load_all([night("other", NIGHTS, float(number)) for number in range(10)])
    for name in (SLOWER, ONCE):
        airflow.unpause(name)
        airflow.trigger(name, {"trial": "no"}, RUN)
    with ThreadPoolExecutor(2) as executor:
        slower = executor.submit(wait_for, airflow, SLOWER, RUN, FIRST, SECOND)
        once = executor.submit(wait_for, airflow, ONCE, RUN, FIRST)
    assert slower.result() == ["success", "success", "failed"]
    assert once.result() == ["success", "success"]
    assert {task: one["state"] for task, one in airflow.tasks(SLOWER, SECOND).items()}["confirm_run"] == "skipped"
    assert set(airflow.runs(SLOWER)) == {RUN, FIRST, SECOND}, "a rerun is not run again"
    assert set(airflow.runs(ONCE)) == {RUN, FIRST}, "a good rerun ends the night"
    assert airflow.runs(SLOWER)[FIRST]["conf"] == {"trial": "no"}
    wait_until(lambda: bool(home.mails(SLOWER)), "the mail about the loss is sent")
    (mail,) = home.mails(SLOWER)
    text = mail.read_text().replace("=\n", "")
    assert SECOND in text
    assert f"{SECOND}, which runs {RUN} again" in text
    assert home.mails(ONCE) == []
    with home.warehouse() as warehouse:
        newest = warehouse.metrics.values(SLOWER, "latency_final", 3)
    assert [row.outcome for row in newest] == ["fail", "pass", "pass"]

    airflow.clear(SLOWER, RUN, "judge_run")
    airflow.wait_until_ended(SLOWER, RUN)
    assert set(airflow.runs(SLOWER)) == {RUN, FIRST, SECOND}, "a cleared task starts no run twice"


def test_no_run_waits_for_a_paused_dag(airflow: Standalone, home: Home) -> None:
    airflow.wait_until_parsed(PAUSED)
    done = home.run(PAUSED)
    assert done.returncode == 1
    assert "the DAG is paused, so no run is started" in done.stdout
    assert "not yet confirmed: 1 of 2 runs" in done.stdout
    listed = home.airflow("dags", "list-runs", PAUSED, "--output", "plain").stdout
    assert "confirm__" not in listed
    assert home.run(PAUSED).returncode == 0  # the next run does not confirm it
    assert home.mails(PAUSED) == []


def test_a_run_that_fails_once_and_a_regression(airflow: Standalone, home: Home) -> None:
    for name in (FLAKY, REGRESSED):
        airflow.unpause(name)
        airflow.trigger(name, CONF, RUN)
    with ThreadPoolExecutor(2) as executor:
        flaky, regressed = executor.map(lambda name: wait_for(airflow, name, RUN, FIRST), (FLAKY, REGRESSED))
    assert flaky == ["failed", "success"]
    assert regressed == ["failed", "failed"]
    wait_until(lambda: bool(home.mails(REGRESSED)), "the mail about the regression is sent")
    (mail,) = home.mails(REGRESSED)
    text = mail.read_text().replace("=\n", "")
    assert "confirmed by 2 runs" in text
    assert FIRST in text
    assert home.mails(FLAKY) == []
    assert airflow.run(REGRESSED, FIRST)["conf"] == CONF
    assert airflow.run(REGRESSED, FIRST)["note"] == f"Confirms {RUN}: latency_final (1 of 2 runs)"
    with home.warehouse() as warehouse:
        newest = warehouse.metrics.values(FLAKY, "latency_final", 10)
    assert [row.outcome for row in newest] == ["pass", "fail"]

    airflow.clear(FLAKY, RUN, "confirm_run")
    airflow.wait_until_ended(FLAKY, RUN)
    airflow.clear(REGRESSED, FIRST, "judge_run")
    airflow.wait_until_ended(REGRESSED, FIRST)
    assert airflow.tasks(FLAKY, RUN)["confirm_run"]["state"] == "skipped"
    assert set(airflow.runs(FLAKY)) == {RUN, FIRST}
    assert set(airflow.runs(REGRESSED)) == {RUN, FIRST}
    assert home.mails(FLAKY) == []
    assert home.mails(REGRESSED) == [mail]
