"""Why a suspended workload waits, from the Workload in which Kueue records its decisions. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.model import JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
GROUP, VERSION, PLURAL = "kueue.x-k8s.io", "v1beta1", "workloads"
OWNER_LABEL = "kueue.x-k8s.io/job-uid"
"""The label of a Workload that names the Job or JobSet it is for."""
PREEMPTED, EVICTED, QUEUED, SUSPENDED = "Preempted", "Evicted", "Queued", "Suspended"

End = tuple[JobStatus, str, str]


def reason_of_suspension(job: dict[str, Any], workload: dict[str, Any] | None, events: Iterable[dict[str, Any]]) -> End:
    """Return status, reason and detail of a suspended Job or JobSet: preempted, not admitted yet, or just suspended.

    `workload` is that of Kueue, if it can be read; `events` are those of the Job.
    """
    evicted = _condition(workload, "Evicted", "True")
    if evicted is not None:
        detail = evicted.get("message") or "the queue has evicted it"
        if evicted.get("reason") == PREEMPTED:
            return JobStatus.FAILURE, PREEMPTED, detail
        return JobStatus.FAILURE, EVICTED, f"{evicted.get('reason')}: {detail}"
    if QUEUE_LABEL not in (job["metadata"].get("labels") or {}):
        return JobStatus.MISSED, SUSPENDED, "it was suspended, and is in no queue that would start it"
    pending = _condition(workload, "QuotaReserved", "False") or _condition(workload, "Admitted", "False")
    told = (pending or {}).get("message") or next(
        (event.get("message") for event in reversed(list(events)) if event.get("message")), None
    )
    queue = job["metadata"]["labels"][QUEUE_LABEL]
    return JobStatus.MISSED, QUEUED, f"not admitted by the queue {queue} yet{f': {told}' if told else ''}"


def _condition(workload: dict[str, Any] | None, kind: str, status: str) -> dict[str, Any] | None:
    conditions = ((workload or {}).get("status") or {}).get("conditions") or []
    return next((one for one in conditions if (one.get("type"), one.get("status")) == (kind, status)), None)
