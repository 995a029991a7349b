"""The callback of a gate that was lost with its worker, called by the function of Airflow's DAG processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[3]
CALL_BACK = """
from campaigns.messages.worker_host import run_lost_task

for _ in range(2):
    assert run_lost_task("lost", "manual__1", "assert_success", "ml_tests.py") == 0
"""


def test_the_dag_processor_reports_a_run_whose_gate_was_lost_once(tmp_path: Path) -> None:
    configs, home = tmp_path / "metric_configs", tmp_path / "airflow"
    configs.mkdir()
    content = {"name": "lost", "image": "i", "command": ["c"], "owner": "a-new-user"}
    (configs / "lost.yaml").write_text(json.dumps(content))
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "PYTHONPATH": f"{PROJECT}:{PROJECT / 'plugins'}:{PROJECT / 'tests'}",
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
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
