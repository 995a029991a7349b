"""How a workload went where the cluster's word alone does not say it: when the task or the cluster failed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout
from kubernetes.client.exceptions import ApiException

from ml_metrics.clusters.hosts import rejection_reason
from ml_metrics.errors import ConfigError, MlMetricsError
from ml_metrics.model import JobStatus, Workload
from ml_metrics.operators.outage import is_outage

REJECTIONS = frozenset({400, 403, 404, 409, 413, 422})
"""The answers of an API server that will not have this pod, whenever it is asked."""
LONGEST_DETAIL = 500


class EndedByHandError(AirflowException):
    """Somebody ended the Airflow task: marked it, cleared it, or stopped its worker."""


class OverranError(AirflowException):
    """The triggerer found that the time of the task was up."""


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


def end_of(seen: Workload | None, error: BaseException | None, begun: Workload, *, created: bool = False) -> Workload:
    """How the workload went, from what was seen of it and from how the task ended.

    `created` says that the cluster had accepted it: from then on nobody can say that it never ran.
    """
    now = datetime.now(UTC)
    if seen is None or isinstance(error, ConfigError):
        ours = not created or isinstance(error, ConfigError)  # we gave up before the workload could begin
        reason, status = _reason_of_refusal(error) if ours else _reason_of_acceptance(error)
        return replace(begun, status=status, failure_reason=reason, detail=_detail(error), ended_at=now)
    queued_at = seen.queued_at or begun.queued_at
    ended = replace(seen, queued_at=queued_at, ended_at=seen.ended_at or now, attempts=begun.attempts)
    if seen.status is JobStatus.SUCCESS:
        return ended
    if isinstance(error, AirflowTaskTimeout | OverranError) and seen.started_at:
        return replace(ended, status=JobStatus.TIMEOUT, failure_reason="ExecutionTimeout")
    if isinstance(error, EndedByHandError):
        return replace(ended, failure_reason="Killed", detail=_detail(error))
    return ended


def is_known(end: Workload) -> bool:
    """Whether the end is the workload's; if not, it may still run, and another try takes it up."""
    unknown = {"WorkerLost", "ClusterUnreachable"}
    return end.status is not JobStatus.FAILURE or end.failure_reason not in unknown


def _reason_of_refusal(error: BaseException | None) -> tuple[str | None, JobStatus]:
    """Why the cluster has nothing to look at: it was never asked, or would not have it."""
    match error:
        case ApiException() if error.status in REJECTIONS:
            return rejection_reason(str(error.body)) or "PodRejected", JobStatus.MISSED
        case MlMetricsError():
            return type(error).__name__.removesuffix("Error"), JobStatus.MISSED
        case EndedByHandError():
            return "Killed", JobStatus.MISSED
        case _ if is_outage(error) or isinstance(error, OSError):
            return "ClusterUnreachable", JobStatus.MISSED
        case _:
            return type(error).__name__, JobStatus.MISSED


def _reason_of_acceptance(error: BaseException | None) -> tuple[str | None, JobStatus]:
    """Why nothing was seen of what the cluster had accepted."""
    match error:
        case None:
            return None, JobStatus.SUCCESS  # it ended well, and somebody removed it before we looked
        case AirflowTaskTimeout() | OverranError():
            return "ExecutionTimeout", JobStatus.TIMEOUT
        case EndedByHandError():
            return "Killed", JobStatus.FAILURE
        case _ if is_outage(error):
            return "ClusterUnreachable", JobStatus.FAILURE
        case _:
            return type(error).__name__, JobStatus.FAILURE


def _detail(error: BaseException | None) -> str | None:
    if isinstance(error, ApiException):
        return _message(error)[:LONGEST_DETAIL]
    return str(error)[:LONGEST_DETAIL] if error else None


def _message(error: ApiException) -> str:
    """What the API server said, without the headers of its answer."""
    try:
        told = json.loads(error.body or "")
    except ValueError:
        told = None
    return str((told if isinstance(told, dict) else {}).get("message") or error)
