"""Attempts of a workload, which are counted apart from the tries of the Airflow task that waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.model import JobStatus
from ml_metrics.operators.workload_end import end_is_known, unknown_end

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

    from ml_metrics.model import Workload
    from ml_metrics.run_folder import RunFolder

MAX_LOST_WORKERS = 3
"""How often a task continues after its process died. The `retries` of the test are added."""

DOCUMENT = "attempts"


def start_attempt(folder: RunFolder, ti: RuntimeTaskInstanceProtocol, image: str | None) -> Workload:
    """Count the next attempt, and record that its end is unknown.

    Clearing the task begins a new round with all retries. Airflow then increases `max_tries`, which identifies the
    round. If a worker died before the pod of an attempt was created, the attempt is not counted again.
    """
    document = folder.read(DOCUMENT)
    before = folder.read_workload() if _is_of_round(document, ti) else None
    if document and before and not end_is_known(before) and document["created"] < before.attempts:
        attempt = before.attempts
    else:
        attempt = folder.start_attempt()
    if document is None or not _is_of_round(document, ti):
        folder.write(DOCUMENT, {"round": ti.max_tries, "first_attempt": attempt, "created": 0})
    pending = unknown_end(attempt, image)
    folder.write_workload(pending)
    return pending


def mark_attempt_created(folder: RunFolder, pending: Workload) -> None:
    """Record that the cluster has accepted the attempt, so that another try takes it over or finds it missing."""
    folder.write(DOCUMENT, {**(folder.read(DOCUMENT) or {}), "created": pending.attempts})


def retries_left(folder: RunFolder, pending: Workload, retries: int) -> bool:
    """Return whether the workload may be started again after this attempt."""
    document = folder.read(DOCUMENT) or {}
    return pending.attempts - int(document.get("first_attempt", pending.attempts)) < retries


def end_of_round(folder: RunFolder, ti: RuntimeTaskInstanceProtocol, retries: int) -> Workload | None:
    """Return the final end that an earlier process recorded before it died; None if there is more to do."""
    before = folder.read_workload() if _is_of_round(folder.read(DOCUMENT), ti) else None
    if before is None or not end_is_known(before):
        return None
    return before if before.status is JobStatus.SUCCESS or not retries_left(folder, before, retries) else None


def _is_of_round(document: dict[str, Any] | None, ti: RuntimeTaskInstanceProtocol) -> bool:
    return document is not None and document["round"] == ti.max_tries
