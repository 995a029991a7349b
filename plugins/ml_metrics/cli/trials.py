"""Runs a test with another image as a trial, through `airflow dags test`, and reads what it recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from ml_metrics.cli.arguments import UsageError
from ml_metrics.cli.chosen_warehouse import NothingRecordedError, open_chosen
from ml_metrics.cli.measuring import Measured
from ml_metrics.config.trial import TRIAL, YES
from ml_metrics.model import JobStatus
from ml_metrics.values import finite, printable

if TYPE_CHECKING:
    import argparse

    from ml_metrics.warehouse import JobRow, Warehouse

RECENT = 50
"""The newest runs among which a new one is searched: others may start meanwhile."""
LAST_LINES = 5
"""Lines of Airflow's output that are shown if a run recorded nothing."""


def measured_trial(arguments: argparse.Namespace, image: str) -> Measured:
    """Run the test once with an image, and return its metrics. A run whose workload failed has none."""
    before = _recorded(arguments)
    conf = json.dumps({"image": image, TRIAL: YES})
    output = _airflow(["airflow", "dags", "test", arguments.test, "--conf", conf], arguments.timeout)
    with open_chosen(arguments) as warehouse:
        rows = [row for row in _newest(warehouse, arguments.test) if row.uuid not in before and row.image == image]
        if not rows:
            print("\n".join(map(printable, output.splitlines()[-LAST_LINES:])), file=sys.stderr)
            return Measured()
        if rows[0].trial is None:
            raise UsageError(f"run {rows[0].uuid} is no trial: the test has a parameter named {TRIAL!r}")
        if rows[0].job_status != JobStatus.SUCCESS:
            return Measured()
        found = {row.metric: finite(row.value) for row in warehouse.metrics.of_run(rows[0].place)}
    return Measured({metric: value for metric, value in found.items() if value is not None})


def _recorded(arguments: argparse.Namespace) -> frozenset[str]:
    try:
        with open_chosen(arguments) as warehouse:
            return frozenset(row.uuid for row in _newest(warehouse, arguments.test))
    except NothingRecordedError:
        return frozenset()


def _newest(warehouse: Warehouse, test: str) -> list[JobRow]:
    return warehouse.runs.newest(test, RECENT, trials=True)


def _airflow(command: list[str], timeout: float | None) -> str:
    """Run Airflow's command, and return its output, whatever its exit code: a run that fails is recorded, too."""
    try:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError:
        raise UsageError("the command `airflow` is not there: use the environment of Airflow") from None
    with process:
        try:
            return process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            return ""
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
