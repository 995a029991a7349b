"""How often a workload is started, and how often Airflow tries to find out how it went. These are two things."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.model import JobStatus
from ml_metrics.operators.workload_end import is_known, unknown_end

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

    from ml_metrics.model import Workload
    from ml_metrics.run_folder import RunFolder

LOST_WORKERS = 3
"""How often a task is taken up again whose Airflow process died. The test's own `retries` come on top."""

DOCUMENT = "attempts"


def start_attempt(folder: RunFolder, ti: RuntimeTaskInstanceProtocol, image: str | None) -> Workload:
    """Begin the next attempt, and write down that its end is not known.

    A person who clears the task grants its retries anew; Airflow then raises the number of its last try, which
    names the round. An attempt whose worker died before the cluster had its pod is the same attempt again.
    """
    document = folder.read(DOCUMENT)
    before = folder.read_workload() if _is_of_round(document, ti) else None
    if document and before and not is_known(before) and document["created"] < before.attempts:
        attempt = before.attempts
    else:
        attempt = folder.start_attempt()
    if document is None or not _is_of_round(document, ti):
        folder.write(DOCUMENT, {"round": ti.max_tries, "first_attempt": attempt, "created": 0})
    begun = unknown_end(attempt, image)
    folder.write_workload(begun)
    return begun


def attempt_is_created(folder: RunFolder, begun: Workload) -> None:
    """Write down that the cluster has it: from now on another try takes it up, or finds that it is gone."""
    folder.write(DOCUMENT, {**(folder.read(DOCUMENT) or {}), "created": begun.attempts})


def retries_left(folder: RunFolder, begun: Workload, retries: int) -> bool:
    """Whether the workload may be started once more after this attempt."""
    document = folder.read(DOCUMENT) or {}
    return begun.attempts - int(document.get("first_attempt", begun.attempts)) < retries


def end_of_round(folder: RunFolder, ti: RuntimeTaskInstanceProtocol, retries: int) -> Workload | None:
    """The end that an earlier process wrote down and did not live to tell Airflow; None if there is more to do."""
    before = folder.read_workload() if _is_of_round(folder.read(DOCUMENT), ti) else None
    if before is None or not is_known(before):
        return None
    return before if before.status is JobStatus.SUCCESS or not retries_left(folder, before, retries) else None


def _is_of_round(document: dict[str, Any] | None, ti: RuntimeTaskInstanceProtocol) -> bool:
    return document is not None and document["round"] == ti.max_tries
