"""The DAGs `ml-metrics-compare` and `ml-metrics-bisect`, in a real Airflow with the local cluster."""

from __future__ import annotations

import pytest

from airflow_home import Home
from local_kube.node import NODE_NAME as NODE
from ml_metrics.core.model import Run
from ml_metrics.judge import State
from ml_metrics.judge.compare import BASE, CANDIDATE, Plan
from ml_metrics.pipeline.experiments import (
    COMPARE,
    EXPERIMENTS_FOLDER,
    Journal,
    TrialRun,
    open_journal,
    read_result,
    run_id_of,
)
from ml_metrics.pipeline.experiments.comparison import Comparison
from ml_metrics.store.documents import Documents
from standalone_airflow import Standalone, kill_next, wait_until
from workload_ends import core, recorded_workload

pytestmark = [pytest.mark.e2e, pytest.mark.campaign]

TRAINING = """
import json, os, statistics, time
pause = 0.01 * (1.3 if os.environ["IMAGE"] == "local/candidate:2" else 1)
weights, times = 0.0, []
for step in range(40):
    started = time.perf_counter()
    time.sleep(pause)
    weights -= 0.1 * (weights - 1)
    times.append(time.perf_counter() - started)
with open(os.path.join(os.environ["MODEL_DIR"], "out.jsonl"), "w") as log:
    print(json.dumps({"step": 40, "step_time": statistics.median(times), "loss": (weights - 1) ** 2}), file=log)
"""
IMAGES = {BASE: "local/image:1", CANDIDATE: "local/candidate:2"}
METRIC = "step_time_final"
RUN = "by_hand"


FORM = {"test": "compared", "base": IMAGES[BASE], "candidate": IMAGES[CANDIDATE], "metrics": [METRIC]}
MADE = 11
NO_IMAGE = "registry.invalid/team/app:2"
"""The local cluster cannot pull it: there is no domain `.invalid`."""
IMPOSSIBLE = {"comparison": "less", "success_threshold": {"fixed_value": 0}}


def add_tests(home: Home) -> None:
    home.add_test(
        "compared",
        command=["python3", "-c", TRAINING],
        env={"IMAGE": "{{ params.image or 'local/image:1' }}"},
        by_hand=["image"],
        goodput={"enabled": False},
        regression_test_config={"metric_success_conditions": {METRIC: IMPOSSIBLE}},
    )
    home.add_test("pulled", command=["true"], by_hand=["image"], startup_timeout="5s")


def begun(key: str, home: Home) -> Journal:
    """Return the journal of a comparison of which all but the last of the fewest runs were made."""
    plan = Plan(2.0, 60, (METRIC,))
    levels = {BASE: 0.0101, CANDIDATE: 0.0131}
    arms = [arm for block in range(3) for arm in plan.order(block)][:MADE]
    trials = [
        TrialRun(IMAGES[arm], values={METRIC: levels[arm] + 0.00001 * (place % 3)}, host=NODE)
        for place, arm in enumerate(arms)
    ]
    return journal_of(Comparison("compared", "image", IMAGES[BASE], IMAGES[CANDIDATE], plan), trials, key, home)


def journal_of(comparison: Comparison, trials: list[TrialRun], key: str, home: Home) -> Journal:
    return Journal(
        Documents.of_deployment(str(home.runs), EXPERIMENTS_FOLDER), key, comparison.question(), tuple(trials)
    )


def test_a_comparison_that_is_killed_goes_on(airflow: Standalone, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eleven of twelve runs were made before; the last one is, while each process of the comparison is killed once."""
    monkeypatch.setenv("AIRFLOW_HOME", str(home.path))
    key = Run(COMPARE, COMPARE, RUN, "local").key
    begun(key, home).write()
    trial = run_id_of(key, MADE)
    airflow.unpause("compared")
    airflow.wait_until_parsed(COMPARE)
    airflow.trigger(COMPARE, FORM, RUN)
    kill_next(home, COMPARE, RUN, "run_trials")
    wait_until(lambda: airflow.tasks(COMPARE, RUN)["run_trials"]["state"] == "deferred", "no worker is held")
    assert airflow.wait_until_ended("compared", trial) == "failed", "the condition of the test has no say"
    assert airflow.wait_until_ended(COMPARE, RUN) == "failed", "the candidate is worse"

    result = read_result(str(home.runs), key)
    found = result["document"]["metrics"][METRIC]
    assert (found["verdict"], found["runs"]) == ("worse", MADE + 1)
    assert airflow.tasks(COMPARE, RUN)["run_trials"]["state"] == "success"
    assert "**1 worse**" in comment_of(airflow, RUN)
    assert list(airflow.runs("compared")) == [trial], "the run was started once"
    with home.warehouse() as warehouse:
        assert warehouse.runs.newest("compared") == [], "no trial is a baseline"
        assert [run.trial for run in warehouse.runs.newest("compared", trials=True)]
        assert warehouse.incidents.find_open("compared") is None
    assert home.mails("compared") == []


def test_an_image_that_does_not_exist_ends_a_comparison(
    airflow: Standalone, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of the four runs of the first block were made before; the last one, of the candidate, is made here."""
    monkeypatch.setenv("AIRFLOW_HOME", str(home.path))
    key = Run(COMPARE, COMPARE, "no_image", "local").key
    comparison = Comparison("pulled", "image", IMAGES[BASE], NO_IMAGE, Plan(2.0, 60, ("total_wall_time",)))
    assert comparison.plan.order(0) == (CANDIDATE, BASE, BASE, CANDIDATE)
    measured = TrialRun(IMAGES[BASE], values={"total_wall_time": 1.0}, host=NODE)
    broken = TrialRun(NO_IMAGE, State.BROKEN, reason="ErrImagePull")
    journal_of(comparison, [broken, measured, measured], key, home).write()
    airflow.unpause("pulled")
    airflow.wait_until_parsed(COMPARE)
    form = {"test": "pulled", "base": IMAGES[BASE], "candidate": NO_IMAGE, "metrics": ["total_wall_time"]}
    airflow.trigger(COMPARE, form, "no_image")
    assert airflow.wait_until_ended(COMPARE, "no_image") == "failed", "a build stops, with exit code 1"

    last = open_journal(str(home.runs), key).trials[-1]
    assert (last.version, last.state) == (NO_IMAGE, State.BROKEN)
    assert last.reason in {"ErrImagePull", "ImagePullBackOff"}
    result = read_result(str(home.runs), key)
    assert "4 runs: every run of the candidate broke; " in result["answer"]
    for text in (result["answer"], comment_of(airflow, "no_image")):
        assert f"{NO_IMAGE} measured nothing: ErrImagePull" in text
    states = {name: task["state"] for name, task in airflow.tasks(COMPARE, "no_image").items()}
    assert states == {"run_trials": "success", "give_answer": "failed"}
    assert recorded_workload(home, "pulled")["attempts"] == 1, "it is not pulled again"
    pods = core(home).list_namespaced_pod("default", label_selector="ml-metrics/test=pulled").items
    assert pods == []


def comment_of(airflow: Standalone, run: str) -> str:
    entry = f"/api/v2/dags/{COMPARE}/dagRuns/{run}/taskInstances/give_answer/xcomEntries/comment"
    return str(airflow.client.get(entry).raise_for_status().json()["value"])
