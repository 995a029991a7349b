"""Names and classes of the reasons for which a workload fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ml_metrics.model import Workload

JOB = "job_status:"
"""What the name of a problem of the job begins with. Incidents of older versions have nothing more."""
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
"""Reasons that take turns while one thing is wrong, and the one that stands for them."""


def reason_class(reason: str | None) -> str:
    """Return the reason that stands for a reason."""
    return SAME.get(reason or "", reason or "")


def job_problem(workload: Workload) -> str:
    """Return the name of the problem that a job failed: another status or reason is another problem."""
    reason = reason_class(workload.failure_reason)
    return f"{JOB}{workload.status}{f'/{reason}' if reason else ''}"
