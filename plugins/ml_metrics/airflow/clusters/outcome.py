"""The outcome of a workload as a `Workload`: of a pod, or of all hosts of a Job. Pure functions of objects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ml_metrics.core.model import WORKLOAD_CONTAINER, JobStatus, Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ml_metrics.measure import FirstError


PEAK_MEMORY = f"local-kube/peak-memory-bytes.{WORKLOAD_CONTAINER}"
"""The annotation in which the local cluster reports the peak memory of a container."""

POD_REASONS = {
    "Evicted": "Evicted",
    "Preempting": "Preempted",
    "NodeLost": "NodeLost",
    "NodeShutdown": "NodeShutdown",
    "Shutdown": "NodeShutdown",
    "Terminated": "NodeShutdown",
}
"""The failure reason for each reason of a pod that the cluster ended."""

DISRUPTIONS = {
    "PreemptionByScheduler": "Preempted",
    "DeletionByTaintManager": "NodeLost",
    "EvictionByEvictionAPI": "Evicted",
    "TerminationByKubelet": "Evicted",
    "DeletionByPodGC": "NodeLost",
}
"""The failure reason for each reason of the condition DisruptionTarget."""

EVENT_REASONS = {
    "Preempted": "Preempted",
    "Preempting": "Preempted",
    "Evicted": "Evicted",
    "TaintManagerEviction": "NodeLost",
    "NodeNotReady": "NodeLost",
    "NodeShutdown": "NodeShutdown",
    "ScaleDown": "Evicted",
    "EvictedByVPA": "Evicted",
}
"""The failure reason for each event that explains why a pod ended."""

NEVER_STARTED = frozenset({"StartError", "ContainerCannotRun", "RunContainerError", "CreateContainerError"})
"""The reasons of terminated containers whose program never ran."""

OUTLIVED = "the workload has ended, unlike its sidecars:"

EPOCH = 1970
"""The year that a kubelet writes for unknown times."""


def outcome_of(pod: dict[str, Any], events: list[dict[str, Any]]) -> Workload:
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    metadata = pod.get("metadata") or {}
    container, ours = _workload_in(status.get("containerStatuses")), _workload_in(spec.get("containers"))
    memory = ((ours.get("resources") or {}).get("limits") or {}).get("memory")
    peak = (metadata.get("annotations") or {}).get(PEAK_MEMORY) or ""
    ended = (container.get("state") or {}).get("terminated") or {}
    started_at = _started_at(container, events)
    job_status, reason, detail = _verdict(pod, container, events, ran=started_at is not None)
    return Workload(
        status=job_status,
        failure_reason=reason,
        detail=detail,
        queued_at=as_time(metadata.get("creationTimestamp")),
        scheduled_at=as_time(_condition(status, "PodScheduled", "True").get("lastTransitionTime")),
        started_at=started_at,
        ended_at=as_time(ended.get("finishedAt")),
        namespace=metadata.get("namespace"),
        pod=metadata.get("name"),
        node=spec.get("nodeName"),
        image=ours.get("image"),
        image_digest=container.get("imageID") or None,
        memory_limit=None if memory is None else str(memory),
        peak_memory_bytes=int(peak) if peak.isdigit() else None,
    )


def outcome_of_lost_pod(
    pending: Workload, events: list[dict[str, Any]], last: dict[str, Any] | None = None
) -> Workload:
    """The outcome of a workload whose pod is gone, last known as `last`. Events outlive a pod by an hour."""
    started_at = started_at_by(events)
    # without events it is unknown whether the workload ran
    status = JobStatus.FAILURE if started_at or not events else JobStatus.MISSED
    for event in reversed(events):
        if event.get("reason") in EVENT_REASONS:
            reason, detail = EVENT_REASONS[event["reason"]], event.get("message")
            break
    else:
        disrupted = disruption((last or {}).get("status") or {})
        reason, detail = disrupted or ("PodDeleted", "the pod was deleted before its workload had ended")
    return replace(pending, status=status, failure_reason=reason, detail=detail, started_at=started_at)


def started_at_by(events: list[dict[str, Any]]) -> datetime | None:
    """Return when the container of the workload started according to events, which outlive the pod."""
    for event in events:
        path = (event.get("involvedObject") or {}).get("fieldPath")
        # an event without a path names the container in its message
        named = path == f"spec.containers{{{WORKLOAD_CONTAINER}}}"
        ours = named if path else event.get("message") == f"Started container {WORKLOAD_CONTAINER}"
        if event.get("reason") == "Started" and ours:
            return _happened_at(event)
    return None


def disruption(status: dict[str, Any]) -> tuple[str, str | None] | None:
    """Return reason and message if the cluster ended the pod: eviction, preemption, or the loss of its node."""
    if status.get("reason") in POD_REASONS:
        return POD_REASONS[status["reason"]], status.get("message")
    target = _condition(status, "DisruptionTarget", "True")
    return (DISRUPTIONS.get(target.get("reason", ""), "Evicted"), target.get("message")) if target else None


def _workload_in(containers: Iterable[dict[str, Any]] | None) -> dict[str, Any]:
    return next((one for one in containers or [] if one.get("name") == WORKLOAD_CONTAINER), {})


def _condition(status: dict[str, Any], kind: str, value: str) -> dict[str, Any]:
    found = (one for one in status.get("conditions") or [] if (one.get("type"), one.get("status")) == (kind, value))
    return next(found, {})


def _started_at(container: dict[str, Any], events: list[dict[str, Any]]) -> datetime | None:
    state = container.get("state") or {}
    ended, running = state.get("terminated") or {}, state.get("running") or {}
    if ended.get("reason") in NEVER_STARTED:
        return None
    # a kubelet that lost its containers reports 1970; the pod of an evicted workload may report no container at all
    reported = as_time(running.get("startedAt") or ended.get("startedAt"))
    return reported if reported and reported.year > EPOCH else started_at_by(events)


def _verdict(
    pod: dict[str, Any], container: dict[str, Any], events: list[dict[str, Any]], *, ran: bool
) -> tuple[JobStatus, str | None, str | None]:
    status = pod.get("status") or {}
    state = container.get("state") or {}
    ended = state.get("terminated")
    not_successful = JobStatus.FAILURE if ran else JobStatus.MISSED
    if status.get("reason") == "DeadlineExceeded":
        if ended and ended.get("exitCode") == 0 and _ended_in_time(pod, ended):
            return JobStatus.SUCCESS, None, _outlived_by((pod.get("spec") or {}).get("containers") or [])
        timeout = JobStatus.TIMEOUT if ran else JobStatus.MISSED
        return timeout, "DeadlineExceeded", status.get("message")
    deleted = _was_deleted_before(ended, pod.get("metadata") or {})
    evicted = _evicted_before(ended, events)
    if ended and ended.get("exitCode") == 0 and status.get("phase") != "Failed" and not (deleted or evicted):
        statuses = status.get("containerStatuses") or []
        running = [one for one in statuses if (one.get("state") or {}).get("running")]
        return JobStatus.SUCCESS, None, _outlived_by(running)
    if disrupted := disruption(status) or evicted:
        return not_successful, *disrupted
    if ended and ended.get("reason") in NEVER_STARTED:
        return JobStatus.MISSED, ended["reason"], ended.get("message")
    if ended and ended.get("exitCode") == 0 and not deleted:
        return JobStatus.SUCCESS, None, None  # another container failed, which the Airflow task reports
    if deleted and (ended or {}).get("reason") != "OOMKilled":
        return not_successful, "PodDeleted", "the pod was deleted before its workload had ended"
    if ended:
        return JobStatus.FAILURE, _exit_reason(ended), ended.get("message")
    if ran:
        return JobStatus.FAILURE, "Interrupted", "the pod was still running when the task ended"
    return JobStatus.MISSED, *_waiting_reason(status, container, events)


def _outlived_by(containers: list[dict[str, Any]]) -> str | None:
    names = [str(one.get("name")) for one in containers if one.get("name") != WORKLOAD_CONTAINER]
    return f"{OUTLIVED} {', '.join(names)}" if names else None


def _ended_in_time(pod: dict[str, Any], ended: dict[str, Any]) -> bool:
    """Return whether the workload ended before the deadline of its pod, which only a sidecar then reached."""
    started, finished = as_time((pod.get("status") or {}).get("startTime")), as_time(ended.get("finishedAt"))
    seconds = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    if started is None or finished is None or seconds is None:
        return False
    return finished < started + timedelta(seconds=seconds)


def _was_deleted_before(ended: dict[str, Any] | None, metadata: dict[str, Any]) -> bool:
    """Return whether deletion of the pod was requested before the workload ended, which may then still exit with 0."""
    deadline = as_time(metadata.get("deletionTimestamp"))
    if deadline is None:
        return False
    requested_at = deadline - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    finished_at = as_time((ended or {}).get("finishedAt"))
    # times are whole seconds: a program that takes the signal for a wish to stop exits with 0 in the same one
    return finished_at is None or finished_at >= requested_at


def _evicted_before(ended: dict[str, Any] | None, events: list[dict[str, Any]]) -> tuple[str, str | None] | None:
    """Return reason and message if the pod was evicted before its workload ended, according to events.

    Some evictions, mostly those for a full volume, leave no trace in the pod, whose program may also exit with 0:
    https://github.com/kubernetes/kubernetes/issues/141483
    """
    finished_at = as_time((ended or {}).get("finishedAt"))
    for event in events:
        if event.get("reason") == "Evicted" and finished_at is not None:
            evicted_at = _happened_at(event)
            if evicted_at is not None and evicted_at <= finished_at:
                return "Evicted", event.get("message")
    return None


def _happened_at(event: dict[str, Any]) -> datetime | None:
    """Return when an event happened first. Which of the three fields is set depends on who reported it."""
    return as_time(event.get("firstTimestamp") or event.get("eventTime") or event.get("lastTimestamp"))


def _exit_reason(ended: dict[str, Any]) -> str:
    reason = ended.get("reason")
    if reason and reason not in {"Error", "Completed"}:
        return str(reason)
    return f"ExitCode:{ended.get('exitCode')}"


def _waiting_reason(
    status: dict[str, Any], container: dict[str, Any], events: list[dict[str, Any]]
) -> tuple[str, str | None]:
    if status.get("phase") == "Failed" and status.get("reason"):
        return status["reason"], status.get("message")  # the kubelet rejected the pod: OutOfcpu, NodeAffinity
    waiting = (container.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") not in {None, "ContainerCreating", "PodInitializing"}:
        return waiting["reason"], waiting.get("message")
    for init in status.get("initContainerStatuses") or []:
        failed = (init.get("state") or {}).get("terminated") or {}
        if failed.get("exitCode"):
            return f"InitContainer:{init.get('name')}", failed.get("message") or _exit_reason(failed)
    if unscheduled := _condition(status, "PodScheduled", "False"):
        reason = unscheduled.get("reason") or "Unschedulable"
        return "Queued" if reason == "SchedulingGated" else reason, unscheduled.get("message")
    warnings = [event for event in events if event.get("type") == "Warning"]
    if warnings:
        return warnings[-1].get("reason") or "StartupTimeout", warnings[-1].get("message")
    return "StartupTimeout", "the pod did not start in time"


def as_time(text: str | datetime | None) -> datetime | None:
    if text is None or isinstance(text, datetime):
        return text
    return datetime.fromisoformat(text)


QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
GROUP, VERSION, PLURAL = "kueue.x-k8s.io", "v1beta1", "workloads"
OWNER_LABEL = "kueue.x-k8s.io/job-uid"
"""The label of a Workload that names the Job or JobSet it is for."""
PREEMPTED, EVICTED, QUEUED, SUSPENDED = "Preempted", "Evicted", "Queued", "Suspended"

End = tuple[JobStatus, str, str]


def reason_of_suspension(job: dict[str, Any], workload: dict[str, Any] | None, events: Iterable[dict[str, Any]]) -> End:
    """Return status, reason and detail of a suspended Job or JobSet: preempted, not admitted yet, or just suspended.

    `workload` is that of Kueue, if it can be read; `events` are those of the Job.
    """
    admission = (workload or {}).get("status") or {}
    if evicted := _condition(admission, "Evicted", "True"):
        detail = evicted.get("message") or "the queue has evicted it"
        if evicted.get("reason") == PREEMPTED:
            return JobStatus.FAILURE, PREEMPTED, detail
        return JobStatus.FAILURE, EVICTED, f"{evicted.get('reason')}: {detail}"
    if QUEUE_LABEL not in (job["metadata"].get("labels") or {}):
        return JobStatus.MISSED, SUSPENDED, "it was suspended, and is in no queue that would start it"
    pending = _condition(admission, "QuotaReserved", "False") or _condition(admission, "Admitted", "False")
    told = pending.get("message") or next(
        (event.get("message") for event in reversed(list(events)) if event.get("message")), None
    )
    queue = job["metadata"]["labels"][QUEUE_LABEL]
    return JobStatus.MISSED, QUEUED, f"not admitted by the queue {queue} yet{f': {told}' if told else ''}"


INDEX = "batch.kubernetes.io/job-completion-index"
"""The annotation or label of a pod with the index of its host."""

SECONDARY = frozenset({"PodDeleted", "Interrupted"})
"""The failure reasons of hosts that ended because another host failed."""

IMAGE_FAILURES = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
BUSY_REGISTRY = ("pull qps", "rate limit", "too many requests", "quota", "unavailable", "timeout", "bad gateway")
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
        return int(self.job["spec"].get("completions") or 1)

    @property
    def stage(self) -> Stage:
        if self._condition("Complete") or self._condition("Failed"):
            return Stage.ENDED
        if self.job["spec"].get("suspend"):
            return Stage.QUEUED
        started = {index_of(pod) for pod in self.pods if self._outcome_of(pod).started_at}
        return Stage.RUNNING if len(started) >= self.count else Stage.STARTING

    @property
    def running_pod(self) -> str | None:
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
        """The reason why a host can never start, if there is one. A registry that is busy may answer later."""
        for pod in self.pods:
            one = self._outcome_of(pod)
            passes = any(sign in (one.detail or "").lower() for sign in BUSY_REGISTRY)
            if one.started_at is None and one.failure_reason in IMAGE_FAILURES and not passes:
                return f"{one.failure_reason}: {self._at(index_of(pod), one)}"
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

        def failed_at(found: tuple[int, Workload, datetime]) -> tuple[datetime, int]:
            """Return when a host failed: at its first error, unless that is older than what ended all of them."""
            host, _, end = found
            error = self.errors.get(host)
            return error.at if error is not None and error.at >= end - TOGETHER else end, host

        host, first, _ = min(together, key=failed_at)
        return host, first

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
        return _condition(self.job.get("status") or {}, kind, "True") or None


@dataclass(frozen=True, slots=True)
class OnePod(Hosts):
    """A single pod, as a Job of one host."""

    @classmethod
    def of(cls, pod: dict[str, Any], events: Iterable[dict[str, Any]] = ()) -> OnePod:
        return cls({"metadata": pod["metadata"], "spec": {}}, (pod,), tuple(events))

    @property
    def stage(self) -> Stage:
        if (self.pods[0].get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
            return Stage.ENDED
        return Stage.RUNNING if self.outcome().started_at else Stage.STARTING

    @property
    def waiting_since(self) -> datetime | None:
        one = self.outcome()
        return one.scheduled_at or one.queued_at

    def outcome(self) -> Workload:
        return self._outcome_of(self.pods[0])

    def _at(self, host: int, one: Workload) -> str:
        return one.detail or ""


def index_of(pod: dict[str, Any]) -> int:
    metadata = pod["metadata"]
    for fields in (metadata.get("annotations") or {}, metadata.get("labels") or {}):
        if str(fields.get(INDEX, "")).isdigit():
            return int(fields[INDEX])
    return 0


def rejection_reason(message: str) -> str | None:
    return "QuotaExceeded" if "exceeded quota" in message else None
