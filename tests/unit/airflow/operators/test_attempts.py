from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import MaxRetryError

from ml_metrics import ConfigError
from ml_metrics.airflow.operators.attempts import (
    TaskStoppedError,
    TaskTimeoutError,
    end_is_known,
    end_of,
    end_of_round,
    end_without_attempt,
    is_missing,
    mark_attempt_created,
    retries_left,
    start_attempt,
    unknown_end,
)
from ml_metrics.airflow.operators.run import RUN_KEY
from ml_metrics.airflow.versions import AirflowTaskTimeout
from ml_metrics.core.errors import ClusterError
from ml_metrics.core.model import JobStatus, Workload
from ml_metrics.measure.efficiency import prices
from ml_metrics.store.run_folder import RunFolder


def begin(folder: RunFolder, max_tries: int) -> Workload:
    """An attempt whose pod the cluster accepted."""
    pending = start_attempt(folder, task(max_tries), "img")
    mark_attempt_created(folder, pending)
    return pending


def task(max_tries: int) -> Any:
    return SimpleNamespace(max_tries=max_tries)


def test_a_workload_is_started_as_often_as_configured(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    first = begin(folder, 4)
    assert retries_left(folder, first, 1)
    second = begin(folder, 4)
    assert (first.attempts, second.attempts) == (1, 2)
    assert not retries_left(folder, second, 1)


def test_clearing_the_task_grants_all_retries_again(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    begin(folder, 4)
    begin(folder, 4)
    third = begin(folder, 7)
    assert third.attempts == 3
    assert retries_left(folder, third, 1)


def test_without_retries_there_is_one_attempt(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    assert not retries_left(folder, begin(folder, 3), 0)


def test_an_attempt_that_was_never_created_is_not_counted(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    assert [start_attempt(folder, task(3), "img").attempts for _ in range(3)] == [1, 1, 1]
    rejected = start_attempt(folder, task(6), "img")
    assert rejected.attempts == 2, "a person cleared the task"
    folder.write_workload(end_of(None, refusal(422), rejected))
    assert start_attempt(folder, task(6), "img").attempts == 3, "its end is known: the cluster rejected it"


def test_what_the_cluster_accepted_and_no_longer_has_was_deleted(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    assert not is_missing(folder, task(3)), "nothing was started"
    folder.write("attempts", {"round": 3, "first_attempt": 1, "created": 1})
    assert not is_missing(folder, task(3)), "what was started is not recorded"
    folder.remove("attempts")
    pending = start_attempt(folder, task(3), "img")
    assert not is_missing(folder, task(3)), "the worker may have died before it created the pod"
    mark_attempt_created(folder, pending)
    assert is_missing(folder, task(3))
    assert not is_missing(folder, task(6)), "a person cleared the task, and wants another attempt"
    folder.write_workload(replace(pending, failure_reason="ExitCode:1"))
    assert not is_missing(folder, task(3)), "the end is known, and the retry has a pod of its own"
    start_attempt(folder, task(3), "img")
    assert not is_missing(folder, task(3)), "the pod of the retry was not created yet"


@pytest.mark.parametrize(
    ("status", "reason", "retries", "is_final"),
    [
        (JobStatus.SUCCESS, None, 1, True),
        (JobStatus.FAILURE, "OOMKilled", 0, True),
        (JobStatus.FAILURE, "OOMKilled", 1, False),
        (JobStatus.FAILURE, "WorkerLost", 0, False),
        (JobStatus.FAILURE, "ClusterUnreachable", 0, False),
        (JobStatus.MISSED, "ClusterUnreachable", 0, True),
    ],
)
def test_a_recorded_end_is_final(
    tmp_path: Path, status: JobStatus, reason: str | None, retries: int, is_final: bool
) -> None:
    folder = RunFolder(str(tmp_path))
    pending = begin(folder, 3)
    folder.write_workload(replace(pending, status=status, failure_reason=reason))
    assert (end_of_round(folder, task(3), retries) is not None) is is_final
    assert end_of_round(folder, task(6), retries) is None, "a person cleared the task"


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
    assert (PENDING.generation, PENDING.image) == (1, "img:1")


@pytest.mark.parametrize("observed", [None, RAN])
@pytest.mark.parametrize("error", [None, TaskStoppedError("stopped"), OSError("no route")])
def test_every_end_is_that_of_the_generation_that_began(observed: Workload | None, error: Exception | None) -> None:
    pending = replace(PENDING, generation=2)
    assert end_of(observed, error, pending, created=True).generation == 2


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
    succeeded = Workload(JobStatus.SUCCESS, queued_at=STARTED, started_at=STARTED, ended_at=STARTED.replace(hour=1))
    assert end_of(succeeded, error, PENDING, created=True) == replace(succeeded, attempts=3)


def test_a_workload_that_was_stopped_by_hand() -> None:
    end = end_of(RAN, TaskStoppedError("the task was ended from outside"), PENDING, created=True)
    assert (end.status, end.failure_reason, end.detail) == ("failure", "Killed", "the task was ended from outside")


def test_a_config_error_takes_precedence_over_the_state() -> None:
    end = end_of(WAITED, ConfigError("no Indexed Jobs here"), PENDING, created=True)
    assert (end.status, end.failure_reason, end.detail) == ("missed", "Config", "no Indexed Jobs here")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        *((refusal(status), "PodRejected") for status in (400, 403, 404, 409, 413, 422)),
        *((refusal(status), "ApiException") for status in (401, 405, 410)),
        (refusal(403, "pods is forbidden: exceeded quota: small, requested: cpu=2"), "QuotaExceeded"),
        (refusal(503), "ClusterUnreachable"),
        (MaxRetryError(None, "/api"), "ClusterUnreachable"),
        (ConnectionRefusedError(), "ClusterUnreachable"),
        (OSError("no route to host"), "ClusterUnreachable"),
        (ClusterError("no server"), "ClusterUnavailable"),
        (ConfigException("No configuration found"), "ClusterUnavailable"),
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
        (refusal(401), "failure", "ClusterUnreachable", False),
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


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('{"message": "pods is forbidden"}', "pods is forbidden"),
        ("no JSON", "(403)\nReason: None\nHTTP response body: no JSON\n"),
        ('["of a proxy"]', '(403)\nReason: None\nHTTP response body: ["of a proxy"]\n'),
        ('{"message": ""}', '(403)\nReason: None\nHTTP response body: {"message": ""}\n'),
        (None, "(403)\nReason: None\n"),
    ],
)
def test_messages_of_the_api_server_have_no_headers(body: str | None, told: str) -> None:
    error = ApiException(status=403)
    error.body = body
    assert end_of(None, error, PENDING).detail == told


@pytest.mark.parametrize("error", [AirflowException("x" * 10_000), refusal(500, "x" * 10_000)])
@pytest.mark.parametrize("created", [True, False])
def test_a_long_error_is_cut(error: Exception, created: bool) -> None:
    assert end_of(None, error, PENDING, created=created).detail == "x" * 500


def test_where_no_kubeconfig_is_found_it_is_said_what_to_check() -> None:
    end = end_of(None, ConfigException("x" * 600), PENDING)
    assert (end.detail or "").startswith("no kubeconfig was found: check the Kubernetes connection and KUBECONFIG (xx")
    assert len(end.detail or "") == 500


def test_what_the_cluster_knows_of_the_beginning_counts() -> None:
    queued = datetime(2025, 12, 31, tzinfo=UTC)
    assert end_of(replace(RAN, queued_at=queued), None, PENDING, created=True).queued_at == queued
    assert end_of(RAN, None, PENDING, created=True).queued_at == PENDING.queued_at


@pytest.mark.parametrize("error", [None, ClusterError("no server")])
def test_a_workload_that_was_not_observed_keeps_what_was_recorded_of_it(error: Exception | None) -> None:
    pending = replace(PENDING, namespace="ns", pod="p", earlier=((STARTED, None),))
    end = end_of(None, error, pending, created=True)
    now = replace(end, status=pending.status, failure_reason=pending.failure_reason, detail=pending.detail)
    assert replace(now, ended_at=None) == pending
    assert end.detail == (None if error is None else "no server")
    assert end.ended_at is not None


def test_documents_of_an_older_version_do_not_say_whether_the_cluster_accepted_an_attempt(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    folder.write("attempts", {"round": 3, "first_attempt": 1})
    folder.write_workload(unknown_end(1, "img"))
    assert not is_missing(folder, task(3))
    assert start_attempt(folder, task(3), "img").attempts == 1, "it may not have been created"


def test_an_attempt_without_a_document_is_the_first_of_its_round(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    assert retries_left(folder, unknown_end(7, "img"), 1)
    assert not retries_left(folder, unknown_end(7, "img"), 0)
    folder.write_workload(unknown_end(7, "img"))
    assert not is_missing(folder, task(3))
    assert end_of_round(folder, task(3), 1) is None
    mark_attempt_created(folder, unknown_end(7, "img"))
    assert folder.read("attempts") == {"created": 7}


def test_an_attempt_that_is_begun_again_had_held_nothing(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    ran = Workload(JobStatus.FAILURE, "Error", started_at=STARTED, ended_at=STARTED.replace(hour=1))
    folder.write_workload(end_of(ran, None, begin(folder, 4), created=True))
    for _ in range(3):
        again = start_attempt(folder, task(4), "img")
        assert (again.attempts, again.earlier) == (2, ((STARTED, STARTED.replace(hour=1)),))


def test_an_attempt_whose_end_is_unknown_may_still_hold_its_chips(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    begun = begin(folder, 4)
    left = replace(begun, started_at=STARTED, ended_at=STARTED.replace(hour=1), failure_reason="ClusterUnreachable")
    folder.write_workload(left)
    assert start_attempt(folder, task(4), "img").earlier == ((STARTED, None),)


def test_the_times_of_earlier_attempts_are_kept(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    times = [(at.replace(hour=hour), at.replace(hour=hour, minute=30)) for hour in range(3)]
    for start, end in times:
        pending = begin(folder, 4)
        failed = Workload(JobStatus.FAILURE, "Error", started_at=start, ended_at=end)
        folder.write_workload(end_of(failed, None, pending, created=True))
    begin(folder, 7)  # cleared
    assert folder.read_workload().earlier == tuple(times)
    folder.write_workload(end_of(Workload(JobStatus.SUCCESS), None, folder.read_workload(), created=True))
    assert folder.read_workload().earlier == tuple(times)


def test_an_attempt_that_never_ran_held_nothing_and_one_of_unknown_end_is_kept_as_such(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    pending = begin(folder, 4)
    folder.write_workload(end_of(None, ApiException(403), pending))
    assert begin(folder, 4).earlier == ()
    begun = folder.read_workload()
    assert begin(folder, 4).earlier == ((begun.queued_at, None),)


def test_a_run_that_could_not_start_its_next_attempt_has_as_many_as_it_had(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    assert end_without_attempt(folder, "img").attempts == 1, "a run has at least one"
    for number in (1, 2):
        begin(folder, 4)
        assert end_without_attempt(folder, "img").attempts == number


def test_a_cluster_that_rejects_the_next_attempt_loses_no_earlier_time(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    ran = Workload(JobStatus.FAILURE, "Error", started_at=at, ended_at=at.replace(hour=1))
    folder.write_workload(end_of(ran, None, begin(folder, 4), created=True))
    for _ in range(2):
        folder.write_workload(end_of(None, ConfigError("bad"), end_without_attempt(folder, "img")))
    assert folder.read_workload().earlier == ((at, at.replace(hour=1)),)


def test_bills_are_read_by_the_label_of_the_pods() -> None:
    assert RUN_KEY in prices.OF_RUNS
