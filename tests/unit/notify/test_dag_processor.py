"""The callback of a gate that was lost with its worker, called by the function of Airflow's DAG processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[3]
CALL_BACK = """
from uuid import uuid4

import structlog
from airflow.callbacks.callback_requests import TaskCallbackRequest
from airflow.dag_processing.processor import _execute_task_callbacks
from ml_metrics.airflow_versions import DagBag

bag = DagBag("dags/ml_tests.py")
assert bag.import_errors == {}, bag.import_errors
now = "2026-01-01T00:00:00Z"
run = {
    "dag_id": "lost", "run_id": "manual__1", "run_after": now, "start_date": now, "run_type": "manual",
    "state": "running", "consumed_asset_events": [], "logical_date": None, "data_interval_start": None,
    "data_interval_end": None, "end_date": None, "partition_key": None,
}
ti = {
    "id": uuid4(), "dag_id": "lost", "run_id": "manual__1", "task_id": "assert_success", "try_number": 6,
    "dag_version_id": uuid4(), "pool_slots": 1, "queue": "default", "priority_weight": 1,
}
request = TaskCallbackRequest.model_validate({
    "filepath": "ml_tests.py", "bundle_name": "dags-folder", "bundle_version": None, "msg": "no heartbeat", "ti": ti,
    "task_callback_type": "failed", "context_from_server": {"dag_run": run, "max_tries": 5},
})
for _ in range(2):
    _execute_task_callbacks(bag, request, structlog.get_logger())
"""


def test_the_dag_processor_reports_a_run_whose_gate_was_lost_once(tmp_path: Path) -> None:
    configs, home = tmp_path / "metric_configs", tmp_path / "airflow"
    configs.mkdir()
    content = {"name": "lost", "image": "i", "command": ["c"], "owner": "a-new-user"}
    (configs / "lost.yaml").write_text(json.dumps(content))
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "PYTHONPATH": str(PROJECT / "plugins"),
        "AIRFLOW__ML_METRICS__CONFIG_ROOT": str(configs),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(tmp_path / "no-plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    done = subprocess.run(
        [sys.executable, "-c", CALL_BACK],
        env=environment,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    (mail,) = (home / "ml_metrics" / "outbox").glob("*.eml")
    assert "Subject: [ML Metrics] lost failed: task assert_success failed" in mail.read_text()
    assert output.count("delivered by outbox") == 1
    assert "no new alert for lost" in output
