"""The outcome of a workload whose pod no longer exists, from its events and the last known state of the pod.

Events outlive a pod by an hour.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ml_metrics.clusters.outcome import disruption, started_at_by
from ml_metrics.model import JobStatus

if TYPE_CHECKING:
    from ml_metrics.model import Workload

CAUSES = {
    "Preempted": "Preempted",
    "Preempting": "Preempted",
    "Evicted": "Evicted",
    "TaintManagerEviction": "NodeLost",
    "NodeNotReady": "NodeLost",
    "NodeShutdown": "NodeShutdown",
}
"""The failure reason for each event that explains why a pod ended."""


def outcome_of_lost_pod(
    pending: Workload, events: list[dict[str, Any]], last: dict[str, Any] | None = None
) -> Workload:
    """Return the outcome of a workload whose pod was created and no longer exists. `last` is its last known state."""
    started_at = started_at_by(events)
    # without events it is unknown whether the workload ran
    status = JobStatus.FAILURE if started_at or not events else JobStatus.MISSED
    for event in reversed(events):
        if event.get("reason") in CAUSES:
            reason, detail = CAUSES[event["reason"]], event.get("message")
            break
    else:
        disrupted = disruption((last or {}).get("status") or {})
        reason, detail = disrupted or ("PodDeleted", "the pod was deleted before its workload had ended")
    return replace(pending, status=status, failure_reason=reason, detail=detail, started_at=started_at)
