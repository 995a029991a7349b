"""One run that writes to every source, through `airflow dags test`, and its folder read by `ml-metrics collect`."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from airflow_home import PROJECT, Home

pytestmark = [pytest.mark.e2e]

PROFILE = PROJECT / "tests" / "unit" / "measure" / "collect" / "profiles" / "tpu.xplane.pb"
WORKLOAD = """
import json, os, shutil, sys
from pathlib import Path
from tensorboard.summary import Writer
import ml_metrics_telemetry as telemetry

run = Path(os.environ["ML_METRICS_RUN_DIR"])
log = Writer(str(run / "train")); log.add_scalar("loss", 0.5, 1); log.close()

telemetry.configure(telemetry.JsonLinesMetricHandler())
queue = telemetry.get_stream("loader")
for length in (3, 5, 4):
    queue.add_value("queue_length", length)

@telemetry.prof(group="loader")
def load():
    return bytearray(50_000_000)

load()

results = [{"metrics": {"throughput": 100.0 * batch, "note": "fast"}, "dimensions": {"batch": batch, "model": "mnist"}}
           for batch in (64, 128)]
(run / "results.jsonl").write_text("".join(json.dumps(one) + chr(10) for one in results) + '{"metrics": {"cut')

(run / "output").mkdir()
(run / "output" / "perfzero_summary.json").write_text(json.dumps({
    "execution_id": "2026-01-01-00-00-00-000000", "execution_timestamp": 1767225600.5,
    "benchmark_result": {"name": "Tests.small", "succeeded": True, "wall_time": 12.5,
                         "metrics": [{"name": "examples_per_second", "value": 640.0}]},
    "process_info": {"max_rss": 1000, "max_cpu_percent": 99.5}}))
broken = run / "broken"; broken.mkdir()
(broken / "perfzero_summary.json").write_text("{")

(run / "start.json").write_text(json.dumps(
    {"results": [{"command": "start", "times": [0.5, 0.25, 0.75], "exit_codes": [0, 0, 0]}]}))
(run / "train.log").write_text("completed step: 1, seconds: 0.5, TFLOP/s/device: 1.0, loss: 2.25" + chr(10))

session = run / "logs/plugins/profile/2026_01_01"; session.mkdir(parents=True)
shutil.copy(sys.argv[1], session / "host.xplane.pb")
import time
time.sleep(1.1)  # a cluster states times in whole seconds, and a run that took none has no cost
"""
CONFIG = {
    "metric_to_aggregation_strategy": {"loader/queue_length": ["max", "average"]},
    "tags_to_ignore": ["max_cpu_percent", "loader/*.success"],
    "sources": {
        "logs": {"profile": "maxtext"},
        "literals": {"tries": "attempts", "job_seconds": "duration", "queue_seconds": "queue_time"},
    },
}
EXACT = {
    "loss_final": 0.5,
    "start/time_median": 0.5,
    "log/loss_final": 2.25,
    "log/step_time_final": 0.5,
    "log/tflops_per_device_final": 1.0,
    "loader/queue_length_max": 5,
    "loader/queue_length_average": 4,
    "batch=64/throughput": 6400,
    "batch=128/throughput": 12800,
    "examples_per_second": 640,
    "max_rss": 1000,
    "total_wall_time": 12.5,
    "profile/device_core_count": 2,
    "profile/average_step_time_ms": 2,
    "tries": 1,
}
BILL = {"chip_hours", "cost_usd"}
"""Computed after the metrics are collected."""
MEASURED = {
    "loader/__main__.load.duration.ms_final",
    "profile/flops_utilization_percent",
    "profile/hbm_bandwidth_utilization_percent",
    "profile/device_duty_cycle_percent",
    "vm_memory_usage_bytes",
    "job_seconds",
    "queue_seconds",
}
"""Metrics whose values differ from run to run."""


def test_the_metrics_of_all_sources_become_rows_of_one_run(home: Home) -> None:
    program = home.shared / "sources.py"
    program.write_text(WORKLOAD)
    limit = {"comparison": "less", "success_threshold": {"fixed_value": 4.5}}
    home.add_test(
        "sources",
        command=["python3", str(program), str(PROFILE)],
        metric_collection_config=CONFIG,
        regression_test_config={"metric_success_conditions": {"loader/queue_length_average": limit}},
    )
    done = home.run("sources")
    assert done.returncode == 0, done.stdout[-3000:]
    with home.warehouse() as warehouse:
        (job,) = warehouse.runs.newest("sources")
        rows = {row.metric: row.value for row in warehouse.metrics.of_run(job.uuid)}
    assert {name: rows.get(name) for name in EXACT} == EXACT
    assert set(rows) == {*EXACT, *MEASURED, *BILL}
    assert rows["vm_memory_usage_bytes"] > 50_000_000
    assert metadata(home, job.uuid)["model"] == "mnist"
    assert metadata(home, job.uuid)["profile/device_type"] == "TPU v5 lite"
    (folder,) = (home.runs / "sources").iterdir()
    document = json.loads((folder / "_ml_metrics" / "metrics.json").read_text())
    assert len(document["warnings"]) == 3, document["warnings"]

    again = collect_again(home, folder)
    collected = {name: value for name, value in rows.items() if name not in BILL}
    assert {one["name"]: one["value"] for one in again["metrics"]} == collected
    del document["_signature"], document["_version"]
    assert again == document


def metadata(home: Home, uuid: str) -> dict[str, str]:
    with sqlite3.connect(home.path / "ml_metrics" / "warehouse.db") as database:
        query = "SELECT metadata_key, metadata_value FROM metadata_history WHERE uuid = ?"
        return dict(database.execute(query, (uuid,)).fetchall())


def collect_again(home: Home, folder: Path) -> dict[str, Any]:
    """Return the document that `ml-metrics collect` prints."""
    command = ["ml-metrics", "collect", str(home.configs / "sources.yaml"), str(folder), "--json"]
    done = subprocess.run(command, env=home.environment, capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
