"""A whole run whose folder is in a bucket, where the workload and every task read and write."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ml_metrics import storage
from ml_metrics.model import JobStatus

if TYPE_CHECKING:
    from airflow_home import Home

pytestmark = pytest.mark.e2e
CLOUD = ("STORAGE_EMULATOR_HOST", "NO_GCE_CHECK", "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT")
"""Environment variables with which a workload uses the fake cloud."""

PROGRAM = """
from ml_metrics_telemetry import GoodputRecorder, JsonLinesMetricHandler, TensorBoardMetricHandler
from ml_metrics_telemetry import configure, local_folder, put_metric
from tensorboard.summary import Writer
by_path = Writer(str(local_folder() / "by-path"))
by_path.add_scalar("by_path", 0.5, 1)
by_path.close()
recorder = GoodputRecorder("job", "log", True)
recorder.record_job_start_time()
for step in range(5):
    recorder.record_step_start_time(step)
configure(JsonLinesMetricHandler(), "lines")
configure(TensorBoardMetricHandler(), "events")
for value in (0.5, 0.97):
    put_metric("accuracy", value, "lines")
    put_metric("accuracy", value, "events")
recorder.record_job_end_time()
print("everything was written")
"""


def test_a_run_in_a_bucket_is_measured_judged_and_recorded(home: Home, bucket: str) -> None:
    variables = {name: os.environ[name] for name in CLOUD}
    good = {"comparison": "greater", "success_threshold": {"fixed_value": 0.96}}
    test = home.add_test(
        "in-a-bucket",
        command=["python3", "-c", PROGRAM],
        env=variables,
        regression_test_config={"metric_success_conditions": {"lines/accuracy_final": good}},
    )
    done = home.airflow("dags", "test", test, AIRFLOW__ML_METRICS__STORAGE_ROOT=bucket)
    assert done.returncode == 0, done.stdout[-3000:]
    with home.warehouse() as warehouse:
        (run,) = warehouse.runs.newest(test)
        assert run.job_status == JobStatus.SUCCESS
        metrics = {row.metric: row.value for row in warehouse.metrics.of_run(run.uuid)}
    assert metrics["lines/accuracy_final"] == 0.97
    assert metrics["events/accuracy_final"] == pytest.approx(0.97)
    assert metrics["by_path_final"] == 0.5
    assert {"goodput", "total_wall_time"} <= metrics.keys()
    names = {file.name for file in storage.list_files(f"{bucket}/{test}/{run.uuid}")}
    written = {"workload", "metrics", "goodput", "verdicts", "gate"}
    assert {f"_ml_metrics/{name}.json" for name in written} <= names
    assert not home.runs.exists(), "files were written on this machine"
