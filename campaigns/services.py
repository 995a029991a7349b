"""The services of an Airflow that runs, killed. `make up` starts them again."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from standalone_airflow import wait_until

if TYPE_CHECKING:
    from standalone_airflow import Standalone


def process_of(airflow: Standalone, service: str) -> psutil.Process:
    """Return the process of a service."""
    (process,) = processes_of(airflow, service)
    return process


def processes_of(airflow: Standalone, service: str) -> list[psutil.Process]:
    """Return the process of a service; none while it is being started again."""
    found = []
    for one in psutil.Process(airflow.process.pid).children():
        with suppress(psutil.Error):
            if f"airflow {service}" in " ".join(one.cmdline()):  # empty of one that was killed
                found.append(one)
    return found


def kill(airflow: Standalone, service: str) -> None:
    """kill -9 a service of this Airflow with all that it has started, and wait until there is another."""
    process = process_of(airflow, service)
    for one in (*process.children(recursive=True), process):
        with suppress(psutil.NoSuchProcess):
            one.kill()
    wait_until(lambda: any(one.pid != process.pid for one in processes_of(airflow, service)), f"another {service} runs")
