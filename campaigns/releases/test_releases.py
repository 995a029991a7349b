"""The release DAG of docs/runs.md, under an Airflow whose gates, release tasks and scheduler are killed.

It needs an Airflow of its own for minutes, so `make test` leaves it to `make campaign NAME=releases`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_home import PROJECT, Home
from campaigns.releases import killed_processes
from campaigns.releases.killed_processes import RELEASE
from ml_metrics import green_tests
from standalone_airflow import Standalone, standalone, wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(
        not os.environ.get("CAMPAIGN"), reason="NOT RUN: minutes of Airflow; `make campaign NAME=releases`"
    ),
]

A, B = "released-a", "released-b"
PAGE = PROJECT / "docs" / "runs.md"
PUBLISHING = """
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

with DAG("release", schedule=None):
    EmptyOperator(task_id="publish")
"""
GATES_KILLED, SCHEDULER_KILLED, ONE_RED = (f"sha256:{number:064x}" for number in range(3))
"""The digests, by what happens to their runs."""
KILLS = (
    *(f"{A}.begins", f"{A}.emitted"),  # before the event, and on the next try behind it, before Airflow knows it
    *(f"{B}.emitted", f"{B}.ended"),  # the same, and on the next try when Airflow knows it
    *(f"{RELEASE}.looks", f"{RELEASE}.triggers", f"{RELEASE}.triggered"),
)


@pytest.fixture(scope="module")
def points(home: Home) -> Path:
    """The folder with the kills that wait."""
    return home.path / "config" / "points"


@pytest.fixture(scope="module")
def airflow(home: Home, points: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    points.mkdir(parents=True)
    shutil.copy(killed_processes.__file__, points.with_name("airflow_local_settings.py"))
    dags = tmp_path_factory.mktemp("dags")
    shutil.copy(PROJECT / "dags" / "ml_tests.py", dags)
    (dags / "publish.py").write_text(PUBLISHING)
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (dags / "release.py").write_text(block.replace("resnet-v5e", A).replace("bert-v5e", B))
    for test in (A, B):
        write_test(home, test, GATES_KILLED)
    variables = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        # seconds until a scheduler looks for tasks of one that died: the default is 300
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
    }
    with standalone(home, heartbeat=10, **variables) as running:
        for dag in (A, B, RELEASE, "release"):
            running.unpause(dag)
        yield running


def write_test(home: Home, test: str, digest: str, *, passes: bool = True) -> None:
    limit = {"comparison": "less", "success_threshold": {"fixed_value": 300.0 if passes else -1.0}}
    home.add_test(
        test,
        image=f"local/image@{digest}",
        command=["true"],
        goodput={"enabled": False},
        regression_test_config={"metric_success_conditions": {"total_wall_time": limit}},
    )


def test_each_green_digest_is_released_once_whatever_is_killed(airflow: Standalone, home: Home, points: Path) -> None:
    for kill_at in KILLS:
        (points / kill_at).touch()
    first = airflow.trigger(A)
    assert airflow.wait_until_ended(A, first) == "success"
    assert airflow.tasks(A, first)["assert_success"]["try_number"] == 3, "two tries were killed"
    wait_until(lambda: has_looked_at_all(airflow), "the release DAG has looked at the event of A")
    assert releases(airflow) == [], "B has not run"
    assert airflow.wait_until_ended(B, airflow.trigger(B)) == "success"
    wait_until(lambda: has_looked_at_all(airflow), "the release DAG has looked at the event of B")
    assert releases(airflow) == [f"release__{GATES_KILLED}"]
    assert list(points.iterdir()) == [], "a process was killed at each point"
    assert emitted(airflow) == {(test, GATES_KILLED): 1 for test in (A, B)}

    for test in (A, B):
        write_test(home, test, SCHEDULER_KILLED)
    runs = {test: airflow.trigger(test) for test in (A, B)}
    wait_until(lambda: (B, SCHEDULER_KILLED) in emitted(airflow), "B has passed on the second digest")
    airflow.kill_service("scheduler")
    assert {airflow.wait_until_ended(test, run) for test, run in runs.items()} == {"success"}
    write_test(home, A, ONE_RED)
    write_test(home, B, ONE_RED, passes=False)
    runs = {test: airflow.trigger(test) for test in (A, B)}
    assert [airflow.wait_until_ended(test, run) for test, run in runs.items()] == ["success", "failed"]
    airflow.clear(A, first, "assert_success")
    wait_until(lambda: emitted(airflow)[A, GATES_KILLED] == 2, "the cleared gate has emitted again")
    wait_until(lambda: has_looked_at_all(airflow), "the release DAG has looked at every event")
    expected = {(test, digest): 1 for test in (A, B) for digest in (GATES_KILLED, SCHEDULER_KILLED)}
    assert emitted(airflow) == {**expected, (A, ONE_RED): 1, (A, GATES_KILLED): 2}
    assert sorted(releases(airflow)) == [f"release__{GATES_KILLED}", f"release__{SCHEDULER_KILLED}"]
    address = f"sqlite:///{home.path}/ml_metrics/warehouse.db"
    assert green_tests(ONE_RED, (A, B), warehouse=address) == {A}


def emitted(airflow: Standalone) -> Counter[tuple[str, str]]:
    """Return how many events each test has on each digest."""
    return Counter((event["source_dag_id"], event["extra"]["digest"]) for event in events(airflow))


def events(airflow: Standalone) -> list[dict[str, Any]]:
    found = airflow.client.get("/api/v2/assets/events", params={"limit": 1000}).raise_for_status().json()
    return [event for event in found["asset_events"] if event["extra"].get("digest")]


def releases(airflow: Standalone) -> list[str]:
    """Return the runs of the DAG that publishes."""
    return list(airflow.runs("release"))


def has_looked_at_all(airflow: Standalone) -> bool:
    """Return whether ended runs of the release DAG were started by all events."""
    path = f"/api/v2/dags/{RELEASE}/dagRuns"
    ended = [name for name, run in airflow.runs(RELEASE).items() if run["state"] == "success"]
    found = [airflow.client.get(f"{path}/{run}/upstreamAssetEvents").raise_for_status().json() for run in ended]
    return {event["id"] for event in events(airflow)} <= {event["id"] for one in found for event in one["asset_events"]}
