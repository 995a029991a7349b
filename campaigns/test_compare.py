"""`ml-metrics compare TEST`: trials with two images, through Airflow and the local cluster."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from airflow_home import Home
from ml_metrics.judge.compare import BASE, CANDIDATE, Plan
from ml_metrics.judge.compare.plan import FEWEST_RUNS

pytestmark = [pytest.mark.e2e, pytest.mark.campaign]

TRAINING = """
import json, os, time
pause = 0.01 * (1.3 if os.environ["IMAGE"] == "local/candidate:2" else 1)
weights = 0.0
for step in range(40):
    time.sleep(pause)
    weights -= 0.1 * (weights - 1)
with open(os.path.join(os.environ["MODEL_DIR"], "out.jsonl"), "w") as log:
    print(json.dumps({"step": 40, "step_time": 1.04 * pause, "loss": (weights - 1) ** 2}), file=log)
"""
"""A loop that trains, whose steps take 30 % longer in the image of the candidate, however busy the machine is."""
IMAGES = {BASE: "local/image:1", CANDIDATE: "local/candidate:2"}


def test_two_images_are_compared_by_trials_that_leave_no_trace(home: Home, tmp_path: Path) -> None:
    """The journal holds ten runs that were made before the comparison was killed; the last two are made here."""
    condition = {"comparison": "less", "success_threshold": {"fixed_value": 0.0001}}
    home.add_test(
        "compared",
        command=["python3", "-c", TRAINING],
        env={"IMAGE": "{{ params.image or 'local/image:1' }}"},
        by_hand=["image"],
        goodput={"enabled": False},
        regression_test_config={"metric_success_conditions": {"step_time_final": condition}},
    )
    plan, journal = Plan(2.0, 60, ("step_time_final",)), tmp_path / "journal.jsonl"
    arms = [arm for block in range(3) for arm in plan.order(block)]
    lines = [{**asdict(plan), **IMAGES, "test": "compared"}]
    for number, arm in enumerate(arms[:-2]):
        value = (0.0135 if arm == CANDIDATE else 0.0104) + 0.0001 * (number % 3)
        lines.append({"arm": arm, "values": {"step_time_final": value}, "host": "local"})
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))

    done = subprocess.run(
        [
            *("ml-metrics", "compare", "compared", "--base", IMAGES[BASE], "--candidate", IMAGES[CANDIDATE]),
            *("--metric", "step_time_final", "--journal", str(journal), "--json"),
        ],
        env=home.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 1, done.stderr[-3000:]
    found = json.loads(done.stdout)["metrics"]["step_time_final"]
    assert (found["verdict"], found["runs"]) == ("worse", FEWEST_RUNS)
    assert found["interval"][0] > 5
    measured = [json.loads(line) for line in journal.read_text().splitlines()[-2:]]
    assert [line["arm"] for line in measured] == arms[-2:]
    assert all(line["values"]["step_time_final"] > 0.01 for line in measured)
    with home.warehouse() as warehouse:
        assert warehouse.runs.newest("compared") == [], "no trial is a baseline"
        tried = warehouse.runs.newest("compared", trials=True)
        assert sorted(run.image or "" for run in tried) == sorted(IMAGES[arm] for arm in arms[-2:])
        assert {run.verdict for run in tried} == {"fail"}
        assert warehouse.incidents.find_open("compared") is None
    assert home.mails("compared") == []
