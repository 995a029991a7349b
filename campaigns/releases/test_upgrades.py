"""This state takes over from the last one in the middle of runs, and gives them back: one Airflow, started again.

Tables, run folders, an acknowledged incident, a task that waits in the triggerer and one that holds a worker are those
of the other. Then the newest Airflow takes over from the oldest. It needs an Airflow of its own for minutes, so
`make test` leaves it to `make campaign NAME=releases`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_home import PROJECT, Home
from campaigns.messages.warehouses import BigQuery, HangingProxy, Postgres, WarehouseServer
from campaigns.releases.test_releases import pytestmark as pytestmark  # noqa: PLC0414  (the same skip)
from matrix.corners import load_corners
from matrix.environments import CACHE, build_wheels, install, remove
from ml_metrics.warehouse import Warehouse
from ml_metrics.warehouse.warehouse import DEFAULT_DEPLOYMENT
from servers.engines import ENGINES
from standalone_airflow import START_SECONDS, Standalone, standalone, wait_until

LAST = "d436dd53"
"""The last release, 0.1.0: a clone may lack its tag."""
DEFERRED, HELD, BAD = "deferred", "held", "bad"
HOLDS_A_WORKER = """# Airflow opens only files that have the words airflow and dag in them
from ml_metrics import TestDefinition, accelerator_test

dag = accelerator_test(TestDefinition(**{definition}))
dag.get_task("run_workload").deferrable = False
"""
WAITS = """
import json, os, pathlib, time
shared = pathlib.Path("{shared}")
(shared / f"{name}.{{os.getpid()}}").touch()
while not (shared / "go-on").exists():
    time.sleep(0.2)
pathlib.Path(os.environ["MODEL_DIR"], "train.jsonl").write_text(json.dumps(dict(step=1, loss=0.5)))
"""


@pytest.fixture(scope="module")
def last(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the last state."""
    tree = tmp_path_factory.mktemp("last")
    archive = subprocess.run(["git", "archive", LAST], cwd=PROJECT, check=True, capture_output=True)
    subprocess.run(["tar", "-x"], cwd=tree, input=archive.stdout, check=True)
    return tree


@pytest.fixture(params=ENGINES)
def warehouse(request: pytest.FixtureRequest, home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Warehouse]:
    """The warehouse, which Airflow's processes find by their variables."""
    if request.param == "sqlite":
        yield home.warehouse()
        return
    server = request.getfixturevalue("postgres" if request.param == "postgresql" else "bigquery_server")
    if request.param == "postgresql":
        found: WarehouseServer = Postgres(server, server.new_database())
    else:
        found = BigQuery(server, server.new_dataset(), HangingProxy(server.port), None)
    for name, value in found.environment().items():
        monkeypatch.setenv(name, value)
    with found.open(DEFAULT_DEPLOYMENT) as opened:
        yield opened


@contextmanager
def release(home: Home, tree: Path, python: Path = Path(sys.executable)) -> Iterator[Standalone]:
    """Start Airflow with the code of a tree."""
    variables = {
        "PYTHONPATH": f"{tree}/plugins:{tree}/packages/local-kube/src:{os.environ['PYTHONPATH']}",
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "AIRFLOW__CORE__PLUGINS_FOLDER": f"{tree}/plugins",
        "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True",
    }
    with standalone(home, 10, (f"{tree}/deploy/standalone.py",), python, **variables) as running:
        for dag in (DEFERRED, HELD, BAD):
            running.unpause(dag)
        yield running


def definition(home: Home, name: str, bound: float) -> dict[str, object]:
    program = WAITS.format(shared=home.shared, name=name)
    condition = {"comparison": "less", "success_threshold": {"fixed_value": bound}}
    return {
        "image": "local/image:1",
        "command": ["python3", "-c", program],
        "owner": "a-new-user",
        "emails": ["somebody@example.com"],
        "timeout": "20m",
        "regression_test_config": {"metric_success_conditions": {"loss_final": condition}},
    }


def begin(airflow: Standalone, home: Home) -> dict[str, str]:
    """Start a run of each kind, and return when one waits in the triggerer and one in a worker."""
    for file in home.shared.iterdir():
        file.unlink()
    runs = {test: airflow.trigger(test) for test in (DEFERRED, HELD)}
    wait_until(lambda: sorted(started(home)) == [DEFERRED, HELD], "both workloads run", START_SECONDS)
    wait_until(lambda: airflow.is_watched(DEFERRED, runs[DEFERRED]), "one waits in the triggerer", START_SECONDS)
    assert airflow.tasks(HELD, runs[HELD])["run_workload"]["state"] == "running"
    return runs


