"""Imports what tasks and DAG files need before processes are forked for them, so that none imports it again.

LocalExecutor forks its workers from the scheduler, and each worker forks a process for each task; the DAG processor
forks one each time that it parses a file. What the parent has imported, all of them share. Celery workers fork, too,
but Airflow does not notify plugins of their start; `celery_imports.py` is for them.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from importlib import import_module
from typing import Any

from ml_metrics.log_lines import logger_of
from ml_metrics.shared_modules import share_after_forks

log = logger_of(__name__)

OF_DAG_FILES = (
    "airflow.providers.cncf.kubernetes.operators.pod",
    "jinja2.sandbox",
    "ml_metrics.config.yaml_text",
    "ml_metrics.dag_file",
    "ml_metrics.judge.wording",
    "ml_metrics.operators.run_workload",
    "ml_metrics.product_dags",
)
"""What DAG files import."""
OF_TASKS = (
    *OF_DAG_FILES,
    "airflow.dag_processing.dagbag",
    "google_crc32c",
    "jinja2.ext",
    "local_kube.pods.confinement",
    "numpy",
    "pandas",  # by pyarrow, for its first column
    "psycopg",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.json",
    "sqlalchemy",
    "ml_metrics.alerts.channels.outbox",
    "ml_metrics.alerts.channels.smtp",
    "ml_metrics.alerts.compose",
    "ml_metrics.alerts.markers",
    "ml_metrics.clusters.local_cluster",
    "ml_metrics.cloud.goodput",
    "ml_metrics.cloud.memory_usage",
    "ml_metrics.collect.collector",
    "ml_metrics.efficiency.nodes",
    "ml_metrics.goodput.report_builder",
    "ml_metrics.judge.changepoint",
    "ml_metrics.judge.comparable",
    "ml_metrics.judge.level_start",
    "ml_metrics.judge.outliers",
    "ml_metrics.notify.channel_factories",
    "ml_metrics.notify.decide",
    "ml_metrics.notify.mail_settings",
    "ml_metrics.notify.runs",
    "ml_metrics.notify.sender",
    "ml_metrics.warehouse.sql",
    "ml_metrics.weekly_costs",
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
    if type(component).__name__ != "Job":
        return ()
    match sys.argv[1:2]:
        case ["scheduler"]:
            return OF_TASKS if _forks_workers() else ()
        case ["dag-processor"]:
            return OF_DAG_FILES
    return ()


def _forks_workers() -> bool:
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
