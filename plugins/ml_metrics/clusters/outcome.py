"""How a workload went, read from what the cluster says of its pod. Pure: a pod and its events in, a `Workload` out."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ml_metrics.model import JobStatus, Workload

CONTAINER = "base"
"""The container of the workload; all others serve it."""

PEAK_MEMORY = f"ml-metrics/peak-memory-bytes.{CONTAINER}"
"""The annotation in which the local cluster tells what a container used."""

DISRUPTIONS = {
    "PreemptionByScheduler": "Preempted",
    "DeletionByTaintManager": "NodeLost",
    "EvictionByEvictionAPI": "Evicted",
    "TerminationByKubelet": "Evicted",
    "DeletionByPodGC": "NodeLost",
}
"""The reasons of the condition DisruptionTarget, in the words of our tables."""

NEVER_STARTED = frozenset({"StartError", "ContainerCannotRun", "RunContainerError", "CreateContainerError"})
"""Reasons of a terminated container whose program never ran."""

KILLED = 137
"""The exit code of SIGKILL."""


def outcome_of(pod: dict[str, Any], events: list[dict[str, Any]]) -> Workload:
    """Tell how the workload of a pod went. A pod that has not ended is told by what it waits for."""
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    metadata = pod.get("metadata") or {}
    container = _container_status(status)
    ended = (container.get("state") or {}).get("terminated") or {}
    running = (container.get("state") or {}).get("running") or {}
    ran = bool(running) or bool(ended and ended.get("reason") not in NEVER_STARTED and ended.get("startedAt"))
    job_status, reason, detail = _verdict(status, container, events, ran=ran)
    return Workload(
        status=job_status,
        failure_reason=reason,
        detail=detail,
        queued_at=_time(metadata.get("creationTimestamp")),
        started_at=_time(ended.get("startedAt") or running.get("startedAt")) if ran else None,
        ended_at=_time(ended.get("finishedAt")),
        namespace=metadata.get("namespace"),
        pod=metadata.get("name"),
        node=spec.get("nodeName"),
        image=_image(spec),
        image_digest=container.get("imageID") or None,
        peak_memory_bytes=_number((metadata.get("annotations") or {}).get(PEAK_MEMORY)),
    )


def _verdict(  # noqa: PLR0911  (one for each way in which a pod ends, in the order in which they count)
    status: dict[str, Any], container: dict[str, Any], events: list[dict[str, Any]], *, ran: bool
) -> tuple[JobStatus, str | None, str | None]:
    state = container.get("state") or {}
    ended = state.get("terminated")
    if ended and ended.get("exitCode") == 0 and status.get("reason") != "DeadlineExceeded":
        return JobStatus.SUCCESS, None, None
    if status.get("reason") == "DeadlineExceeded":
        timeout = JobStatus.TIMEOUT if ran else JobStatus.MISSED
        return timeout, "DeadlineExceeded", status.get("message")
    if disruption := _disruption(status):
        return (JobStatus.FAILURE if ran else JobStatus.MISSED), *disruption
    if ended and ended.get("reason") in NEVER_STARTED:
        return JobStatus.MISSED, ended["reason"], ended.get("message")
    if ended:
        return JobStatus.FAILURE, _exit_reason(ended), ended.get("message")
    if ran:
        return JobStatus.FAILURE, "Interrupted", "the pod was still running when the task ended"
    return JobStatus.MISSED, *_what_it_waits_for(status, container, events)


def _exit_reason(ended: dict[str, Any]) -> str:
    """The kubelet's reason where it says more than that the program failed, else the exit code."""
    reason = ended.get("reason")
    if reason and reason not in {"Error", "Completed"}:
        return str(reason)
    return f"ExitCode:{ended.get('exitCode')}"


def _disruption(status: dict[str, Any]) -> tuple[str, str | None] | None:
    """Eviction and preemption, which the cluster did and the workload did not."""
    if status.get("reason") in {"Evicted", "Preempting", "NodeLost", "Shutdown", "NodeShutdown", "Terminated"}:
        return {"Preempting": "Preempted"}.get(status["reason"], status["reason"]), status.get("message")
    for condition in status.get("conditions") or []:
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return DISRUPTIONS.get(condition.get("reason", ""), "Evicted"), condition.get("message")
    return None


def _what_it_waits_for(
    status: dict[str, Any], container: dict[str, Any], events: list[dict[str, Any]]
) -> tuple[str, str | None]:
    waiting = (container.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") not in {None, "ContainerCreating", "PodInitializing"}:
        return waiting["reason"], waiting.get("message")
    for init in status.get("initContainerStatuses") or []:
        failed = (init.get("state") or {}).get("terminated") or {}
        if failed.get("exitCode"):
            return f"InitContainer:{init.get('name')}", failed.get("message") or _exit_reason(failed)
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return condition.get("reason") or "Unschedulable", condition.get("message")
    warnings = [event for event in events if event.get("type") == "Warning"]
    if warnings:
        return warnings[-1].get("reason") or "StartupTimeout", warnings[-1].get("message")
    return "StartupTimeout", "the pod did not start in time"


def _container_status(status: dict[str, Any]) -> dict[str, Any]:
    found = (one for one in status.get("containerStatuses") or [] if one.get("name") == CONTAINER)
    return next(found, {})


def _image(spec: dict[str, Any]) -> str | None:
    return next((one.get("image") for one in spec.get("containers") or [] if one.get("name") == CONTAINER), None)


def _time(text: str | datetime | None) -> datetime | None:
    if text is None or isinstance(text, datetime):
        return text
    return datetime.fromisoformat(text)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
