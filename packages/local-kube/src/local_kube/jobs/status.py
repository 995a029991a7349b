"""The status of a Job, computed from a view of it. Pure; conditions keep the time of their last change."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from local_kube.jobs.view import JobView, Verdict
    from local_kube.json_files import Document

FINAL_CONDITIONS = ("Complete", "Failed")
EARLY_CONDITIONS = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
"""The condition that announces each final one, while the last pods are still ending."""


def has_ended(job: Document) -> bool:
    """Return whether a Job has ended."""
    return any(entry["type"] in FINAL_CONDITIONS for entry in job["status"].get("conditions") or [])


def status_of(view: JobView, verdict: Verdict | None, now: str) -> Document:
    """Return the status of a Job."""
    before, suspended = view.job["status"], view.spec["suspend"] and verdict is None
    status = _counts(view)
    if not suspended:
        status["startTime"] = before.get("startTime") or now
    conditions = {entry["type"]: entry for entry in before.get("conditions") or []}

    def set_condition(kind: str, value: str, reason: str, message: str) -> None:
        if conditions.get(kind, {}).get("status") != value:
            condition = {"type": kind, "status": value, "reason": reason, "message": message}
            conditions[kind] = {**condition, "lastProbeTime": now, "lastTransitionTime": now}

    if suspended:
        set_condition("Suspended", "True", "JobSuspended", "Job suspended")
    elif "Suspended" in conditions:
        set_condition("Suspended", "False", "JobResumed", "Job resumed")
    if verdict is not None:
        set_condition(EARLY_CONDITIONS[verdict.kind], "True", verdict.reason, verdict.message)
        if not view.pods:
            set_condition(verdict.kind, "True", verdict.reason, verdict.message)
            if verdict.kind == "Complete":
                status["completionTime"] = now
    if conditions:
        status["conditions"] = list(conditions.values())
    return status


def _counts(view: JobView) -> Document:
    counts = {
        "active": len(view.active),
        "ready": sum(map(_ready, view.active)),
        "terminating": len(view.terminating),
        "succeeded": view.succeeded,
        "failed": view.failed,
        "completedIndexes": ranges(view.done_indexes),
    }
    return {name: count for name, count in counts.items() if count}


def ranges(numbers: Iterable[int]) -> str:
    """Return sorted numbers as `0,1,3-5`: three or more in a row are written as a range."""
    runs = (list(pairs) for _, pairs in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]))
    return ",".join(_run([number for _, number in run]) for run in runs)


def _run(numbers: list[int]) -> str:
    first, *_, last = [*numbers, numbers[-1]]
    return f"{first}-{last}" if last > first + 1 else ",".join(map(str, numbers))


def _ready(pod: Document) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
