"""A Job and its pods at one moment, and the decisions that follow from them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from local_kube.json_files import Document

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
FIRST_BACK_OFF_SECONDS, MAX_BACK_OFF_SECONDS = 10.0, 360.0
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
        if (
            seconds is not None
            and start is not None
            and self.now >= datetime.fromisoformat(start).timestamp() + seconds
        ):
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
