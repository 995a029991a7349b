"""`decide: true` in a real Airflow: a change asks a person, who answers through Airflow's REST API."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from airflow_home import Home
from ml_metrics.alerts import Act
from ml_metrics.core.model import Run
from ml_metrics.pipeline.experiments import DECIDE
from ml_metrics.pipeline.experiments.run_ids import AGAIN
from standalone_airflow import Standalone, token_of, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.campaign]

WORK = """
import json, os
with open(os.path.join(os.environ["MODEL_DIR"], "out.jsonl"), "w") as log:
    print(json.dumps({"step": 1, "loss": 5.0}), file=log)
"""
CONDITION = {"comparison": "less", "success_threshold": {"fixed_value": 1}}
ACCEPTED, AGAINST, ELSEWHERE = "accepted", "measured-again", "elsewhere"
WAITING = {"deferred", "awaiting_input"}
"""The states in which a task holds no worker: before Airflow 3.3, and since."""
FIRST, SECOND = "first", "second"
SOON = f"""
from datetime import timedelta

from ml_metrics.airflow.product_dags import product_dag

def look_soon(context):
    if context["ti"].run_id.startswith("incident__{ELSEWHERE}__"):
        context["task"].checked_every = timedelta(seconds=3)

decide = product_dag("ml-metrics-decide")
decide.get_task("decide").pre_execute = look_soon
"""
"""The same DAG, which looks sooner at the incident that is settled elsewhere."""


def add_tests(home: Home) -> None:
    for name in (ACCEPTED, AGAINST, ELSEWHERE):
        home.add_test(
            name,
            command=["python3", "-c", WORK],
            decide=True,
            regression_test_config={"metric_success_conditions": {"loss_final": CONDITION}},
        )


@pytest.fixture(scope="module", autouse=True)
def _unpaused(airflow: Standalone) -> None:
    for name in (ACCEPTED, AGAINST, ELSEWHERE):
        airflow.unpause(name)
    airflow.wait_until_parsed(DECIDE)


def questions(airflow: Standalone, test: str) -> list[dict[str, Any]]:
    """Return the required actions about a test, the oldest first."""
    found = airflow.client.get("/api/v2/dags/~/dagRuns/~/hitlDetails", params={"order_by": "created_at"})
    details = found.raise_for_status().json()["hitl_details"]
    return [one for one in details if one["task_instance"]["dag_run_id"].startswith(f"incident__{test}__")]


def question(airflow: Standalone, test: str, number: int = 0) -> str:
    """Wait until a question is asked, and return the id of the run that asks. The task may still hold a worker."""
    wait_until(lambda: len(questions(airflow, test)) > number, f"a person is asked about {test}")
    run: str = questions(airflow, test)[number]["task_instance"]["dag_run_id"]
    return run


def wait_until_it_waits(airflow: Standalone, home: Home, run: str) -> None:
    """Wait until the scheduler knows that the question waits: Airflow takes a task that wakes before for lost."""
    left = f"TaskInstance Finished: dag_id={DECIDE}, task_id=decide, run_id={run}, "
    log = home.path / "standalone.log"
    wait_until(lambda: left in log.read_text(errors="replace"), "the scheduler knows that the question waits")
    assert airflow.tasks(DECIDE, run)["decide"]["state"] in WAITING


def answer(home: Home, airflow: Standalone, run: str, act: Act, *, user: str = "uma", why: str = "") -> int:
    """Answer as a person does under Required Actions, and return the status of the response."""
    address = f"{airflow.url}/api/v2/dags/{DECIDE}/dagRuns/{quote(run)}/taskInstances/decide/-1/hitlDetails"
    headers = {"Authorization": f"Bearer {token_of(home, airflow.url, user)}"}
    body = {"chosen_options": [act.label], "params_input": {"why": why}}
    return httpx.patch(address, json=body, headers=headers, timeout=60).status_code


def test_a_person_accepts_a_new_level(airflow: Standalone, home: Home) -> None:
    airflow.trigger(ACCEPTED, run=FIRST)
    run = question(airflow, ACCEPTED)
    assert airflow.wait_until_ended(ACCEPTED, FIRST) == "failed", "the run waits for nobody"
    assert airflow.tasks(ACCEPTED, FIRST)["assert_success"]["state"] == "failed"
    (asked,) = questions(airflow, ACCEPTED)
    key = Run(ACCEPTED, ACCEPTED, FIRST, "local").key
    assert asked["options"] == ["Accept the new level", "It is a regression", "Measure again"]
    assert asked["subject"].startswith("accepted failed: loss_final 5, must be below 1")
    assert "- loss\\_final 5, must be below 1" in asked["body"]
    assert f"[The incident]({airflow.url}/ml-metrics/inbox?test=accepted&run={key})" in asked["body"]

    airflow.trigger(ACCEPTED, run=SECOND)
    assert airflow.wait_until_ended(ACCEPTED, SECOND) == "failed"
    assert airflow.tasks(ACCEPTED, SECOND)["ask_for_decision"]["state"] == "skipped"
    assert len(questions(airflow, ACCEPTED)) == 1, "one question for an incident"
    wait_until_it_waits(airflow, home, run)

    assert answer(home, airflow, run, Act.ACCEPT, user="vera") == 403
    assert answer(home, airflow, run, Act.ACCEPT, why="a larger model") == 200
    assert airflow.wait_until_ended(DECIDE, run) == "success"
    assert airflow.tasks(DECIDE, run)["decide"]["state"] == "success"
    with home.warehouse() as warehouse:
        (row,) = warehouse.acceptances.of_test(ACCEPTED)
    assert (row.metric, row.run_key, row.accepted_by, row.reason) == ("loss_final", key, "uma", "a larger model")
    assert len(home.mails(ACCEPTED)) == 1


def test_a_person_measures_again_and_then_decides(airflow: Standalone, home: Home) -> None:
    airflow.trigger(AGAINST, run=FIRST)
    first = question(airflow, AGAINST)
    # an answer at once: Airflow 3.3.2 takes the task for lost if it wakes before the scheduler knows that it waits
    assert answer(home, airflow, first, Act.RERUN) == 200
    assert airflow.wait_until_ended(DECIDE, first) == "success"
    again = next(one for one in airflow.runs(AGAINST) if one.startswith(AGAIN))
    assert airflow.wait_until_ended(AGAINST, again) == "failed"
    assert airflow.run(AGAINST, again)["note"].startswith("uma decided to measure again")
    second = question(airflow, AGAINST, 1)
    assert answer(home, airflow, second, Act.REGRESSION, why="the driver") == 200
    assert airflow.wait_until_ended(DECIDE, second) == "success"
    with home.warehouse() as warehouse:
        incident = warehouse.incidents.find_open(AGAINST)
        assert [run.trial for run in warehouse.runs.newest(AGAINST)] == [None, None]
    assert incident is not None
    assert (incident.is_regression, incident.assessed_by) == (True, "uma")

    airflow.trigger(AGAINST, run=SECOND)
    assert airflow.wait_until_ended(AGAINST, SECOND) == "failed"
    assert len(questions(airflow, AGAINST)) == 2, "what was answered is not asked again"


def test_a_question_that_is_settled_elsewhere_ends_by_itself(airflow: Standalone, home: Home) -> None:
    airflow.trigger(ELSEWHERE, run=FIRST)
    run = question(airflow, ELSEWHERE)
    wait_until(lambda: airflow.tasks(DECIDE, run)["decide"]["state"] in WAITING, "the question holds no worker")
    with home.warehouse() as warehouse:
        key = Run(ELSEWHERE, ELSEWHERE, FIRST, "local").key
        assert warehouse.acceptances.add(key, "loss_final", reason="on the inbox", by="admin")
    assert airflow.wait_until_ended(DECIDE, run) == "success"
    assert airflow.tasks(DECIDE, run)["decide"]["state"] == "skipped"
    with home.warehouse() as warehouse:
        assert [one.accepted_by for one in warehouse.acceptances.of_test(ELSEWHERE)] == ["admin"]
