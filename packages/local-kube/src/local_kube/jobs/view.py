"""A Job and its pods at one moment, the decisions that follow from them, and the Job's status. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from local_kube.json_files import Document

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
FIRST_BACK_OFF_SECONDS, MAX_BACK_OFF_SECONDS = 10.0, 360.0
FINAL_CONDITIONS = ("Complete", "Failed")
EARLY_CONDITIONS = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
"""The condition that announces each final one, while the last pods are still ending."""
DECIDED = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}
"""The conditions that decide how a Job will end, while its last pods are still ending."""


@dataclass(frozen=True, slots=True)
class EndedPod:
    """How a pod of a Job ended, kept after the pod is removed."""

    phase: str
    """`Succeeded`, `Failed`, or `Dropped` if the Job itself ended the pod, which is not counted."""
    index: int | None
    at: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a Job ends, and why."""

    kind: str
    """`Complete` or `Failed`."""
    reason: str
    message: str


@dataclass(frozen=True)
class JobView:
    """A Job and its pods, as the controller sees them when it decides."""

    job: Document
    ended: Mapping[str, EndedPod]
    """Every pod that has ended, by uid."""
    pods: Sequence[Document]
    """The pods that have not ended, in the order of their creation."""
    now: float

    @property
    def spec(self) -> Document:
        """The Job's spec."""
        return self.job["spec"]  # type: ignore[no-any-return]

    @property
    def indexed(self) -> bool:
        """Whether each pod has an index of its own."""
        return bool(self.spec["completionMode"] == "Indexed")

    @cached_property
    def done_indexes(self) -> list[int]:
        """The indexes whose pods have succeeded."""
        limit = self.spec.get("completions") or 0
        done = {pod.index for pod in self._ended_as("Succeeded") if pod.index is not None}
        return sorted(index for index in done if index < limit)

    @property
    def succeeded(self) -> int:
        """How many pods have succeeded; for an indexed Job, how many indexes."""
        return len(self.done_indexes) if self.indexed else len(self._ended_as("Succeeded"))

    @property
    def failed(self) -> int:
        """How many pods have failed."""
        return len(self._ended_as("Failed"))

    @cached_property
    def terminating(self) -> list[Document]:
        """The pods that are being deleted."""
        return [pod for pod in self.pods if "deletionTimestamp" in pod["metadata"]]

    @cached_property
    def active(self) -> list[Document]:
        """The pods that count as active; those being deleted do only under the replacement policy `Failed`."""
        if self.spec["podReplacementPolicy"] == "Failed":
            return list(self.pods)
        return [pod for pod in self.pods if "deletionTimestamp" not in pod["metadata"]]

    def verdict(self) -> Verdict | None:
        """Return how the Job ends, as soon as that is decided."""
        for condition in self.job["status"].get("conditions") or []:
            if condition["type"] in DECIDED:
                return Verdict(DECIDED[condition["type"]], condition["reason"], condition.get("message", ""))
        if self._exceeded_backoff_limit():
            return Verdict("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        seconds, start = self.spec.get("activeDeadlineSeconds"), self.job["status"].get("startTime")
        if seconds is not None and start and self.now >= datetime.fromisoformat(start).timestamp() + seconds:
            return Verdict("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
        if self._complete():
            return Verdict("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        return None

    def next_start(self) -> float:
        """Return when the next pod may start; the wait doubles with each failure in a row."""
        last_success = max((pod.at for pod in self._ended_as("Succeeded")), default=0.0)
        failures = [pod.at for pod in self._ended_as("Failed") if pod.at > last_success]
        if not failures:
            return 0.0
        return max(failures) + float(min(FIRST_BACK_OFF_SECONDS * 2.0 ** (len(failures) - 1), MAX_BACK_OFF_SECONDS))

    def missing_pods(self) -> list[int | None]:
        """Return an entry for each pod to start now: its index, or None for a Job without indexes."""
        missing = self._wanted_active() - len(self.active)
        if missing <= 0 or self.now < self.next_start():
            return []
        if not self.indexed:
            return [None] * missing
        taken = {*map(index_of, self.active), *self.done_indexes}
        free: list[int | None] = [index for index in range(int(self.spec["completions"])) if index not in taken]
        return free[:missing]

    def surplus_pods(self) -> list[Document]:
        """Return the pods in excess of `parallelism`."""
        running = [pod for pod in self.active if "deletionTimestamp" not in pod["metadata"]]
        return running[int(self.spec["parallelism"]) :]

    def _wanted_active(self) -> int:
        """Return how many pods should be active."""
        completions, parallel = self.spec.get("completions"), int(self.spec["parallelism"])
        if completions is not None:
            return int(min(parallel, completions - self.succeeded))
        return 0 if self.succeeded else parallel  # a work queue: a pod that succeeds has found it empty

    def _complete(self) -> bool:
        completions = self.spec.get("completions")
        return bool(self.succeeded and not self.pods) if completions is None else self.succeeded >= completions

    def _exceeded_backoff_limit(self) -> bool:
        limit = self.spec["backoffLimit"]
        restarts = sum(
            entry["restartCount"] for pod in self.pods for entry in pod["status"].get("containerStatuses") or []
        )
        return bool(self.failed > limit or restarts >= max(limit, 1))

    def _ended_as(self, phase: str) -> list[EndedPod]:
        return [pod for pod in self.ended.values() if pod.phase == phase]


def index_of(pod: Document) -> int | None:
    """Return a pod's completion index."""
    index = (pod["metadata"].get("annotations") or {}).get(COMPLETION_INDEX)
    return None if index is None else int(index)


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
