"""How a workload went where the cluster's word alone does not say it: when the task or the cluster failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from airflow.sdk.exceptions import AirflowTaskTimeout
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from ml_metrics.errors import MlMetricsError
from ml_metrics.model import JobStatus, Workload

REJECTIONS = frozenset({400, 403, 409, 422})
"""The answers of an API server that will not have this pod, whenever it is asked."""
LONGEST_DETAIL = 500


def unknown_end(attempt: int, image: str | None) -> Workload:
    """What is true from the moment the pod is asked for until its end is known: if this stays, the worker was lost."""
    return Workload(
        status=JobStatus.FAILURE,
        failure_reason="WorkerLost",
        detail="the Airflow task ended before the end of the workload was known; clear `run_workload` to take it up",
        queued_at=datetime.now(UTC),
        attempts=attempt,
        image=image,
    )


def end_of(seen: Workload | None, error: BaseException | None, begun: Workload) -> Workload:
    """How the workload went, from what was seen of its pod and from how the task ended."""
    now = datetime.now(UTC)
    if seen is None:
        reason, status = _reason_without_pod(error)
        return replace(begun, status=status, failure_reason=reason, detail=_detail(error), ended_at=now)
    ended = replace(seen, ended_at=seen.ended_at or now, attempts=begun.attempts)
    if isinstance(error, AirflowTaskTimeout) and seen.status is not JobStatus.SUCCESS:
        status = JobStatus.TIMEOUT if seen.started_at else JobStatus.MISSED
        return replace(ended, status=status, failure_reason="ExecutionTimeout")
    return ended


def _reason_without_pod(error: BaseException | None) -> tuple[str | None, JobStatus]:
    """Why there is no pod to look at."""
    match error:
        case None:
            return None, JobStatus.SUCCESS  # it ended well, and somebody removed it before we looked
        case ApiException() if error.status in REJECTIONS:
            return "PodRejected", JobStatus.MISSED
        case ApiException() | HTTPError() | OSError():
            return "ClusterUnreachable", JobStatus.MISSED
        case MlMetricsError():
            return type(error).__name__.removesuffix("Error"), JobStatus.MISSED
        case _:
            return "PodDeleted", JobStatus.FAILURE


def _detail(error: BaseException | None) -> str | None:
    return str(error)[:LONGEST_DETAIL] if error else None
