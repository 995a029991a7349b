"""Runs a test with another version as a trial, through `airflow dags test`, and reads what it recorded."""

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
from ml_metrics.experiments.past_versions import IMAGE
from ml_metrics.experiments.trial_run import conf_of, is_final
from ml_metrics.model import JobStatus
from ml_metrics.values import finite, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from ml_metrics.warehouse import JobRow, Warehouse

RECENT = 50
"""The newest runs among which a new one is searched: others may start meanwhile."""
LAST_LINES = 5
"""Lines of Airflow's output that are shown if a run recorded nothing."""
NOTHING = "the run recorded nothing"


def measured_trial(arguments: argparse.Namespace, parameter: str, version: str, node: str = "") -> Measured:
    """Run the test once with a version of the parameter, on a node if one is named, and return its metrics.

    A run whose workload failed has none, and states the reason.
    """
    before = _recorded(arguments)
    conf = json.dumps(conf_of(parameter, version, node))
    output = _airflow(["airflow", "dags", "test", arguments.test, "--conf", conf], arguments.timeout)
    with open_chosen(arguments) as warehouse:
        for row in _newest(warehouse, arguments.test):
            if row.uuid in before:
                continue
            metadata = warehouse.runs.metadata(row.uuid, row.place)
            if _version(row, metadata, parameter) == version:
                return _measured(warehouse, row, metadata)
    print("\n".join(map(printable, output.splitlines()[-LAST_LINES:])), file=sys.stderr)
    return Measured(reason=NOTHING)


def _version(row: JobRow, metadata: Mapping[str, str], parameter: str) -> str | None:
    own = metadata.get(f"param.{parameter}")
    return row.image if parameter == IMAGE and own is None else own


def _measured(warehouse: Warehouse, row: JobRow, metadata: Mapping[str, str]) -> Measured:
    if row.trial is None:
        raise UsageError(f"run {row.uuid} is no trial: the test has a parameter named {TRIAL!r} that is not {YES!r}")
    host = metadata.get("nodes") or metadata.get("node") or ""
    if row.job_status != JobStatus.SUCCESS:
        reason = row.failure_reason or row.job_status
        return Measured(testable=not is_final(reason), host=host, reason=reason)
    found = {metric.metric: finite(metric.value) for metric in warehouse.metrics.of_run(row.place)}
    values = {metric: value for metric, value in found.items() if value is not None}
    return Measured(values, host=host, reason="" if values else "no metric")


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
        raise UsageError("the command `airflow` was not found: use the environment of Airflow") from None
    with process:
        try:
            return process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            return ""
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
