from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import MaxRetryError

from ml_metrics.errors import ClusterError, ConfigError
from ml_metrics.model import JobStatus, Workload
from ml_metrics.operators.workload_end import TaskStoppedError, TaskTimeoutError, end_is_known, end_of, unknown_end

PENDING = unknown_end(3, "img:1")
STARTED = datetime(2026, 1, 1, tzinfo=UTC)
RAN = Workload(status=JobStatus.FAILURE, failure_reason="Interrupted", started_at=STARTED)
WAITED = Workload(status=JobStatus.MISSED, failure_reason="Unschedulable")


def refusal(status: int, message: str = "no") -> ApiException:
    error = ApiException(status=status)
    error.body = json.dumps({"kind": "Status", "message": message})
    return error


def test_until_the_end_is_known_the_worker_counts_as_lost() -> None:
    assert (PENDING.status, PENDING.failure_reason, PENDING.attempts) == ("failure", "WorkerLost", 3)


def test_the_state_in_the_cluster_takes_precedence() -> None:
    observed = Workload(status=JobStatus.FAILURE, failure_reason="OOMKilled", ended_at=datetime(2026, 1, 2, tzinfo=UTC))
    end = end_of(observed, AirflowException("pod failed"), PENDING, created=True)
    assert end == replace(observed, attempts=3, queued_at=PENDING.queued_at)


@pytest.mark.parametrize("error", [AirflowTaskTimeout("too long"), TaskTimeoutError("too long")])
def test_a_task_that_timed_out(error: BaseException) -> None:
    end = end_of(RAN, error, PENDING, created=True)
    assert (end.status, end.failure_reason) == ("timeout", "ExecutionTimeout")
    assert end.ended_at is not None


def test_a_workload_that_never_started_keeps_its_reason_on_timeout() -> None:
    end = end_of(WAITED, AirflowTaskTimeout("too long"), PENDING, created=True)
    assert (end.status, end.failure_reason) == ("missed", "Unschedulable")


@pytest.mark.parametrize("error", [AirflowTaskTimeout("too long"), TaskStoppedError("by hand")])
def test_a_workload_that_succeeded_at_the_timeout_is_a_success(error: BaseException) -> None:
    assert end_of(Workload(status=JobStatus.SUCCESS), error, PENDING, created=True).status is JobStatus.SUCCESS


def test_a_workload_that_was_stopped_by_hand() -> None:
    end = end_of(RAN, TaskStoppedError("the task was ended from outside"), PENDING, created=True)
    assert (end.status, end.failure_reason, end.detail) == ("failure", "Killed", "the task was ended from outside")


def test_a_config_error_takes_precedence_over_the_state() -> None:
    end = end_of(WAITED, ConfigError("no Indexed Jobs here"), PENDING, created=True)
    assert (end.status, end.failure_reason, end.detail) == ("missed", "Config", "no Indexed Jobs here")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (refusal(422), "PodRejected"),
        (refusal(403), "PodRejected"),
        (refusal(404), "PodRejected"),
        (refusal(403, "pods is forbidden: exceeded quota: small, requested: cpu=2"), "QuotaExceeded"),
        (refusal(503), "ClusterUnreachable"),
        (MaxRetryError(None, "/api"), "ClusterUnreachable"),
        (ConnectionRefusedError(), "ClusterUnreachable"),
        (ClusterError("no server"), "Cluster"),
        (ConfigError("hosts"), "Config"),
        (TaskStoppedError("by hand"), "Killed"),
        (AirflowException("something"), "AirflowException"),
    ],
)
def test_a_workload_that_was_never_created_was_missed(error: Exception, reason: str) -> None:
    end = end_of(None, error, PENDING)
    assert (end.status, end.failure_reason, end.attempts) == ("missed", reason, 3)
    assert end_is_known(end)


@pytest.mark.parametrize(
    ("error", "status", "reason", "known"),
    [
        (None, "success", None, True),
        (refusal(503), "failure", "ClusterUnreachable", False),
        (MaxRetryError(None, "/api"), "failure", "ClusterUnreachable", False),
        (AirflowTaskTimeout("too long"), "timeout", "ExecutionTimeout", True),
        (TaskStoppedError("by hand"), "failure", "Killed", True),
    ],
)
def test_a_created_workload_is_never_reported_as_missed(
    error: BaseException | None, status: str, reason: str | None, known: bool
) -> None:
    end = end_of(None, error, PENDING, created=True)
    assert (end.status, end.failure_reason) == (status, reason)
    assert end_is_known(end) is known


def test_messages_of_the_api_server_have_no_headers() -> None:
    assert end_of(None, refusal(403, "pods is forbidden"), PENDING).detail == "pods is forbidden"


def test_a_long_error_is_cut() -> None:
    assert len(end_of(None, AirflowException("x" * 10_000), PENDING).detail or "") == 500
