"""Imports what tasks and DAG files need before processes are forked for them, so that none imports it again.

LocalExecutor forks its workers from the scheduler, and each worker forks a process for each task; the DAG processor
forks one each time that it parses a file. What the parent has imported, all of them share. Celery workers fork, too,
but Airflow does not notify plugins of their start; `celery_imports.py` is for them.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import FailureLogged
from ml_metrics.core.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


PACKAGES = ("ml_metrics", "ml_metrics_telemetry")


def share_after_forks() -> int:
    """Let the processes that this one forks from now on share its modules of this package. Return their number.

    Each of them forgets kept results, and also the modules if a file may have changed since it was imported.
    """
    began, modules = started_at() * 1e9, list(own_modules())
    states = {file: state_of(file) for module in modules if (file := module.__file__)}
    unchanged_so_far = all(state and max(state) < began for state in states.values())
    caches = [
        value
        for module in modules
        for value in vars(module).values()
        if hasattr(value, "cache_clear") and getattr(value, "__module__", None) == module.__name__
    ]

    def renew() -> None:
        for cache in caches:
            cache.cache_clear()
        if not unchanged_so_far or any(state_of(file) != state for file, state in states.items()):
            for module in list(own_modules()):
                del sys.modules[module.__name__]

    os.register_at_fork(after_in_child=renew)
    return len(states)


def own_modules() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES and module is not None:
            yield module


def started_at() -> float:
    """Return when this process started, in seconds since 1970; 0 where the system does not say: nothing is shared."""
    try:
        ticks = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except OSError:
        return 0.0
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + int(ticks) / os.sysconf("SC_CLK_TCK")


def state_of(file: str) -> tuple[int, ...]:
    """Return what differs after a file was changed or replaced; nothing, if it cannot be read.

    The time of the change of the inode is part of it: a copy may keep the size of a file and the time of its original.
    """
    try:
        status = os.stat(file)  # noqa: PTH116  (called for hundreds of files after each fork)
    except OSError:
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


log = logger_of(__name__)

OF_DAG_FILES = (
    "airflow.providers.cncf.kubernetes.operators.pod",
    "jinja2.sandbox",
    "ml_metrics.config.yaml",
    "ml_metrics.airflow.dags",
    "ml_metrics.judge.wording",
    "ml_metrics.airflow.operators.run_workload",
    "ml_metrics.airflow.product_dags",
)
"""What DAG files import."""
OF_TASKS = (
    *OF_DAG_FILES,
    "airflow.dag_processing.dagbag",
    "google_crc32c",
    "jinja2.ext",
    "local_kube.pods.confinement",
    "numpy",
    "psycopg",
    "sqlalchemy",
    "ml_metrics.alerts.channels.mail",
    "ml_metrics.alerts.channels.smtp",
    "ml_metrics.alerts.compose",
    "ml_metrics.store.markers",
    "ml_metrics.airflow.clusters.local_cluster",
    "ml_metrics.measure.cloud",
    "ml_metrics.measure.cloud.memory",
    "ml_metrics.measure.collect",
    "ml_metrics.measure.efficiency.nodes",
    "ml_metrics.measure.goodput.build",
    "ml_metrics.judge.changepoints",
    "ml_metrics.judge.bounds",
    "ml_metrics.judge.level",
    "ml_metrics.airflow.channels",
    "ml_metrics.alerts.runs",
    "ml_metrics.alerts.settings",
    "ml_metrics.alerts.outbox.sender",
    "ml_metrics.warehouse.sql",
    "ml_metrics.pipeline.steps",
)
"""What tasks of tests import."""


def preload(component: Any) -> None:
    """Import the modules if this process will fork others for tasks or DAG files. Airflow starts `component` in it."""
    if names := needed(component):
        share_imports(names)


def share_imports(names: tuple[str, ...]) -> None:
    """Import modules, for all processes that this one forks from now on."""
    began = time.perf_counter()
    missing = [name for name in names if not _is_imported(name)]
    shared = share_after_forks()
    log.info(
        "what %s import is imported in %.1f s, for all of them at once, with %d modules of ML Metrics%s",
        "tasks" if names is OF_TASKS else "DAG files",
        time.perf_counter() - began,
        shared,
        f"; not: {', '.join(missing)}" if missing else "",
    )


def needed(component: Any) -> tuple[str, ...]:
    """Return what the processes import that this one will fork; nothing, if it forks none."""
    # Airflow calls this before the job has a type. In a task's process, which has the same arguments, it is no job.
    match type(component).__name__:
        case "Job":
            pass
        case "TaskRunnerMarker":
            return ()
        case other:
            log.warning("nothing is imported for all tasks at once: Airflow starts %s, which is not known here", other)
            return ()
    match sys.argv[1:2]:
        case ["scheduler"]:
            from ml_metrics.airflow.versions import conf

            forks = "LocalExecutor" in conf.get("core", "executor") and multiprocessing.get_start_method() == "fork"
            return OF_TASKS if forks else ()
        case ["dag-processor"]:
            return OF_DAG_FILES
    return ()


def _is_imported(name: str) -> bool:
    """Import a library. One that is absent or broken is an error of the tasks that need it, not of the scheduler."""
    with FailureLogged(log.debug, f"{name} cannot be imported"):
        import_module(name)
        return True
    return False
