"""What a Job's status says. Pure: the same view, the same status; conditions keep the time of their last change."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from local_kube.job_view import JobView, Verdict
    from local_kube.records import Document

FINAL = ("Complete", "Failed")
TARGET_OF = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}


def final(job: Document) -> bool:
    """Whether a Job has ended."""
    return any(entry["type"] in FINAL for entry in job["status"].get("conditions") or [])


def status_of(view: JobView, verdict: Verdict | None, now: str) -> Document:
    """The status of a Job that has been looked after up to now."""
    before, suspended = view.job["status"], view.spec["suspend"] and verdict is None
    status = _numbers(view)
    if not suspended:
        status["startTime"] = before.get("startTime") or now
    conditions = {entry["type"]: entry for entry in before.get("conditions") or []}

    def hold(kind: str, value: str, reason: str, message: str) -> None:
        if conditions.get(kind, {}).get("status") != value:
            said = {"type": kind, "status": value, "reason": reason, "message": message}
            conditions[kind] = {**said, "lastProbeTime": now, "lastTransitionTime": now}

    if suspended:
        hold("Suspended", "True", "JobSuspended", "Job suspended")
    elif "Suspended" in conditions:
        hold("Suspended", "False", "JobResumed", "Job resumed")
    if verdict is not None:
        hold(TARGET_OF[verdict.kind], "True", verdict.reason, verdict.message)
        if not view.pods:
            hold(verdict.kind, "True", verdict.reason, verdict.message)
            if verdict.kind == "Complete":
                status["completionTime"] = now
    if conditions:
        status["conditions"] = list(conditions.values())
    return status


def _numbers(view: JobView) -> Document:
    numbers = {
        "active": len(view.active),
        "ready": sum(map(_ready, view.active)),
        "terminating": len(view.terminating),
        "succeeded": view.succeeded,
        "failed": view.failed,
        "completedIndexes": ranges(view.done_indexes),
    }
    return {name: number for name, number in numbers.items() if number}


def ranges(numbers: Iterable[int]) -> str:
    """Sorted numbers as `0,1,3-5`: three in a row or more are told by the first and the last."""
    runs = (list(pairs) for _, pairs in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]))
    return ",".join(_run([number for _, number in run]) for run in runs)


def _run(numbers: list[int]) -> str:
    first, *_, last = [*numbers, numbers[-1]]
    return f"{first}-{last}" if last > first + 1 else ",".join(map(str, numbers))


def _ready(pod: Document) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
