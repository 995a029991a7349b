"""What tasks and DAG files need is imported in processes that fork others for them, and nowhere else."""

from __future__ import annotations

import multiprocessing
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ml_metrics.airflow import preloading
from ml_metrics.ui.plugin import MlMetricsPlugin
from warm_python import WarmPython, warm_python

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[3]
PLUGINS = str(Path(preloading.__file__).parents[2])
IMPORTS = """
import os, sys
from ml_metrics.ui.plugin import MlMetricsPlugin
"""
START = """
class Job: ...

sys.argv = ["airflow", sys.argv[2]]
for listener in MlMetricsPlugin.listeners:
    getattr(listener, "on_starting", id)(Job())
if os.fork():
    os.wait()
else:
    names = "kubernetes.client kubernetes_asyncio numpy sqlalchemy ml_metrics.airflow.dags ml_metrics.warehouse.sql"
    print(*(name for name in names.split() if name in sys.modules), flush=True)
    os._exit(0)
"""
OF_DAG_FILES = {"kubernetes.client", "kubernetes_asyncio", "ml_metrics.airflow.dags"}
OF_TASKS = {*OF_DAG_FILES, "numpy", "sqlalchemy", "ml_metrics.warehouse.sql"}


@pytest.fixture(scope="module")
def component_of_airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmPython]:
    """A process that has loaded the plugin, as each of them does at first."""
    home = str(tmp_path_factory.mktemp("home"))
    own = {
        "AIRFLOW_HOME": home,
        "AIRFLOW__CELERY__BROKER_URL": "memory://",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "PYTHONPATH": PLUGINS,
    }
    with warm_python(IMPORTS, f"{IMPORTS}\nexec(sys.argv[1])", **own) as python:
        yield python


@pytest.mark.parametrize(
    ("component", "shared", "not_shared"),
    [
        ("scheduler", OF_TASKS, set()),
        ("dag-processor", OF_DAG_FILES, {"numpy", "ml_metrics.warehouse.sql"}),
        ("triggerer", set(), OF_TASKS - {"sqlalchemy"}),
    ],
)
def test_processes_share_what_they_need_with_the_one_that_forks_them(
    component_of_airflow: WarmPython, component: str, shared: set[str], not_shared: set[str], tmp_path: Path
) -> None:
    done = component_of_airflow.run(START, component, folder=tmp_path)
    assert done.returncode == 0, done.output
    found = set(done.output.splitlines()[-1].split())
    assert shared <= found
    assert not not_shared & found


WORKER = """
if sys.argv[2]:
    os.environ["AIRFLOW__CELERY__EXTRA_CELERY_CONFIG"] = sys.argv[2]
from airflow.providers.celery.executors.celery_executor import app

app.loader.import_default_modules()  # as a worker does when it starts
if os.fork():
    os.wait()
else:
    print(*(name for name in ("numpy", "sqlalchemy", "ml_metrics.warehouse.sql") if name in sys.modules), flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize("configured", [True, False])
def test_a_celery_worker_imports_them_if_its_configuration_names_the_module(
    component_of_airflow: WarmPython, configured: bool, tmp_path: Path
) -> None:
    documented = re.search(r"EXTRA_CELERY_CONFIG: '(.*)'", (PROJECT / "docker-compose.yaml").read_text())
    assert documented
    done = component_of_airflow.run(WORKER, documented[1] if configured else "", folder=tmp_path)
    assert done.returncode == 0, done.output
    assert ("ml_metrics.warehouse.sql" in done.output.splitlines()[-1]) == configured


class Job:
    """As Airflow's class: a listener is called before it has a type."""


class TaskRunnerMarker:
    """As Airflow's class: the process of a task has the arguments of the scheduler."""


@pytest.mark.parametrize(
    ("argv", "executor", "component", "method", "expected"),
    [
        ("scheduler", "LocalExecutor", Job(), "fork", preloading.OF_TASKS),
        ("scheduler", "CeleryExecutor,LocalExecutor", Job(), "fork", preloading.OF_TASKS),
        ("scheduler", "CeleryExecutor", Job(), "fork", ()),
        ("scheduler", "LocalExecutor", Job(), "forkserver", ()),
        ("scheduler", "LocalExecutor", TaskRunnerMarker(), "fork", ()),
        ("dag-processor", "CeleryExecutor", Job(), "forkserver", preloading.OF_DAG_FILES),  # it always forks
        ("triggerer", "LocalExecutor", Job(), "fork", ()),
    ],
)
def test_only_a_process_that_forks_others_imports_them(
    monkeypatch: pytest.MonkeyPatch, argv: str, executor: str, component: object, method: str, expected: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys, "argv", ["airflow", argv])
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda: method)
    assert preloading.needed(component) is expected


def test_a_component_with_another_name_is_told(caplog: pytest.LogCaptureFixture) -> None:
    assert preloading.needed(object()) == ()
    assert "Airflow starts object, which is not known here" in caplog.text


def test_a_library_that_cannot_be_imported_is_no_error_of_the_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_after_it.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(preloading, "needed", lambda _: ("no_such_library", "imported_after_it"))
    monkeypatch.setattr(preloading, "share_after_forks", lambda: 0)
    preloading.preload(Job())
    assert sys.modules.pop("imported_after_it")
    assert any(hasattr(listener, "on_starting") for listener in MlMetricsPlugin.listeners)
