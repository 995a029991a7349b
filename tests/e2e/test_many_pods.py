"""Many pods at once through LocalExecutor: fifty with `make campaign-pods`.

Each pod waits until all of them run: the test passes only if they really do so at once. Airflow keeps its own state in
PostgreSQL here, as docker-compose.yaml has it: fifty tasks that beat their hearts at once are more than SQLite bears.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.home import Home
from e2e.standalone import standalone
from warehouse.postgres_server import BINARIES, PostgresServer

PODS = int(os.environ.get("ML_METRICS_PODS", "0"))
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.xdist_group("many_pods"),
    pytest.mark.skipif(not PODS, reason="`make campaign-pods` plays this"),
    pytest.mark.skipif(not BINARIES, reason="PostgreSQL is not installed: apt-get install postgresql"),
]
LONGEST = 900
"""Seconds that a pod waits for the others."""

MEET = f"""
import os, pathlib, sys, time
place = pathlib.Path(sys.argv[1])
(place / os.environ["POD_NAME"]).touch()
for line in range(20):
    print("line", line, flush=True)
end = time.monotonic() + {LONGEST}
while len(list(place.iterdir())) < {PODS}:
    if time.monotonic() > end:
        sys.exit("the others did not come")
    time.sleep(0.5)
"""

DAG_FILE = """
# airflow dag: many workloads side by side, each with a run folder of its own
from datetime import timedelta
from airflow.sdk import DAG
from ml_metrics.operators.run_workload import RunWorkload
from ml_metrics.spec.test import TestSpec

with DAG("many-pods", schedule=None, max_active_tasks={pods}) as dag:
    for number in range({pods}):
        test = TestSpec(
            name=f"pod-{{number}}", image="local/image:1", command=("python3", "-c", {program!r}, {place!r}),
            timeout=timedelta(seconds={longest}),
        )
        RunWorkload(task_id=f"run-{{number}}", test=test)
"""


@pytest.fixture
def database() -> Iterator[str]:
    """The address of an empty database."""
    server = PostgresServer()
    yield server.new_database()
    server.stop()


def test_all_of_them_run_at_once(home: Home, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, dags = tmp_path / "place", tmp_path / "dags"
    place.mkdir()
    dags.mkdir()
    (dags / "many_pods.py").write_text(DAG_FILE.format(pods=PODS, program=MEET, place=str(place), longest=LONGEST))
    for name, value in {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": database,
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__PARALLELISM": str(PODS),
        "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG": str(PODS),
        "AIRFLOW__SCHEDULER__MAX_TIS_PER_QUERY": "64",
    }.items():
        monkeypatch.setenv(name, value)
    with standalone(home, heartbeat=300) as airflow:
        airflow.unpause("many-pods")
        run = airflow.trigger("many-pods")
        assert airflow.ended("many-pods", run, LONGEST) == "success"
        states = [task["state"] for task in airflow.tasks("many-pods", run).values()]
    assert states == ["success"] * PODS
    assert len(list(place.iterdir())) == PODS, "one pod for each, and no more"
