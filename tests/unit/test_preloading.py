"""The libraries of tasks are imported in a scheduler that forks workers, and nowhere else."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ml_metrics import preloading
from ml_metrics.plugin import MlMetricsPlugin

PLUGINS = str(Path(preloading.__file__).parents[1])
START = """
import sys
from ml_metrics.plugin import MlMetricsPlugin

class Job: ...

sys.argv = ["airflow", sys.argv[1]]
for listener in MlMetricsPlugin.listeners:
    getattr(listener, "on_starting", id)(Job())
wanted = ("kubernetes.client", "kubernetes_asyncio", "numpy", "sqlalchemy", "ml_metrics.steps")
print(*(name for name in wanted if name in sys.modules))
"""


def test_a_scheduler_shares_the_libraries_of_tasks_with_its_workers(tmp_path: Path) -> None:
    own = {"AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": PLUGINS, "AIRFLOW__CORE__EXECUTOR": "LocalExecutor"}
    found = {}
    for component in ("scheduler", "triggerer"):
        command = [sys.executable, "-c", START, component]
        done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found[component] = set(done.stdout.splitlines()[-1].split())
    # the package itself is imported anew by each task, so that its new files count at once
    assert found["scheduler"] == {"kubernetes.client", "kubernetes_asyncio", "numpy", "sqlalchemy"}
    assert not {"kubernetes.client", "kubernetes_asyncio", "numpy"} & found["triggerer"]


class Job:
    """As Airflow's class: a listener is called before it has a type."""


@pytest.mark.parametrize(
    ("argv", "executor", "component", "method", "expected"),
    [
        ("scheduler", "LocalExecutor", Job(), "fork", True),
        ("scheduler", "CeleryExecutor,LocalExecutor", Job(), "fork", True),
        ("scheduler", "CeleryExecutor", Job(), "fork", False),
        ("scheduler", "LocalExecutor", Job(), "forkserver", False),
        ("scheduler", "LocalExecutor", object(), "fork", False),  # a task, whose process has the same arguments
        ("dag-processor", "LocalExecutor", Job(), "fork", False),
    ],
)
def test_only_a_scheduler_that_forks_workers_imports_them(  # noqa: PLR0913, PLR0917  (one for each column)
    monkeypatch: pytest.MonkeyPatch, argv: str, executor: str, component: object, method: str, expected: bool
) -> None:
    monkeypatch.setattr(sys, "argv", ["airflow", argv])
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda: method)
    assert preloading.forks_workers(component) is expected


def test_a_library_that_cannot_be_imported_is_no_error_of_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preloading, "forks_workers", lambda _: True)
    monkeypatch.setattr(preloading, "LIBRARIES", ("no_such_library", "json"))
    preloading.preload(Job())
    assert any(hasattr(listener, "on_starting") for listener in MlMetricsPlugin.listeners)
