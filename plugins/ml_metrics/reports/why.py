"""Why a run is as it is, in one line: the failure with the error of its log, or its main metric with the change."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from ml_metrics import storage
from ml_metrics.judge.main_metric import main_metric
from ml_metrics.logs.documents import failing_log, lines_of, read_logs
from ml_metrics.logs.text import cut
from ml_metrics.model import BROKEN, JobStatus, Outcome
from ml_metrics.reports.log import MAX_ERROR_LENGTH, error_in
from ml_metrics.run_folder import RunFolder
from ml_metrics.settings import Settings
from ml_metrics.units import interval, readable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.judge.reference import Reference
    from ml_metrics.model import StoredMetric
    from ml_metrics.warehouse import JobRow, RunSummary

FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Names in rows are untrusted: a name like `..` would lead out of the storage root."""
DIGITS = 6
"""How many digits a number without a unit has."""
MOST_COUNTED = 25
"""From so many on, broken metrics are not counted exactly."""


def why(
    run: JobRow | RunSummary,
    rows: Sequence[StoredMetric],
    *,
    error: str = "",
    references: Mapping[str, Reference] = MappingProxyType({}),
    attributes: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> str:
    """Return the reason for the state of a run; empty if nothing is wrong.

    Args:
        run: the run.
        rows: its metrics, or those that broke.
        error: the last error of its log.
        references: what its metrics are compared with, as far as that is known.
        attributes: what is recorded about the runs around the changes of levels.
    """
    if run.job_status != JobStatus.SUCCESS:
        return ": ".join(filter(None, (run.job_status, run.failure_reason, error)))
    main = main_metric(rows, references)
    if main is None:
        return ""
    reference = references.get(main.metric)
    change = reference.words(main.value, attributes) if reference else ""
    count = sum(row.outcome in BROKEN for row in rows)
    more = f" (+{count - 1}{' or' if count >= MOST_COUNTED else ''} more)" if count > 1 else ""
    return f"{state_of(main)}{', ' if change else ''}{change}{more}"


def state_of(metric: StoredMetric) -> str:
    """Return a metric with its value and, if it broke, with what it had to be: `loss = 2.08, must be below 0.05`."""
    if metric.outcome is Outcome.MISSING:
        return f"{metric.metric} is missing"
    if metric.outcome is Outcome.NON_FINITE:
        return f"{metric.metric} is not a finite number"
    text = f"{metric.metric} = {readable([metric.value], metric.unit, DIGITS)[0]}"
    if metric.outcome not in BROKEN:
        return text
    if metric.lower is None and metric.upper is None:
        return f"{text} is out of bounds"
    required = interval(metric.lower, metric.upper, metric.unit, lambda values, unit: readable(values, unit, DIGITS))
    return f"{text}, must be {required}"


def last_error(run: JobRow) -> str:
    """Return the error with which the log of a failed run ends, or else its last line; empty if there is none."""
    folder = folder_of(run) if run.job_status != JobStatus.SUCCESS else None
    if folder is None:
        return ""
    logs = read_logs(folder)
    failing = failing_log(logs, max((log.attempt for log in logs), default=0))
    if failing is None:
        return ""
    lines = [line for line in lines_of(folder, failing) if line.strip()]
    return cut(failing.error or error_in(lines) or (lines[-1].strip() if lines else ""), MAX_ERROR_LENGTH)


def folder_of(run: JobRow) -> RunFolder | None:
    """Return the run folder of a run, or None if the name of the test or the run cannot be that of a folder."""
    if not FOLDER_NAME.fullmatch(run.test_name) or not FOLDER_NAME.fullmatch(run.uuid):
        return None
    root = Settings.load().storage_root
    return RunFolder(storage.join(root, run.test_name, run.uuid), root)
