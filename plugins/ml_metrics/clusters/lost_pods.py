"""How a workload went whose pod is gone: read from the events, which outlive it by an hour, and from how it left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ml_metrics.clusters.outcome import cut_off, started_at_by
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
"""Events that say why a pod went, in the words of our tables."""


def outcome_of_vanished(begun: Workload, events: list[dict[str, Any]], last: dict[str, Any] | None = None) -> Workload:
    """Tell how the workload went whose pod was asked for and cannot be found any more. `last`: as it was seen last."""
    started_at = started_at_by(events)
    # without any event nothing says that it never ran
    status = JobStatus.FAILURE if started_at or not events else JobStatus.MISSED
    for event in reversed(events):
        if event.get("reason") in CAUSES:
            reason, detail = CAUSES[event["reason"]], event.get("message")
            break
    else:
        seen = cut_off((last or {}).get("status") or {})
        reason, detail = seen or ("PodDeleted", "the pod was deleted before its workload had ended")
    return replace(begun, status=status, failure_reason=reason, detail=detail, started_at=started_at)
