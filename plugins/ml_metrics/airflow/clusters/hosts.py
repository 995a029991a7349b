"""The state and outcome of a workload on several hosts, from its Job, pods and events. Pure functions of objects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ml_metrics.airflow.clusters.outcome import EVENT_REASONS, as_time, outcome_of, reason_of_suspension
from ml_metrics.core.model import JobStatus, Workload

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ml_metrics.measure import FirstError


INDEX = "batch.kubernetes.io/job-completion-index"
"""The annotation or label of a pod with the index of its host."""

SECONDARY = frozenset({"PodDeleted", "Interrupted"})
"""The failure reasons of hosts that ended because another host failed."""

IMAGE_FAILURES = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
TIME_IS_UP = "DeadlineExceeded"
NO_MORE_TRIES = "BackoffLimitExceeded"
EXIT_CODE = "ExitCode:"
SIDECARS_MAY_RUN = timedelta(seconds=30)
"""How much longer than the workload its sidecars may run."""
TOGETHER = timedelta(seconds=5)
"""Hosts that end within this time ended for one reason. Ends are known to the second, lines of logs more exactly."""


class Stage(StrEnum):
    """The stage of a Job."""

    QUEUED = "queued"
    """Suspended: its queue has not admitted it yet, or has evicted it."""
    STARTING = "starting"
    """Not all hosts run yet."""
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Hosts:
    """A Job with its pods and all their events."""

    job: dict[str, Any]
    pods: tuple[dict[str, Any], ...] = ()
    events: tuple[dict[str, Any], ...] = ()
    admission: dict[str, Any] | None = None
    """What Kueue has decided about the Job, if it can be read."""
    errors: Mapping[int, FirstError] = field(default_factory=dict)
    """The first error in the log of each host, once the logs were read."""

    @property
    def count(self) -> int:
        """The number of hosts that the Job should have."""
        return int(self.job["spec"].get("completions") or 1)

    @property
    def stage(self) -> Stage:
        """The stage of the Job as a whole."""
        if self._condition("Complete") or self._condition("Failed"):
            return Stage.ENDED
        if self.job["spec"].get("suspend"):
            return Stage.QUEUED
        started = {index_of(pod) for pod in self.pods if self._outcome_of(pod).started_at}
        return Stage.RUNNING if len(started) >= self.count else Stage.STARTING

    @property
    def running_pod(self) -> str | None:
        """The name of the first pod whose workload still runs."""
        running = [pod for pod in self.pods if (one := self._outcome_of(pod)).started_at and not one.ended_at]
        return min(running, key=index_of)["metadata"]["name"] if running else None

    @property
    def waiting_since(self) -> datetime | None:
        """Since when the Job waits for its queue or its hosts. The startup timeout applies to each separately."""
        status, created = self.job.get("status") or {}, self.job["metadata"].get("creationTimestamp")
        suspended = self._condition("Suspended")
        if self.job["spec"].get("suspend"):
            return as_time((suspended or {}).get("lastTransitionTime") or created)
        return as_time(status.get("startTime") or created)

    @property
    def start_failure(self) -> str | None:
        """The reason why a host can never start, if there is one."""
        for pod in self.pods:
            workload = self._outcome_of(pod)
            if workload.started_at is None and workload.failure_reason in IMAGE_FAILURES:
                return self._at(index_of(pod), workload)
        return None

    def over(self, now: datetime) -> bool:
        """Return whether the workload has ended, with or without its sidecars: those have a while to end as well."""
        if self.stage is Stage.ENDED:
            return True
        outcomes = [(index_of(pod), self._outcome_of(pod)) for pod in self.pods]
        if self._all_succeeded(outcomes):
            return max(one.ended_at or now for _, one in outcomes) + SIDECARS_MAY_RUN < now
        return any(end + SIDECARS_MAY_RUN < now for end in self._hidden_failures())

    def _hidden_failures(self) -> list[datetime]:
        """Return when hosts failed whose pods go on because of a sidecar: the cluster takes them for running ones."""
        running = (pod for pod in self.pods if (pod.get("status") or {}).get("phase") == "Running")
        return [end for pod in running if (one := self._outcome_of(pod)).failure_reason and (end := one.ended_at)]

    def _all_succeeded(self, outcomes: list[tuple[int, Workload]]) -> bool:
        succeeded = {host for host, one in outcomes if one.status is JobStatus.SUCCESS}
        return self.stage is not Stage.QUEUED and len(succeeded) >= self.count

    def outcome(self) -> Workload:
        """Return the outcome of the workload. Before its end, that is what it waits for."""
        outcomes = sorted(((index_of(pod), self._outcome_of(pod)) for pod in self.pods), key=itemgetter(0))
        if self._condition("Complete") or self._all_succeeded(outcomes):
            told = next((one.detail for _, one in outcomes if one.status is JobStatus.SUCCESS and one.detail), None)
            return self._combined(outcomes, JobStatus.SUCCESS, None, told)
        if self.stage is Stage.ENDED or self._hidden_failures():
            return self._combined(outcomes, *self._failure(outcomes))
        if self.stage is Stage.QUEUED:
            return self._combined(outcomes, *reason_of_suspension(self.job, self.admission, self._events_of(self.job)))
        if self.stage is Stage.RUNNING:
            detail = "the Job was still running when the task ended"
            return self._combined(outcomes, JobStatus.FAILURE, "Interrupted", detail)
        return self._combined(outcomes, JobStatus.MISSED, *self._missing(outcomes))

    def _failure(self, outcomes: list[tuple[int, Workload]]) -> tuple[JobStatus, str | None, str | None]:
        """Return the failure of the host that failed first; that of the Job if no host has its own."""
        if found := self._first_to_fail(outcomes):
            host, first = found
            return first.status, first.failure_reason, self._at(host, first)
        failed = self._condition("Failed") or {}
        if failed.get("reason") == TIME_IS_UP:
            return JobStatus.TIMEOUT, TIME_IS_UP, failed.get("message")
        if explained := self._end_of_lost_pod():
            return JobStatus.FAILURE, *explained
        if failed.get("reason") == NO_MORE_TRIES:
            # a failed pod would still exist
            return JobStatus.FAILURE, "PodDeleted", "the pod of a host was deleted before its workload had ended"
        return JobStatus.FAILURE, failed.get("reason") or "JobFailed", failed.get("message")

    @property
    def failed_first(self) -> int | None:
        """The host whose failure is that of the workload; None if no host failed by itself."""
        found = self._first_to_fail([(index_of(pod), self._outcome_of(pod)) for pod in self.pods])
        return found[0] if found else None

    def _first_to_fail(self, outcomes: list[tuple[int, Workload]]) -> tuple[int, Workload] | None:
        """Return the host that failed first. Of hosts that ended together, the time of the first error decides."""
        failed = [
            (host, one)
            for host, one in outcomes
            if one.status is not JobStatus.SUCCESS and one.failure_reason not in SECONDARY
        ]
        ends = [(host, one, one.ended_at) for host, one in failed if one.ended_at is not None]
        if not ends:
            return min(failed, key=itemgetter(0), default=None)
        first_end = min(end for *_, end in ends)
        together = [one for one in ends if one[2] <= first_end + TOGETHER]
        host, first, _ = min(together, key=lambda one: (self._failed_at(one[0], one[2]), one[0]))
        return host, first

    def _failed_at(self, host: int, end: datetime) -> datetime:
        """Return when a host failed: at its first error, unless that is older than what ended all of them."""
        error = self.errors.get(host)
        return error.at if error is not None and error.at >= end - TOGETHER else end

    def _end_of_lost_pod(self) -> tuple[str, str] | None:
        """Return why a pod ended that no longer exists, from the oldest event about such a pod that explains it."""
        present = {pod["metadata"].get("uid") for pod in self.pods}
        found = [
            event
            for event in self.events
            if event.get("reason") in EVENT_REASONS
            and (event.get("involvedObject") or {}).get("kind") == "Pod"
            and event["involvedObject"].get("uid") not in present
        ]
        if not found:
            return None
        oldest = min(found, key=lambda event: str(event.get("firstTimestamp") or event.get("eventTime") or ""))
        return EVENT_REASONS[oldest["reason"]], f"pod {oldest['involvedObject'].get('name')}: {oldest.get('message')}"

    def _missing(self, outcomes: list[tuple[int, Workload]]) -> tuple[str | None, str | None]:
        """Return what the hosts that do not run wait for."""
        for host, one in outcomes:
            if one.started_at is None:
                return one.failure_reason, self._at(host, one)
        warnings = [event for event in self.events if event.get("type") == "Warning"]
        if warnings:
            message = warnings[-1].get("message") or ""
            return rejection_reason(message) or warnings[-1].get("reason"), message
        return "StartupTimeout", f"{len(outcomes)} of {self.count} hosts started in time"

    def _at(self, host: int, one: Workload) -> str:
        detail = one.detail
        if host in self.errors and (one.failure_reason or "").startswith(EXIT_CODE):
            detail = self.errors[host].text  # what the cluster has is the end of the log, and so the last error
        return f"host {host} of {self.count}{f': {detail}' if detail else ''}"

    def _combined(
        self, outcomes: list[tuple[int, Workload]], status: JobStatus, reason: str | None, detail: str | None
    ) -> Workload:
        """Return the hosts as one workload: from the first start to the last end, on the node of the first host."""
        each = [one for _, one in outcomes]
        first = each[0] if each else Workload(status)
        scheduled = [one.scheduled_at for one in each if one.scheduled_at]
        started = [one.started_at for one in each if one.started_at]
        ended = [one.ended_at for one in each if one.ended_at]
        peaks = [one.peak_memory_bytes for one in each if one.peak_memory_bytes]
        nodes = dict.fromkeys(one.node for one in each if one.node)
        return replace(
            first,
            status=status,
            failure_reason=reason,
            detail=detail,
            queued_at=as_time(self.job["metadata"].get("creationTimestamp")),
            scheduled_at=max(scheduled) if scheduled else None,
            # a workload that did not run on all hosts did not run
            started_at=min(started) if started and status is not JobStatus.MISSED else None,
            ended_at=max(ended) if ended else None,
            namespace=self.job["metadata"].get("namespace"),
            nodes=",".join(nodes) if len(nodes) > 1 else None,
            peak_memory_bytes=max(peaks) if peaks else None,
        )

    def _outcome_of(self, pod: dict[str, Any]) -> Workload:
        return outcome_of(pod, self._events_of(pod))

    def _events_of(self, thing: dict[str, Any]) -> list[dict[str, Any]]:
        uid = thing["metadata"].get("uid")
        return [event for event in self.events if (event.get("involvedObject") or {}).get("uid") == uid]

    def _condition(self, kind: str) -> dict[str, Any] | None:
        conditions = (self.job.get("status") or {}).get("conditions") or []
        return next((one for one in conditions if one.get("type") == kind and one.get("status") == "True"), None)


def index_of(pod: dict[str, Any]) -> int:
    """Return the index of the host that a pod runs."""
    metadata = pod["metadata"]
    for fields in (metadata.get("annotations") or {}, metadata.get("labels") or {}):
        if str(fields.get(INDEX, "")).isdigit():
            return int(fields[INDEX])
    return 0


def rejection_reason(message: str) -> str | None:
    """Return the failure reason for a message of the API server, if it has a specific one."""
    return "QuotaExceeded" if "exceeded quota" in message else None
