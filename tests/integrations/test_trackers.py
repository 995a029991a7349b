"""Tracking servers as they are: a workload logs with the real client, and a channel adds the verdicts to its run.

The servers are in the environment of `make campaign NAME=integrations`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from ml_metrics.alerts.channels.mlflow import Mlflow
from ml_metrics.alerts.message import Message, MessageKind, Result
from servers.ports import free_port
from unit.measure.collect.run_folders import collected

PYTHON = os.environ.get("ML_METRICS_INTEGRATIONS_PYTHON", "")
START_SECONDS = 600
KEY = "5f0c1a2b-0000-5000-8000-000000000001"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not PYTHON, reason="mlflow is not here: `make campaign NAME=integrations`"),
]

PAGE = Path(__file__).parents[2] / "docs" / "monitoring.md"
READ = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient()
experiments = [one.experiment_id for one in client.search_experiments()]
print(json.dumps([
    {"id": run.info.run_id, "status": run.info.status, "tags": run.data.tags, "metrics": run.data.metrics,
     "experiment": client.get_experiment(run.info.experiment_id).name,
     "points": [len(client.get_metric_history(run.info.run_id, name)) for name in sorted(run.data.metrics)]}
    for run in client.search_runs(experiments)
]))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home, port = tmp_path_factory.mktemp("mlflow"), free_port()
    command = [PYTHON, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{home}/mlflow.db", "--artifacts-destination", str(home / "files")]
    with (
        (home / "log").open("wb") as log,
        subprocess.Popen(
            command, stdout=log, stderr=log, cwd=home, env=environment(home, ""), start_new_session=True
        ) as process,
    ):
        try:
            wait_for(f"http://127.0.0.1:{port}/health", process, home / "log")
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, 15)


def environment(home: Path, server: str) -> dict[str, str]:
    path = f"{Path(PYTHON).parent}:{os.environ['PATH']}"
    return {
        "PATH": path,
        "HOME": str(home),
        "ML_METRICS_RUN_DIR": str(home),
        "MLFLOW_TRACKING_URI": server,
        "MLFLOW_EXPERIMENT_NAME": "of the workload",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # seven more processes, which are not used
    }


def wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + START_SECONDS
    while True:
        try:
            with urlopen(address, timeout=5):
                return
        except OSError:
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < ends, log.read_text()[-3000:]
            time.sleep(0.5)


def client(program: str, home: Path, server: str) -> str:
    done = subprocess.run(
        [PYTHON, "-W", "ignore", "-c", program],
        env=environment(home, server),
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def message(result: Result) -> Message:
    return Message(result.run_key, MessageKind.RESULT, "the result", result.text(), "", ())


def test_the_real_mlflow_has_the_verdicts_on_the_run_of_the_workload_or_on_a_new_one(
    server: str, tmp_path: Path
) -> None:
    began = round(time.time() * 1000)
    (example,) = re.findall(r"^```python\n(import json.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    client(example, tmp_path, server)
    named = collected(tmp_path).metadata["mlflow_run_id"]
    names = ["goodput", "cost_usd", "train/loss", "a//b", "../up", "x\ny", "é", *(f"m{one}" for one in range(1_000))]
    result = Result(
        test="maxtext",
        run_key=KEY,
        run_id="scheduled__2026-01-02T03:04:05+00:00",
        deployment="prod",
        verdict="fail",
        passed=False,
        reasons="loss: 0.7 is too much",
        link=f"https://airflow/ml-metrics/run?run={KEY}",
        began_at=began,
        ended_at=round(time.time() * 1000),
        metrics=dict.fromkeys(names, 43.5),
        verdicts=dict.fromkeys(names, "fail: " + "x" * 5_000),
        tracked={"mlflow": named},
    )
    of_another = replace(result, run_key=KEY.replace("5f0c", "6f0c"), passed=True, verdict="pass")
    channel = Mlflow(server, experiment="nightly")
    assert channel.send(message(result), 60) == f"logged to run {named}"
    assert channel.send(message(result), 60) == f"logged to run {named}", "as after a lost answer"
    where = channel.send(message(of_another), 60)  # it names a run that is another one's
    assert channel.send(message(of_another), 60) == where
    runs: dict[str, Any] = {one["id"]: one for one in json.loads(client(READ, tmp_path, server).splitlines()[-1])}
    assert len(runs) == 2
    ours = runs.pop(named)
    (own,) = runs.values()
    assert ours["tags"]["ml_metrics.verdict"] == "fail"
    assert (ours["metrics"]["loss"], ours["metrics"]["ml_metrics/goodput"]) == (0.7, 43.5)
    assert ours["metrics"]["ml_metrics/train/loss"] == 43.5
    assert (ours["status"], ours["experiment"]) == ("FINISHED", "of the workload")
    assert set(ours["points"]) == {1}, "what is repeated is there once"
    assert (own["experiment"], own["status"]) == ("nightly", "FINISHED")
    assert (own["tags"]["ml_metrics.verdict"], where) == ("pass", f"logged to run {own['id']}")
    assert len(own["metrics"]) == 500
