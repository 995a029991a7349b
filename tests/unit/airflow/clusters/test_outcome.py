"""The outcome for every way in which a pod ends, from objects like those of the kubelet and the scheduler."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ml_metrics.airflow.clusters.outcome import outcome_of, outcome_of_lost_pod
from ml_metrics.core.model import JobStatus, Workload

STARTED, FINISHED = "2026-01-02T03:04:05Z", "2026-01-02T03:05:05Z"


def pod(status: dict[str, Any] | None = None, **state: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "ns", "creationTimestamp": "2026-01-02T03:04:00Z"},
        "spec": {"nodeName": "node-1", "containers": [{"name": "base", "image": "img:1"}]},
        "status": {
            "containerStatuses": [
                {"name": "sidecar", "state": {"running": {"startedAt": STARTED}}},
                {"name": "base", "imageID": "img@sha256:1", "state": state},
            ],
            **(status or {}),
        },
    }


def ended(code: int, reason: str = "Error", **more: Any) -> dict[str, Any]:
    return {"exitCode": code, "reason": reason, "startedAt": STARTED, "finishedAt": FINISHED, **more}


def test_a_successful_workload() -> None:
    one = pod(terminated=ended(0, "Completed"))
    one["metadata"]["annotations"] = {"local-kube/peak-memory-bytes.base": "1048576"}
    workload = outcome_of(one, [])
    assert workload.status is JobStatus.SUCCESS
    assert workload.failure_reason is None
    assert workload.started_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (workload.duration_seconds, workload.queued_seconds) == (60, 5)
    assert (workload.pod, workload.namespace, workload.node) == ("p", "ns", "node-1")
    assert (workload.image, workload.image_digest) == ("img:1", "img@sha256:1")
    assert workload.peak_memory_bytes == 1048576


@pytest.mark.parametrize(
    ("one", "status", "reason"),
    [
        (pod(terminated=ended(3)), "failure", "ExitCode:3"),
        (pod(terminated=ended(137)), "failure", "ExitCode:137"),
        (pod(terminated=ended(137, "OOMKilled")), "failure", "OOMKilled"),
        (pod(terminated=ended(1, "ContainerStatusUnknown")), "failure", "ContainerStatusUnknown"),
        (pod({"reason": "DeadlineExceeded"}, terminated=ended(137)), "timeout", "DeadlineExceeded"),
        (pod({"reason": "DeadlineExceeded"}, terminated=ended(0, "Completed")), "timeout", "DeadlineExceeded"),
        (pod({"reason": "DeadlineExceeded"}, waiting={"reason": "ContainerCreating"}), "missed", "DeadlineExceeded"),
        (pod({"reason": "Evicted", "message": "low on memory"}, terminated=ended(137)), "failure", "Evicted"),
        (pod({"reason": "Evicted", "phase": "Failed"}, terminated=ended(0, "Completed")), "failure", "Evicted"),
        (pod({"reason": "Preempting"}, terminated=ended(143)), "failure", "Preempted"),
        (pod({"reason": "Terminated", "phase": "Failed"}, terminated=ended(143)), "failure", "NodeShutdown"),
        (pod({"reason": "OutOfcpu", "phase": "Failed", "containerStatuses": None}), "missed", "OutOfcpu"),
        (pod(terminated={"exitCode": 128, "reason": "StartError"}), "missed", "StartError"),
        (pod(waiting={"reason": "ImagePullBackOff"}), "missed", "ImagePullBackOff"),
        (pod(waiting={"reason": "CreateContainerConfigError"}), "missed", "CreateContainerConfigError"),
        (pod(waiting={"reason": "ContainerCreating"}), "missed", "StartupTimeout"),
        (pod(), "missed", "StartupTimeout"),
        ({}, "missed", "StartupTimeout"),
        (pod(running={"startedAt": STARTED}), "failure", "Interrupted"),
    ],
)
def test_status_and_reason_of_every_other_end(one: dict[str, Any], status: str, reason: str) -> None:
    workload = outcome_of(one, [])
    assert (workload.status, workload.failure_reason) == (status, reason)
    assert (workload.started_at is None) == (status == "missed")


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        ("PreemptionByScheduler", "Preempted"),
        ("DeletionByTaintManager", "NodeLost"),
        ("EvictionByEvictionAPI", "Evicted"),
        ("SomethingNew", "Evicted"),
    ],
)
def test_disruptions_by_the_cluster(cause: str, reason: str) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": cause, "message": "why"}
    workload = outcome_of(pod({"conditions": [condition]}, terminated=ended(143)), [])
    assert (workload.status, workload.failure_reason, workload.detail) == ("failure", reason, "why")


@pytest.mark.parametrize(
    ("asked_at", "state", "status", "reason"),
    [
        # its deletion was requested at 03:05:00
        ("2026-01-02T03:05:00Z", {"terminated": ended(0, "Completed")}, "failure", "PodDeleted"),
        ("2026-01-02T03:05:00Z", {"terminated": ended(143)}, "failure", "PodDeleted"),
        ("2026-01-02T03:05:00Z", {"running": {"startedAt": STARTED}}, "failure", "PodDeleted"),
        ("2026-01-02T03:05:00Z", {"waiting": {"reason": "ContainerCreating"}}, "missed", "PodDeleted"),
        ("2026-01-02T03:05:00Z", {"terminated": ended(137, "OOMKilled")}, "failure", "OOMKilled"),
        (FINISHED, {"terminated": ended(0, "Completed")}, "failure", "PodDeleted"),  # in the same second
        # it had ended before
        ("2026-01-02T03:05:06Z", {"terminated": ended(0, "Completed")}, "success", None),
        ("2026-01-02T03:06:00Z", {"terminated": ended(0, "Completed")}, "success", None),
        ("2026-01-02T03:06:00Z", {"terminated": ended(3)}, "failure", "ExitCode:3"),
    ],
)
def test_a_deleted_pod(asked_at: str, state: dict[str, Any], status: str, reason: str | None) -> None:
    one = pod(**state)
    gone_by = datetime.fromisoformat(asked_at) + timedelta(seconds=30)
    one["metadata"] |= {"deletionTimestamp": gone_by.isoformat(), "deletionGracePeriodSeconds": 30}
    workload = outcome_of(one, [])
    assert (workload.status, workload.failure_reason) == (status, reason)


@pytest.mark.parametrize(
    ("evicted_at", "end", "status", "reason"),
    [
        (FINISHED, ended(137), "failure", "Evicted"),
        (STARTED, ended(0, "Completed"), "failure", "Evicted"),  # its program took the signal for a wish to stop
        ("2026-01-02T03:05:06Z", ended(0, "Completed"), "success", None),
        (None, ended(137), "failure", "ExitCode:137"),
    ],
)
def test_an_eviction_that_only_an_event_reports(
    evicted_at: str | None, end: dict[str, Any], status: str, reason: str | None
) -> None:
    event = {"reason": "Evicted", "message": "usage exceeds 1Mi", "firstTimestamp": evicted_at}
    workload = outcome_of(pod({"phase": "Succeeded"}, terminated=end), [{"reason": "Pulled"}, event])
    assert (workload.status, workload.failure_reason) == (status, reason)
    assert (workload.detail == "usage exceeds 1Mi") == (reason == "Evicted")


def test_an_evicted_pod_without_containers_ran_according_to_its_events() -> None:
    started = {
        "reason": "Started",
        "involvedObject": {"fieldPath": "spec.containers{base}"},
        "firstTimestamp": STARTED,
    }
    one = {**pod(), "status": {"phase": "Failed", "reason": "Evicted", "message": "low on disk"}}
    assert (outcome_of(one, []).status, outcome_of(one, [started]).status) == ("missed", "failure")


def test_an_unschedulable_pod() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    workload = outcome_of({**pod(), "status": {"conditions": [condition]}}, [])
    assert (workload.status, workload.failure_reason, workload.detail) == ("missed", "Unschedulable", "0/3 nodes")


def test_a_failed_init_container_is_named() -> None:
    init = {"name": "fetch", "state": {"terminated": ended(2)}}
    workload = outcome_of(pod({"initContainerStatuses": [init]}, waiting={"reason": "PodInitializing"}), [])
    assert (workload.status, workload.failure_reason, workload.detail) == (
        "missed",
        "InitContainer:fetch",
        "ExitCode:2",
    )


def test_the_reason_can_come_from_events() -> None:
    events = [
        {"type": "Normal", "reason": "Scheduled"},
        {"type": "Warning", "reason": "FailedMount", "message": "no such secret"},
    ]
    workload = outcome_of(pod(waiting={"reason": "ContainerCreating"}), events)
    assert (workload.failure_reason, workload.detail) == ("FailedMount", "no such secret")


PENDING = Workload(JobStatus.FAILURE, "WorkerLost", pod="p", attempts=2)
STARTED_EVENT = {
    "reason": "Started",
    "involvedObject": {"fieldPath": "spec.containers{base}"},
    "firstTimestamp": "2026-01-02T03:04:05Z",
}


@pytest.mark.parametrize(
    ("events", "status", "reason"),
    [
        ([], "failure", "PodDeleted"),
        ([STARTED_EVENT, {"reason": "Killing"}], "failure", "PodDeleted"),
        ([{"reason": "Scheduled"}], "missed", "PodDeleted"),
        ([{"reason": "Started", "message": "Started container proxy"}], "missed", "PodDeleted"),
        ([STARTED_EVENT, {"reason": "Preempted", "message": "by other/pod"}], "failure", "Preempted"),
        ([STARTED_EVENT, {"reason": "TaintManagerEviction"}, {"reason": "Killing"}], "failure", "NodeLost"),
        ([STARTED_EVENT, {"reason": "Evicted"}], "failure", "Evicted"),
    ],
)
def test_the_reason_comes_from_the_events(events: list[dict[str, Any]], status: str, reason: str) -> None:
    outcome = outcome_of_lost_pod(PENDING, events)
    assert (outcome.status, outcome.failure_reason, outcome.pod, outcome.attempts) == (status, reason, "p", 2)
    assert (outcome.started_at is not None) == (STARTED_EVENT in events)


def test_the_reason_of_an_eviction_through_the_api_is_in_the_last_state() -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}
    leaving = {"status": {"phase": "Running", "conditions": [condition]}}
    outcome = outcome_of_lost_pod(PENDING, [STARTED_EVENT, {"reason": "Killing"}], leaving)
    assert (outcome.status, outcome.failure_reason, outcome.detail) == ("failure", "Evicted", "evicting")
    by_hand = outcome_of_lost_pod(PENDING, [STARTED_EVENT, {"reason": "Killing"}], {"status": {"phase": "Running"}})
    assert by_hand.failure_reason == "PodDeleted"


def test_an_event_without_a_path_identifies_its_container_by_message() -> None:
    event = {"reason": "Started", "message": "Started container base", "lastTimestamp": "2026-01-02T03:04:05Z"}
    outcome = outcome_of_lost_pod(PENDING, [event])
    assert (outcome.status, outcome.started_at) == ("failure", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


def with_sidecar(status: dict[str, Any], **state: Any) -> dict[str, Any]:
    one = pod({"startTime": STARTED, **status}, **state)
    one["spec"] |= {"activeDeadlineSeconds": 120, "containers": [*one["spec"]["containers"], {"name": "sidecar"}]}
    return one


def test_a_sidecar_that_outlives_a_successful_workload_is_named() -> None:
    workload = outcome_of(with_sidecar({"phase": "Running"}, terminated=ended(0, "Completed")), [])
    assert workload.status is JobStatus.SUCCESS
    assert workload.detail == "the workload has ended, unlike its sidecars: sidecar"


@pytest.mark.parametrize(
    ("finished", "status"),
    [
        ("2026-01-02T03:05:05Z", "success"),  # a minute before the deadline
        ("2026-01-02T03:06:05Z", "timeout"),  # at the deadline: the program may have ended because of it
        ("2026-01-02T03:06:20Z", "timeout"),
    ],
)
def test_a_deadline_that_only_a_sidecar_reached_is_no_timeout(finished: str, status: str) -> None:
    done = {**ended(0, "Completed"), "finishedAt": finished}
    workload = outcome_of(with_sidecar({"reason": "DeadlineExceeded", "phase": "Failed"}, terminated=done), [])
    assert str(workload.status) == status
    assert (workload.detail or "").endswith("sidecar") == (status == "success")


def test_a_workload_that_failed_beside_a_running_sidecar_failed() -> None:
    workload = outcome_of(with_sidecar({"phase": "Running"}, terminated=ended(3)), [])
    assert (str(workload.status), workload.failure_reason) == ("failure", "ExitCode:3")


def test_a_pod_that_no_queue_has_admitted_waits_in_its_queue() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "waiting for Kueue"}
    workload = outcome_of(pod({"conditions": [gated]}), [])
    assert (str(workload.status), workload.failure_reason) == ("missed", "Queued")
