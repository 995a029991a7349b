"""Many tests at once through LocalExecutor: fifty with `make campaign NAME=pods`.

Each workload waits until all of them run: the test passes only if there really are so many pods at once. Airflow keeps
its own state in PostgreSQL here, as docker-compose.yaml has it: so many tasks at once are more than SQLite bears.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from airflow_home import Home
from campaigns.processes import settings_of_postgres
from servers.postgres import start_postgres
from standalone_airflow import standalone

PODS = int(os.environ.get("ML_METRICS_PODS", "0"))
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(not PODS, reason="`make campaign NAME=pods` plays this"),
]
LONGEST = 1800
"""Seconds that a pod waits for the others, and that we wait for the end of all."""

MEET = f"""
import os, pathlib, sys, time
place = pathlib.Path(sys.argv[1])
(place / os.environ["POD_NAME"]).touch()
end = time.monotonic() + {LONGEST}
while len(list(place.iterdir())) < {PODS}:
    if time.monotonic() > end:
        sys.exit("the others did not come")
    time.sleep(0.5)
"""


@pytest.fixture
def database() -> Iterator[str]:
    """The address of an empty database."""
    server = start_postgres()
    yield server.new_database()
    server.stop()


def test_all_of_them_run_at_once(home: Home, database: str) -> None:
    place = home.shared
    tests = [f"pod-{number}" for number in range(PODS)]
    for test in tests:
        home.add_test(test, command=["python3", "-c", MEET, str(place)], timeout="1h")
    variables = settings_of_postgres(database) | {
        "AIRFLOW__CORE__PARALLELISM": str(PODS),
        # a pod that runs holds a slot: the test counts pods that run at once under LocalExecutor
        "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "False",
    }
    with standalone(home, heartbeat=600, **variables) as airflow:
        airflow.unpause(tests[-1])
        runs = {test: airflow.trigger(test) for test in tests}
        assert {test: airflow.wait_until_ended(test, run, LONGEST) for test, run in runs.items()} == dict.fromkeys(
            tests, "success"
        )
    assert len(list(place.iterdir())) == PODS, "one pod for each, and no more"
    with home.warehouse() as warehouse:
        assert {test: [job.job_status for job in warehouse.runs.newest(test)] for test in tests} == {
            test: ["success"] for test in tests
        }