def finish(airflow: Standalone, home: Home, runs: dict[str, str]) -> None:
    """Let the workloads go on: the runs that the other has begun pass, and none is started twice."""
    (home.shared / "go-on").touch()
    for test, run in runs.items():
        assert airflow.wait_until_ended(test, run, START_SECONDS) == "success", test
    assert sorted(started(home)) == [DEFERRED, HELD]


def started(home: Home) -> list[str]:
    """Return the tests of the workloads that have started, each as often as it did."""
    return [file.stem for file in home.shared.glob("*.*")]


@pytest.fixture
def tests(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that waits in the triggerer, one that holds a worker, and one that fails."""
    dags = tmp_path / "dags"
    dags.mkdir()
    shutil.copy(PROJECT / "dags" / "ml_tests.py", dags)
    held = {"name": HELD, **definition(home, HELD, 1)}
    (dags / "held.py").write_text(HOLDS_A_WORKER.format(definition=held))
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(dags))
    home.add_test(DEFERRED, **definition(home, DEFERRED, 1))
    home.add_test(BAD, **definition(home, BAD, 0.1))


@pytest.mark.usefixtures("tests")
def test_runs_go_on_under_the_other_release(home: Home, last: Path, warehouse: Warehouse) -> None:
    mails = len(home.mails(BAD))
    with release(home, last) as airflow:
        (home.shared / "go-on").touch()
        assert airflow.wait_until_ended(BAD, airflow.trigger(BAD), START_SECONDS) == "failed"
        acknowledge = [sys.executable, "-m", "ml_metrics.ui.cli", "ack", BAD, "--by", "somebody", "--note", "known"]
        subprocess.run(acknowledge, cwd="/", env={**home.environment, "PYTHONPATH": f"{last}/plugins"}, check=True)
        runs = begin(airflow, home)
    home.add_test(BAD, **definition(home, BAD, 1))
    with release(home, PROJECT) as airflow:
        finish(airflow, home, runs)
        assert {test: one.acknowledged_by for test, one in warehouse.incidents.all_open().items()} == {BAD: "somebody"}
        assert airflow.wait_until_ended(BAD, airflow.trigger(BAD), START_SECONDS) == "success"
        assert len(home.mails(BAD)) == mails + 2, "what broke, and that it recovered"
        runs = begin(airflow, home)
    with release(home, last) as airflow:
        finish(airflow, home, runs)
        assert airflow.wait_until_ended(BAD, airflow.trigger(BAD), START_SECONDS) == "success"
    verdicts = {test: [str(run.verdict) for run in warehouse.runs.newest(test)] for test in (DEFERRED, HELD, BAD)}
    assert verdicts == {DEFERRED: ["pass"] * 2, HELD: ["pass"] * 2, BAD: ["pass", "pass", "fail"]}
    assert not warehouse.incidents.all_open()
    assert len(home.mails(BAD)) == mails + 2


@pytest.fixture
def oldest(home: Home, tmp_path: Path) -> Iterator[Path]:
    """The Python of the oldest corner, whose Airflow has made the database of the home."""
    corner = load_corners()[0]
    CACHE.mkdir(parents=True, exist_ok=True)
    inside = install(corner, Path(sys.executable), build_wheels(tmp_path))
    for file in home.path.glob("airflow.db*"):
        file.unlink()
    environment = {**home.environment, "PATH": f"{inside.parent}:{os.environ['PATH']}"}
    subprocess.run([inside, PROJECT / "deploy" / "make_home.py"], env=environment, check=True)
    yield inside
    remove(corner)


@pytest.mark.usefixtures("tests")
def test_runs_go_on_under_the_newest_airflow(home: Home, oldest: Path) -> None:
    with release(home, PROJECT, oldest) as airflow:
        (home.shared / "go-on").touch()
        assert airflow.wait_until_ended(BAD, airflow.trigger(BAD), START_SECONDS) == "failed"
        runs = begin(airflow, home)
    home.airflow("db", "migrate").check_returncode()
    home.add_test(BAD, **definition(home, BAD, 1))
    with release(home, PROJECT) as airflow:
        finish(airflow, home, runs)
        assert airflow.wait_until_ended(BAD, airflow.trigger(BAD), START_SECONDS) == "success"
    assert not home.warehouse().incidents.all_open()
