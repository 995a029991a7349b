"""A workload whose Python has the package of telemetry and nothing else: its goodput and scalars arrive as rows."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from airflow_home import PROJECT, Home

pytestmark = [pytest.mark.e2e]

WORKLOAD = """
import importlib.util, sys, time
from ml_metrics_telemetry import Training

assert importlib.util.find_spec("ml_metrics") is None, sys.path
with Training() as training:
    with training.preparation():
        time.sleep(0.05)
    for step, batch in training.steps(range(12)):
        time.sleep(0.01)
        training.log(step, loss=1 / (1 + batch))
        if step == 6:
            with training.save(step):
                time.sleep(0.05)
            with training.evaluation():
                time.sleep(0.05)
    training.log(0, python_minor=sys.version_info.minor)
"""
OLDEST = "3.9"


def python_of_an_image() -> tuple[str, int]:
    """Return the oldest Python of this machine that the package runs on, and its minor version."""
    old = sorted(Path.home().glob(f".pyenv/versions/{OLDEST}.*/bin/python{OLDEST}"))
    found = str(old[-1]) if old else shutil.which("python3", path="/usr/bin:/usr/local/bin")
    assert found is not None
    program = "import sys; print(sys.version_info.minor)"
    return found, int(subprocess.run([found, "-c", program], capture_output=True, text=True, check=True).stdout)


def test_its_goodput_and_scalars_become_rows(home: Home) -> None:
    executable, minor = python_of_an_image()
    image = home.shared / "image"
    shutil.copytree(PROJECT / "packages" / "telemetry" / "src", image)
    program = home.shared / "train.py"
    program.write_text(WORKLOAD)
    home.add_test(
        "telemetry-alone",
        command=[executable, "-s", str(program)],
        env={"PYTHONPATH": str(image)},
        goodput={"enabled": True},
        regression_test_config={
            "metric_success_conditions": {"goodput": {"comparison": "greater", "success_threshold": {"fixed_value": 1}}}
        },
    )
    reached = {"AIRFLOW__ML_METRICS__LOCAL_CLUSTER_FOLDERS": f"{home.shared},{Path(executable).parents[1]}"}
    done = home.airflow("dags", "test", "telemetry-alone", **reached)
    assert done.returncode == 0, done.stdout[-3000:]
    with home.warehouse() as warehouse:
        (job,) = warehouse.runs.newest("telemetry-alone")
        rows = {row.metric: row.value for row in warehouse.metrics.of_run(job.uuid)}
    assert rows["python_minor_final"] == minor
    assert rows["loss_final"] == pytest.approx(1 / 12)
    assert 1 < rows["goodput"] < 100
    assert rows["badput_training_prep_seconds"] >= 0.05
    assert rows["badput_unproductive_checkpoint_save_time_seconds"] >= 0.05
    assert rows["badput_custom_badput_events_eval_seconds"] >= 0.05
