"""The installed packages, and the running processes of Airflow."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from ml_metrics.airflow_options import airflow_home, airflow_option
from ml_metrics.alerts.channels.channel import UndeliveredError
from ml_metrics.alerts.channels.deadline import within
from ml_metrics.alerts.channels.http import Client
from ml_metrics.doctor.lost_workers import lost_worker
from ml_metrics.doctor.machine import tasks_on_this_machine
from ml_metrics.doctor.own_airflow import asked
from ml_metrics.errors import ConfigError
from ml_metrics.separate_disks import separate_disks

if TYPE_CHECKING:
    from ml_metrics.settings import Settings

NEEDED = {
    "apache-airflow-core": "Airflow",
    "apache-airflow-providers-cncf-kubernetes": "cncf-kubernetes",
    "apache-airflow-providers-standard": "standard",
}
LEAST_AIRFLOW = (3, 1)
HEALTH = "/api/v2/monitor/health"
EXECUTION = "/execution"
"""The path of Airflow's API for tasks."""
HEALTH_SECONDS = 10
PROCESSES = {
    "scheduler": "no run starts: start `airflow scheduler`",
    "dag_processor": "new test files are not read: start `airflow dag-processor`",
    "triggerer": "deferrable tests wait forever and no overdue run is reported: start `airflow triggerer`",
}
"""What Airflow's health lists, and what is missing without it."""


def versions() -> str:
    """Return the versions of what a run needs."""
    found = {name: _version(distribution) for distribution, name in NEEDED.items()}
    if missing := [f"`{distribution}`" for distribution, name in NEEDED.items() if not found[name]]:
        raise ConfigError(f"not installed in this environment: {', '.join(missing)}")
    if _numbers(found["Airflow"]) < LEAST_AIRFLOW:
        raise ConfigError(
            f"Airflow {found['Airflow']} is too old: {'.'.join(map(str, LEAST_AIRFLOW))} or later is needed"
        )
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {one}" for name, one in found.items())])


def executor(settings: Settings) -> str:
    """Return where tasks run, how many at once, and with Celery also how long those of a lost worker wait."""
    name = airflow_option("core", "executor") or "LocalExecutor"
    if separate_disks(settings):
        found = ["tasks run on several machines"]
    else:
        found = [f"tasks share the disks of one machine, {tasks_on_this_machine()}"]
    if "Celery" in name:
        concurrency = airflow_option("celery", "worker_concurrency") or "16"
        found += [f"each worker runs at most {concurrency} at once: two for each of its cores are right"]
        found.append(str(lost_worker()))
    return f"{name}: {'; '.join(found)}"


def processes() -> str:
    """Return which processes of Airflow are healthy. Raises ConfigError if one is not."""
    if "COMPOSER_ENVIRONMENT" in os.environ:
        return "Cloud Composer watches them, and its pages show whether they are healthy"
    option, address = _api_server()
    try:
        health, is_own = asked(
            lambda: within(
                HEALTH_SECONDS,
                "Airflow",
                lambda deadline: Client("Airflow", deadline).send("GET", address + HEALTH, read=True).content,
            )
        )
    except UndeliveredError as error:
        raise ConfigError(
            f"{address} does not answer as Airflow's API server ({error}): is it running, and is {option} right?"
        ) from error
    if not isinstance(health, dict):
        raise ConfigError(f"{address} does not answer as Airflow's API server: is {option} right?")
    if is_own is False:
        raise ConfigError(
            f"{address} is another Airflow than that of {airflow_home()}, whose database knows other processes: is "
            f"{option} right, and are this home's processes running?"
        )
    if broken := [f"{name}: {PROCESSES[name]}" for name in PROCESSES if not _is_healthy(health.get(name))]:
        raise ConfigError(f"not healthy: {'; '.join(broken)}")
    whose = "" if is_own else "; whether this is the Airflow of this home cannot be told from here"
    return f"{address}: {', '.join(PROCESSES)} are healthy{whose}"


def _api_server() -> tuple[str, str]:
    """Return the address of the API server, and the option that has it.

    Tasks may have another address than people, who come through an ingress or a proxy with a login.
    """
    of_tasks = (airflow_option("core", "execution_api_server_url") or "").rstrip("/")
    if of_tasks.endswith(EXECUTION):
        return "[core] execution_api_server_url", of_tasks.removesuffix(EXECUTION)
    return "[api] base_url", (airflow_option("api", "base_url") or "http://localhost:8080").rstrip("/")


def _is_healthy(process: Any) -> bool:
    return isinstance(process, dict) and process.get("status") == "healthy"


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())
