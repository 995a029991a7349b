"""How often a workload is started, and how often Airflow tries to find out how it went. These are two things."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.operators.workload_end import unknown_end

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
    names the round.
    """
    attempt = folder.start_attempt()
    document = folder.read(DOCUMENT)
    if document is None or document["round"] != ti.max_tries:
        folder.write(DOCUMENT, {"round": ti.max_tries, "first_attempt": attempt})
    begun = unknown_end(attempt, image)
    folder.write_workload(begun)
    return begun


def retries_left(folder: RunFolder, begun: Workload, retries: int) -> bool:
    """Whether the workload may be started once more after this attempt."""
    document = folder.read(DOCUMENT) or {}
    return begun.attempts - int(document.get("first_attempt", begun.attempts)) < retries
