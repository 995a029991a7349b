"""A whole run whose folder is in a bucket, where the workload and every task read and write."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ml_metrics.core.model import JobStatus
from ml_metrics.store import storage
from workload_programs import CONDITION, EVERY_SOURCE, METRICS

if TYPE_CHECKING:
    from airflow_home import Home

pytestmark = pytest.mark.e2e
CLOUD = ("STORAGE_EMULATOR_HOST", "NO_GCE_CHECK", "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT")
"""Environment variables with which a workload uses the fake cloud."""


def test_a_run_in_a_bucket_is_measured_judged_and_recorded(home: Home, bucket: str) -> None:
    variables = {name: os.environ[name] for name in CLOUD}
    test = home.add_test(
        "in-a-bucket",
        command=["python3", "-c", EVERY_SOURCE],
        env=variables,
        regression_test_config={"metric_success_conditions": {"lines/accuracy_final": CONDITION}},
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
    assert set(METRICS) <= metrics.keys()
    names = {file.name for file in storage.list_files(f"{bucket}/{test}/{run.uuid}")}
    written = {"workload", "metrics", "goodput", "verdicts", "gate"}
    assert {f"_ml_metrics/{name}.json" for name in written} <= names
    assert not home.runs.exists(), "files were written on this machine"
