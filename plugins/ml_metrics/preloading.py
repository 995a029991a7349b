"""Imports the libraries of tasks before workers are forked, so that no task imports them again.

LocalExecutor forks its workers from the scheduler, and each worker forks a process for each task: what the scheduler
has imported, all of them share. Celery's workers do the same for numpy and the Kubernetes client by themselves.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from importlib import import_module
from typing import Any

from ml_metrics.log_lines import logger_of

log = logger_of(__name__)

LIBRARIES = (
    "airflow.providers.cncf.kubernetes.operators.pod",
    "google_crc32c",
    "jinja2.sandbox",
    "numpy",
    "psycopg",
    "sqlalchemy",
)
"""What tasks of tests import, except for this package itself: its new files must not need a new scheduler."""


def preload(component: Any) -> None:
    """Import the libraries if this process is a scheduler that will fork workers. Airflow starts `component` in it."""
    if not forks_workers(component):
        return
    began = time.perf_counter()
    missing = [name for name in LIBRARIES if not _is_imported(name)]
    log.info(
        "the libraries of tasks are imported in %.1f s, for all of them at once%s",
        time.perf_counter() - began,
        f"; not: {', '.join(missing)}" if missing else "",
    )


def forks_workers(component: Any) -> bool:
    """Return whether this process starts the job of a scheduler whose executor forks workers."""
    # Airflow calls this before the job has a type. In a task's process, which has the same arguments, it is no job.
    if type(component).__name__ != "Job" or sys.argv[1:2] != ["scheduler"]:
        return False
    from ml_metrics.airflow_versions import conf

    return "LocalExecutor" in conf.get("core", "executor") and multiprocessing.get_start_method() == "fork"


def _is_imported(name: str) -> bool:
    """Import a library. One that is absent or broken is an error of the tasks that need it, not of the scheduler."""
    try:
        import_module(name)
    except Exception as error:  # noqa: BLE001
        log.debug("%s cannot be imported: %s", name, error)
        return False
    return True
