"""Names and classes of the reasons for which a workload fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ml_metrics.model import Workload

JOB = "job_status:"
"""The prefix of the name of a problem of the job. In incidents of older versions it is the whole name."""
SAME = {
    "ErrImagePull": "ImagePullBackOff",
    "ErrImageNeverPull": "ImagePullBackOff",
    "ImageInspectError": "ImagePullBackOff",
    "InvalidImageName": "ImagePullBackOff",
    "RegistryUnavailable": "ImagePullBackOff",
    "FailedScheduling": "Unschedulable",
    "ClusterUnavailable": "ClusterUnreachable",
    "ExecutionTimeout": "DeadlineExceeded",
}
"""Reasons that alternate during one problem, and the one that represents them."""


def reason_class(reason: str | None) -> str:
    """Return the reason that represents a reason."""
    return SAME.get(reason or "", reason or "")


def job_problem(workload: Workload) -> str:
    """Return the name of the problem that a job failed: another status or reason is another problem."""
    reason = reason_class(workload.failure_reason)
    return f"{JOB}{workload.status}{f'/{reason}' if reason else ''}"
