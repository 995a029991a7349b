from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import MaxRetryError

from ml_metrics.errors import ClusterError, ConfigError
from ml_metrics.model import JobStatus, Workload
from ml_metrics.operators.workload_end import end_of, unknown_end

BEGUN = unknown_end(3, "img:1")
RAN = Workload(status=JobStatus.FAILURE, failure_reason="Interrupted", started_at=datetime(2026, 1, 1, tzinfo=UTC))
WAITED = Workload(status=JobStatus.MISSED, failure_reason="Unschedulable")


def test_until_the_end_is_known_the_worker_counts_as_lost() -> None:
    assert (BEGUN.status, BEGUN.failure_reason, BEGUN.attempts) == ("failure", "WorkerLost", 3)


def test_what_the_cluster_says_stands() -> None:
    seen = Workload(status=JobStatus.FAILURE, failure_reason="OOMKilled", ended_at=datetime(2026, 1, 2, tzinfo=UTC))
    assert end_of(seen, AirflowException("pod failed"), BEGUN) == replace(seen, attempts=3)


@pytest.mark.parametrize(("seen", "status"), [(RAN, "timeout"), (WAITED, "missed")])
def test_a_task_that_ran_out_of_time_says_so(seen: Workload, status: str) -> None:
    end = end_of(seen, AirflowTaskTimeout("too long"), BEGUN)
    assert (end.status, end.failure_reason) == (status, "ExecutionTimeout")
    assert end.ended_at is not None


def test_a_workload_that_ended_well_in_the_last_second_did() -> None:
    seen = Workload(status=JobStatus.SUCCESS)
    assert end_of(seen, AirflowTaskTimeout("too long"), BEGUN).status is JobStatus.SUCCESS


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (None, "success", None),
        (ApiException(status=422), "missed", "PodRejected"),
        (ApiException(status=403), "missed", "PodRejected"),
        (ApiException(status=503), "missed", "ClusterUnreachable"),
        (MaxRetryError(None, "/api"), "missed", "ClusterUnreachable"),
        (ConnectionRefusedError(), "missed", "ClusterUnreachable"),
        (ClusterError("no server"), "missed", "Cluster"),
        (ConfigError("hosts"), "missed", "Config"),
        (AirflowException("pod not found"), "failure", "PodDeleted"),
    ],
)
def test_without_a_pod_the_error_tells(error: Exception | None, status: str, reason: str | None) -> None:
    end = end_of(None, error, BEGUN)
    assert (end.status, end.failure_reason, end.attempts) == (status, reason, 3)


def test_a_long_error_is_cut() -> None:
    assert len(end_of(None, AirflowException("x" * 10_000), BEGUN).detail or "") == 500
