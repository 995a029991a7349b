"""The services of an Airflow that runs, killed and started again."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from airflow_home import Home
    from standalone_airflow import Standalone


def process_of(airflow: Standalone, service: str) -> psutil.Process:
    """Return the process of a service."""
    children = psutil.Process(airflow.process.pid).children()
    family = [one for one in children if one.status() != psutil.STATUS_ZOMBIE]  # of an earlier kill
    (process,) = (one for one in family if f"airflow {service}" in " ".join(one.cmdline()))
    return process


def kill(airflow: Standalone, service: str) -> dict[str, str]:
    """kill -9 a service of this Airflow with all that it has started, and return its environment."""
    process = process_of(airflow, service)
    environment = process.environ()
    for one in (*process.children(recursive=True), process):
        with suppress(psutil.NoSuchProcess):
            one.kill()
    return environment


def start(home: Home, service: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """What a supervisor of services does with one that died."""
    with Path(home.path, f"{service}.log").open("ab") as log:
        return subprocess.Popen(
            ["airflow", service, "--skip-serve-logs"], env=environment, stdout=log, stderr=log, start_new_session=True
        )
