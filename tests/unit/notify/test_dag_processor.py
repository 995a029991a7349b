"""The callback of a DAG, called by the function of Airflow's DAG processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[3]
CALL_BACK = """
import structlog
from airflow.callbacks.callback_requests import DagCallbackRequest
from ml_metrics.airflow_versions import DagBag
from airflow.dag_processing.processor import _execute_dag_callbacks

bag = DagBag("dags/ml_tests.py")
assert bag.import_errors == {}, bag.import_errors
request = DagCallbackRequest(
    filepath="ml_tests.py", dag_id="lost", run_id="manual__1", bundle_name="dags-folder", bundle_version=None,
    is_failure_callback=True, msg="task_failure", context_from_server=None,
)
for _ in range(2):
    _execute_dag_callbacks(bag, request, structlog.get_logger())
"""


def test_the_dag_processor_reports_a_run_without_gate_decision_once(tmp_path: Path) -> None:
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
