"""How a workload of several hosts stands, read from what the cluster says of its Job. Pure: objects in, words out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ml_metrics.clusters.outcome import as_time, outcome_of
from ml_metrics.model import JobStatus, Workload

if TYPE_CHECKING:
    from datetime import datetime

INDEX = "batch.kubernetes.io/job-completion-index"
"""Where a Job writes which of its hosts a pod is."""

UNTOLD = frozenset({"PodDeleted", "Interrupted"})
"""What is said of a host that went because another one failed."""

NO_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
TIME_IS_UP = "DeadlineExceeded"
NO_MORE_TRIES = "BackoffLimitExceeded"
LAST = "9999-12-31T00:00:00Z"
"""Later than any end."""


class Stage(StrEnum):
    """How far a Job has come."""

    QUEUED = "queued"
    """Suspended: a queue has not admitted it yet, or has put it back."""
    STARTING = "starting"
    """Not all of its hosts run."""
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Hosts:
    """A Job, its pods, and the events of all of them."""

    job: dict[str, Any]
    pods: tuple[dict[str, Any], ...] = ()
    events: tuple[dict[str, Any], ...] = ()

    @property
    def count(self) -> int:
        """How many hosts there should be."""
        return int(self.job["spec"].get("completions") or 1)

    @property
    def stage(self) -> Stage:
        """How far they have come, all together."""
        if self._condition("Complete") or self._condition("Failed"):
            return Stage.ENDED
        if self.job["spec"].get("suspend"):
            return Stage.QUEUED
        started = {index_of(pod) for pod in self.pods if self._of(pod).started_at}
        return Stage.RUNNING if len(started) >= self.count else Stage.STARTING

    @property
    def waiting_since(self) -> datetime | None:
        """Since when it waits, for its queue or for its hosts: each has the startup timeout to itself."""
        status, created = self.job.get("status") or {}, self.job["metadata"].get("creationTimestamp")
        suspended = self._condition("Suspended")
        if self.job["spec"].get("suspend"):
            return as_time((suspended or {}).get("lastTransitionTime") or created)
        return as_time(status.get("startTime") or created)

    @property
    def hopeless(self) -> str | None:
        """Why a host will never start, however long one waits."""
        for pod in self.pods:
            workload = self._of(pod)
            if workload.started_at is None and workload.failure_reason in NO_IMAGE:
                return self._at(index_of(pod), workload)
        return None

    def outcome(self) -> Workload:
        """How the workload went. One that has not ended is told by what it waits for."""
        told = sorted(((index_of(pod), self._of(pod)) for pod in self.pods), key=lambda one: one[0])
        if self._condition("Complete"):
            return self._together(told, JobStatus.SUCCESS, None, None)
        if self.stage is Stage.ENDED:
            return self._together(told, *self._failure(told))
        if self.stage is Stage.QUEUED:
            return self._together(told, JobStatus.MISSED, "Queued", self._last_word() or "its queue did not admit it")
        if self.stage is Stage.RUNNING:
            return self._together(
                told, JobStatus.FAILURE, "Interrupted", "the Job was still running when the task ended"
            )
        return self._together(told, JobStatus.MISSED, *self._missing(told))

    def _failure(self, told: list[tuple[int, Workload]]) -> tuple[JobStatus, str | None, str | None]:
        """The host that failed first tells why; the Job itself only where no host does."""
        own = [
            (host, one)
            for host, one in told
            if one.status is not JobStatus.SUCCESS and one.failure_reason not in UNTOLD
        ]
        if own:
            host, first = min(own, key=lambda one: (one[1].ended_at is None, one[1].ended_at or as_time(LAST)))
            return first.status, first.failure_reason, self._at(host, first)
        failed = self._condition("Failed") or {}
        if failed.get("reason") == TIME_IS_UP:
            return JobStatus.TIMEOUT, TIME_IS_UP, failed.get("message")
        if failed.get("reason") == NO_MORE_TRIES:
            # a pod that failed would still be there to tell
            return JobStatus.FAILURE, "PodDeleted", "the pod of a host was deleted before its workload had ended"
        return JobStatus.FAILURE, failed.get("reason") or "JobFailed", failed.get("message")

    def _missing(self, told: list[tuple[int, Workload]]) -> tuple[str | None, str | None]:
        """What the hosts wait for that do not run."""
        for host, one in told:
            if one.started_at is None:
                return one.failure_reason, self._at(host, one)
        warnings = [event for event in self.events if event.get("type") == "Warning"]
        if warnings:
            message = warnings[-1].get("message") or ""
            return refusal_in(message) or warnings[-1].get("reason"), message
        return "StartupTimeout", f"{len(told)} of {self.count} hosts started in time"

    def _at(self, host: int, one: Workload) -> str:
        detail = f": {one.detail}" if one.detail else ""
        return f"host {host} of {self.count}{detail}"

    def _together(
        self, told: list[tuple[int, Workload]], status: JobStatus, reason: str | None, detail: str | None
    ) -> Workload:
        """The hosts as one workload: from the first start to the last end, on the node of the first host."""
        each = [one for _, one in told]
        first = each[0] if each else Workload(status)
        started = [one.started_at for one in each if one.started_at]
        ended = [one.ended_at for one in each if one.ended_at]
        peaks = [one.peak_memory_bytes for one in each if one.peak_memory_bytes]
        return replace(
            first,
            status=status,
            failure_reason=reason,
            detail=detail,
            queued_at=as_time(self.job["metadata"].get("creationTimestamp")),
            # what never ran as a whole never ran
            started_at=min(started) if started and status is not JobStatus.MISSED else None,
            ended_at=max(ended) if ended else None,
            namespace=self.job["metadata"].get("namespace"),
            peak_memory_bytes=max(peaks) if peaks else None,
        )

    def _of(self, pod: dict[str, Any]) -> Workload:
        uid = pod["metadata"].get("uid")
        own = [event for event in self.events if (event.get("involvedObject") or {}).get("uid") == uid]
        return outcome_of(pod, own)

    def _last_word(self) -> str | None:
        uid = self.job["metadata"].get("uid")
        own = [event for event in self.events if (event.get("involvedObject") or {}).get("uid") == uid]
        return own[-1].get("message") if own else None

    def _condition(self, kind: str) -> dict[str, Any] | None:
        conditions = (self.job.get("status") or {}).get("conditions") or []
        return next((one for one in conditions if one.get("type") == kind and one.get("status") == "True"), None)


def index_of(pod: dict[str, Any]) -> int:
    """Which host a pod is."""
    metadata = pod["metadata"]
    for told in (metadata.get("annotations") or {}, metadata.get("labels") or {}):
        if str(told.get(INDEX, "")).isdigit():
            return int(told[INDEX])
    return 0


def refusal_in(message: str) -> str | None:
    """A refusal of the API server that has a name of its own."""
    return "QuotaExceeded" if "exceeded quota" in message else None
