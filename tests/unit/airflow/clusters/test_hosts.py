"""The outcome of a workload on several hosts, at every stage of its Job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ml_metrics.airflow.clusters.outcome import INDEX, QUEUE_LABEL, Hosts, Stage, index_of
from ml_metrics.measure import FirstError

MADE, STARTED, FINISHED = "2026-01-02T03:04:00Z", "2026-01-02T03:04:05Z", "2026-01-02T03:05:05Z"


def job(*conditions: dict[str, Any], suspend: bool = False, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "j", "namespace": "ns", "uid": "job-uid", "creationTimestamp": MADE},
        "spec": {"completions": 2, "suspend": suspend},
        "status": {"conditions": list(conditions), **status},
    }


def condition(kind: str, reason: str = "", message: str = "") -> dict[str, Any]:
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": FINISHED}


def host(number: int, status: dict[str, Any] | None = None, **state: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"j-{number}",
            "namespace": "ns",
            "uid": f"u{number}",
            "annotations": {INDEX: str(number)},
        },
        "spec": {"nodeName": f"node-{number}", "containers": [{"name": "base", "image": "img:1"}]},
        "status": {"containerStatuses": [{"name": "base", "state": state}], **(status or {})},
    }


def ended(code: int, at: str = FINISHED, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": STARTED, "finishedAt": at}}


RUNNING = {"running": {"startedAt": STARTED}}
COMPLETE, FAILED = condition("Complete"), condition("Failed", "BackoffLimitExceeded", "has reached the limit")


def summary(hosts: Hosts) -> tuple[str, str | None, str | None]:
    workload = hosts.outcome()
    return str(workload.status), workload.failure_reason, workload.detail


def test_successful_hosts_are_one_workload_from_the_first_start_to_the_last_end() -> None:
    late = ended(0, "2026-01-02T03:06:05Z")
    hosts = Hosts(job(COMPLETE), (host(1, **late), host(0, **ended(0))))
    workload = hosts.outcome()
    assert hosts.stage is Stage.ENDED
    assert (workload.status, workload.failure_reason) == ("success", None)
    assert workload.duration_seconds == 120
    assert workload.queued_seconds == 5
    assert (workload.pod, workload.node) == ("j-0", "node-0")


@pytest.mark.parametrize(
    ("hosts", "reason"),
    [
        ((host(0, **RUNNING), host(1, **ended(3))), ("failure", "ExitCode:3", "host 1 of 2")),
        (
            (host(0, **ended(1, "2026-01-02T03:09:00Z")), host(1, **ended(137, reason="OOMKilled"))),
            ("failure", "OOMKilled", "host 1 of 2"),
        ),
        (
            (host(0, {"reason": "DeadlineExceeded", "message": "too long"}, **ended(137)), host(1, **RUNNING)),
            ("timeout", "DeadlineExceeded", "host 0 of 2: too long"),
        ),
        (
            (host(0, {"reason": "Evicted", "phase": "Failed", "message": "memory"}, **ended(137)), host(1, **RUNNING)),
            ("failure", "Evicted", "host 0 of 2: memory"),
        ),
        (
            (host(0, **ended(0)),),
            ("failure", "PodDeleted", "the pod of a host was deleted before its workload had ended"),
        ),
    ],
)
def test_the_reason_is_that_of_the_host_that_failed_first(hosts: Any, reason: tuple[str, str, str]) -> None:
    assert summary(Hosts(job(FAILED), hosts)) == reason


def error(text: str, at: str) -> FirstError:
    return FirstError(datetime.fromisoformat(at), text)


def test_of_hosts_that_end_together_the_first_error_in_their_logs_decides() -> None:
    message = {"terminated": {**ended(1)["terminated"], "message": "SystemExit: 1"}}
    pods = (host(0, **ended(1)), host(1, **message), host(2, **ended(1, "2026-01-02T03:05:06Z")))
    errors = {
        0: error("ConnectionError: host 1 is gone", "2026-01-02T03:05:05.900Z"),
        1: error("RuntimeError: the chip is hot", "2026-01-02T03:05:05.100Z"),
        2: error("ConnectionError: host 1 is gone", "2026-01-02T03:05:06.200Z"),
    }
    assert summary(Hosts(job(FAILED), pods))[2] == "host 0 of 2", "without the logs, it is not known which was first"
    hosts = Hosts(job(FAILED), pods, errors=errors)
    assert summary(hosts) == ("failure", "ExitCode:1", "host 1 of 2: RuntimeError: the chip is hot")
    assert hosts.failed_first == 1


def test_a_host_that_was_killed_without_an_error_in_its_log_failed_before_those_that_miss_it() -> None:
    pods = (host(0, **ended(1)), host(1, **ended(137, reason="OOMKilled")))
    hosts = Hosts(job(FAILED), pods, errors={0: error("ConnectionError: gone", "2026-01-02T03:05:05.500Z")})
    assert summary(hosts) == ("failure", "OOMKilled", "host 1 of 2")


def test_an_error_that_a_host_survived_does_not_make_it_the_first() -> None:
    pods = (host(0, **ended(1)), host(1, **ended(1, "2026-01-02T03:05:08Z")))
    errors = {
        0: error("ValueError: loss is NaN", "2026-01-02T03:05:05.500Z"),
        1: error("ImportError: no such plugin", "2026-01-02T03:04:06Z"),
    }
    assert Hosts(job(FAILED), pods, errors=errors).failed_first == 0


def test_a_workload_without_failed_hosts_has_no_first_one() -> None:
    assert Hosts(job(COMPLETE), (host(0, **ended(0)),)).failed_first is None
    assert Hosts(job(), (host(0, **ended(0)), host(1, **RUNNING))).running_pod == "j-1"


def test_a_job_that_exceeded_its_deadline() -> None:
    failed = condition("Failed", "DeadlineExceeded", "was active longer")
    assert summary(Hosts(job(failed))) == ("timeout", "DeadlineExceeded", "was active longer")


def test_a_job_in_a_queue_was_missed_with_the_message_of_the_queue() -> None:
    event = {"type": "Normal", "reason": "Pending", "message": "no quota in tpu", "involvedObject": {"uid": "job-uid"}}
    queued = job(suspend=True)
    queued["metadata"]["labels"] = {QUEUE_LABEL: "tpu"}
    hosts = Hosts(queued, events=(event,))
    assert hosts.stage is Stage.QUEUED
    assert summary(hosts) == ("missed", "Queued", "not admitted by the queue tpu yet: no quota in tpu")
    assert hosts.waiting_since == datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def test_the_waiting_time_restarts_when_a_queue_evicts_a_job() -> None:
    hosts = Hosts(job(condition("Suspended"), suspend=True))
    assert hosts.waiting_since == datetime(2026, 1, 2, 3, 5, 5, tzinfo=UTC)


def test_a_workload_did_not_run_if_one_host_was_not_scheduled() -> None:
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    waiting = {**host(1), "status": {"conditions": [unschedulable]}}
    hosts = Hosts(job(startTime=STARTED), (host(0, **RUNNING), waiting))
    assert hosts.stage is Stage.STARTING
    assert summary(hosts) == ("missed", "Unschedulable", "host 1 of 2: 0/3 nodes")
    assert hosts.outcome().started_at is None
    assert hosts.waiting_since == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_pods_beyond_a_quota_are_reported_by_the_events_of_the_job() -> None:
    event = {
        "type": "Warning",
        "reason": "FailedCreate",
        "message": 'Error creating: pods "j-0-x" is forbidden: exceeded quota: small',
        "involvedObject": {"uid": "job-uid"},
    }
    status, reason, detail = summary(Hosts(job(), events=(event,)))
    assert (status, reason) == ("missed", "QuotaExceeded")
    assert "exceeded quota: small" in str(detail)


def test_running_hosts_are_interrupted_when_the_task_ends() -> None:
    hosts = Hosts(job(), (host(0, **RUNNING), host(1, **RUNNING)))
    assert hosts.stage is Stage.RUNNING
    assert summary(hosts)[:2] == ("failure", "Interrupted")


@pytest.mark.parametrize(
    ("reason", "hopeless"), [("ErrImagePull", True), ("InvalidImageName", True), ("ContainerCreating", False)]
)
def test_an_image_that_cannot_be_pulled_is_a_start_failure(reason: str, hopeless: bool) -> None:
    hosts = Hosts(job(), (host(0, **RUNNING), host(1, waiting={"reason": reason})))
    assert (hosts.start_failure is not None) is hopeless


def test_the_index_of_a_pod_is_in_an_annotation_or_label() -> None:
    assert index_of({"metadata": {"annotations": {INDEX: "7"}}}) == 7
    assert index_of({"metadata": {"labels": {INDEX: "3"}}}) == 3


SOON, LATER = datetime(2026, 1, 2, 3, 5, 20, tzinfo=UTC), datetime(2026, 1, 2, 3, 5, 40, tzinfo=UTC)


def beside_sidecar(number: int, **state: Any) -> dict[str, Any]:
    one = host(number, {"phase": "Running"}, **state)
    one["status"]["containerStatuses"].append({"name": "proxy", "state": RUNNING})
    return one


def test_hosts_whose_sidecars_do_not_end_have_succeeded_after_a_while() -> None:
    hosts = Hosts(job(), tuple(beside_sidecar(number, **ended(0)) for number in range(2)))
    assert (hosts.over(SOON), hosts.over(LATER)) == (False, True)
    assert summary(hosts) == ("success", None, "the workload has ended, unlike its sidecars: proxy")


def test_a_host_that_failed_beside_a_running_sidecar_ends_all() -> None:
    hosts = Hosts(job(), (host(0, **RUNNING), beside_sidecar(1, **ended(3))))
    assert (hosts.over(SOON), hosts.over(LATER)) == (False, True)
    assert summary(hosts) == ("failure", "ExitCode:3", "host 1 of 2")


def test_running_hosts_are_not_over_and_a_failed_pod_is_left_to_the_cluster() -> None:
    assert not Hosts(job(), (host(0, **ended(0)), host(1, **RUNNING))).over(LATER)
    assert not Hosts(job(), (host(0, {"phase": "Failed"}, **ended(3)), host(1, **RUNNING))).over(LATER), "restarts"
    assert Hosts(job(FAILED)).over(SOON)


def pod_event(reason: str, name: str, at: str, message: str) -> dict[str, Any]:
    about = {"kind": "Pod", "name": name, "uid": f"uid-of-{name}"}
    return {"reason": reason, "message": message, "firstTimestamp": at, "involvedObject": about}


def test_a_job_whose_pods_are_gone_has_the_reason_of_the_first_pod_that_the_cluster_ended() -> None:
    events = (
        pod_event("TaintManagerEviction", "j-0-x", "2026-01-02T03:05:09Z", "Marking for deletion"),
        pod_event("Preempted", "j-1-y", "2026-01-02T03:05:04Z", "Preempted by pod urgent on node n"),
        pod_event("Killing", "j-0-x", "2026-01-02T03:05:01Z", "Stopping container base"),
    )
    end = summary(Hosts(job(FAILED), events=events))
    assert end == ("failure", "Preempted", "pod j-1-y: Preempted by pod urgent on node n")
    assert summary(Hosts(job(FAILED), events=events[2:]))[1] == "PodDeleted"


def test_the_nodes_of_all_hosts_are_recorded() -> None:
    """Each once, and only if there are several: `node` is that of the first host."""
    workload = Hosts(job(COMPLETE), (host(1, **ended(0)), host(0, **ended(0)))).outcome()
    assert (workload.node, workload.nodes) == ("node-0", "node-0,node-1")
    assert Hosts(job(COMPLETE), (host(0, **ended(0)),)).outcome().nodes is None
