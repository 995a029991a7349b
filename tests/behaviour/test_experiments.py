"""The DAGs `ml-metrics-compare` and `ml-metrics-bisect`, in a real Airflow with the local cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from airflow_home import Home
from ml_metrics.compare.plan import BASE, CANDIDATE, Plan
from ml_metrics.documents import Documents
from ml_metrics.experiments.journal import FOLDER, Journal
from ml_metrics.experiments.request import COMPARE
from ml_metrics.experiments.trial_run import TrialRun
from ml_metrics.model import Run
from standalone_airflow import Standalone, standalone, wait_until

pytestmark = [pytest.mark.e2e]

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


@pytest.fixture(scope="module")
def airflow(home: Home) -> Iterator[Standalone]:
    home.add_test(
        "compared",
        command=["python3", "-c", TRAINING],
        env={"IMAGE": "{{ params.image or 'local/image:1' }}"},
        by_hand=["image"],
        goodput={"enabled": False},
    )
    with standalone(home) as running:
        yield running


def test_a_comparison_that_is_killed_goes_on(airflow: Standalone, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    form = {"test": "compared", "base": IMAGES[BASE], "candidate": IMAGES[CANDIDATE], "metrics": [METRIC]}
    airflow.unpause("compared")
    airflow.wait_until_parsed(COMPARE)
    airflow.trigger(COMPARE, form, RUN)
    print(airflow.wait_until_ended(COMPARE, RUN, timeout=3000))
