"""Planned faults in a whole DAG run: inflicted once each, survived, measured and shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_home import Home
from workload_ends import core, recorded_workload

pytestmark = [pytest.mark.e2e]
PROGRAM = ["python3", "include/workloads/resumable.py", "--save_every=10", "--step_seconds=0.1", "--steps=60"]


def document(home: Home, test: str, name: str) -> dict[str, Any]:
    (file,) = (home.runs / test).glob(f"*/_ml_metrics/{name}.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_a_run_survives_the_faults_of_its_plan_and_no_other_end(home: Home) -> None:
    faults = [
        {"at": "step {{ params.first }}", "what": "kill"},
        {"at": "step 25", "what": "evict"},
        {"at": "step 45", "what": "freeze(2s)"},
    ]
    conditions = {"recovery_seconds": {"comparison": "less", "success_threshold": {"fixed_value": 0.001}}}
    test = home.add_test(
        "faults",
        command=PROGRAM,
        params={"first": 15},
        faults=faults,
        regression_test_config={"metric_success_conditions": conditions},
    )
    done = home.run(test)
    assert done.returncode != 0, "the recovery is too slow for the condition"
    journal, found = document(home, test, "faults"), document(home, test, "metrics")
    assert [(one["state"], one["attempt"]) for one in journal["faults"]] == [("done", 1), ("done", 2), ("done", 3)]
    assert [one["attempt"] for one in journal["restarts"]] == [1, 2]
    assert recorded_workload(home, test)["status"] == "success"
    values = {metric["name"]: metric["value"] for metric in found["metrics"]}
    assert (values["faults_survived"], values["fault_loss_jumps"]) == (3, 0)
    assert found["faults"][2]["recovered"] >= 2
    assert found["faults"][0]["steps_lost"] >= 5
    (mail,) = home.mails(test)
    text = mail.read_text().replace("=\n", "").replace("\n", " ")
    assert "kill on host 0 (step 15): recovered in" in text
    assert core(home).list_namespaced_pod("default", label_selector=f"ml-metrics/test={test}").items == []


def test_an_end_beyond_the_plan_fails_the_run(home: Home) -> None:
    program = [*PROGRAM, "--steps=20; exit 3"]
    test = home.add_test(
        "beyond", command=["sh", "-c", " ".join(program)], faults=[{"at": "step 5", "what": "terminate"}]
    )
    assert home.run(test).returncode != 0
    workload = recorded_workload(home, test)
    assert (workload["failure_reason"], workload["attempts"]) == ("ExitCode:3", 2)
