"""What the task of a workload on several hosts starts, waits for, records, saves and removes."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from kubernetes.client.exceptions import ApiException

from ml_metrics import ConfigError
from ml_metrics.airflow.clusters.outcome import Hosts
from ml_metrics.airflow.operators.attempts import (
    TaskTimeoutError,
    end_is_known,
    mark_attempt_created,
    start_attempt,
    unknown_end,
)
from ml_metrics.airflow.operators.run_hosts import RunHosts
from ml_metrics.airflow.versions import AirflowFailException, TaskDeferred
from ml_metrics.core.model import JobStatus
from ml_metrics.measure import lines_of, read_logs
from unit.airflow.operators.waiting_hosts import (
    BROKEN,
    FAILED,
    NOW,
    RUN,
    RUNNING,
    STARTING,
    SUCCEEDED,
    Process,
    hosts,
    pod,
)


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(tmp_path, monkeypatch)


NAME = f"job-t-{RUN.key[:8]}-1"
STARTS = ["identity", "remove", f"service t {NAME}", f"job {NAME}", f"adopt {NAME}"]


def test_a_job_that_succeeds_is_recorded_and_removed(process: Process) -> None:
    end = process.execute(STARTING, RUNNING, SUCCEEDED)
    assert (end.status, end.failure_reason, end.attempts) == ("success", None, 1)
    assert process.cluster.read == {NAME}
    assert process.cluster.done == [*STARTS, "remove"]
    assert process.pushed == {"job_name": NAME, "job_namespace": "ns"}
    assert (process.folder.read("attempts") or {})["created"] == 1


def test_a_task_does_not_wait_in_the_triggerer_for_hosts_that_have_all_ended(process: Process) -> None:
    process.task.deferrable = True
    assert process.execute(hosts(pod(0, 0), pod(1, 0)), SUCCEEDED).status == "success"


def test_a_job_that_fails_states_why_and_is_removed(process: Process) -> None:
    with pytest.raises(AirflowException, match=r"^ExitCode:3: .*1") as raised:
        process.execute(RUNNING, BROKEN)
    assert not isinstance(raised.value, AirflowFailException), "the test may be tried again"
    assert (process.recorded.status, process.recorded.failure_reason) == ("failure", "ExitCode:3")
    assert process.cluster.done == [*STARTS, "remove"]


@pytest.mark.parametrize(
    ("answers", "message", "reason"),
    [
        ([RUNNING, ApiException(status=404)], "the Job was deleted before its workload had ended", "JobDeleted"),
        ([hosts(pod(0), pod(1, waits="ErrImagePull"))], "^the hosts cannot start: host 1 of 2", "ErrImagePull"),
        ([hosts(pod(0), since=60.1)], "the hosts are still starting after 1:00:00", "StartupTimeout"),
    ],
)
def test_waiting_that_is_useless_ends(process: Process, answers: list[Any], message: str, reason: str) -> None:
    with pytest.raises(AirflowException, match=message):
        process.execute(*answers)
    assert process.recorded.failure_reason == reason
    assert end_is_known(process.recorded)
    assert process.cluster.done == [*STARTS, "remove"]


def test_hosts_have_the_whole_time_of_the_test_to_start(process: Process) -> None:
    assert process.execute(hosts(pod(0), since=30), SUCCEEDED).status is JobStatus.SUCCESS


def test_hosts_that_run_are_not_held_to_the_time_for_their_start(process: Process) -> None:
    late = hosts(pod(0), pod(1), since=600)
    assert process.execute(late, SUCCEEDED).status is JobStatus.SUCCESS


def test_a_task_waits_no_longer_than_its_test_may_take(process: Process) -> None:
    long_ago = NOW - process.task.max_duration
    assert process.execute(RUNNING, SUCCEEDED, started=long_ago + timedelta(minutes=30)).status is JobStatus.SUCCESS


def test_a_task_that_waited_too_long_ends_its_workload(process: Process) -> None:
    with pytest.raises(TaskTimeoutError, match="the task ran too long"):
        process.execute(RUNNING, started=NOW - process.task.max_duration - timedelta(seconds=1))
    assert (process.recorded.status, process.recorded.failure_reason) == ("timeout", "ExecutionTimeout")
    assert process.cluster.done[-1] == "remove"


def test_an_end_counts_however_late_it_is_seen(process: Process) -> None:
    assert process.execute(SUCCEEDED, started=NOW - timedelta(days=365)).status is JobStatus.SUCCESS


@pytest.mark.parametrize("status", [503, 401])
def test_a_cluster_that_does_not_answer_keeps_its_workload(process: Process, status: int) -> None:
    with pytest.raises(ApiException):
        process.execute(RUNNING, ApiException(status=status))
    assert not end_is_known(process.recorded), "the next try takes it over"
    assert process.cluster.done == STARTS


def test_a_cluster_that_refuses_for_good_loses_its_workload(process: Process) -> None:
    with pytest.raises(ApiException):
        process.execute(hosts(pod(0, sidecar="proxy"), pod(1)), ApiException(status=422), RUNNING)
    assert process.cluster.done == [*STARTS, "remove"]
    assert [log.saved for log in read_logs(process.folder) if log.container == "proxy"] == [True], "before it is gone"


@pytest.mark.parametrize("created", [True, False])
def test_a_task_that_is_ended_takes_its_job_along(process: Process, created: bool) -> None:
    process.cluster.answers = [RUNNING]
    process.task.created = created
    process.task.pending = unknown_end(1, "i")
    object.__setattr__(process.task.pending, "pod", "job-t")
    process.task.end_workload()
    assert process.cluster.done == (["remove"] if created else [])
    assert (process.task.observed is not None) is created, "its last state is read before"


@pytest.mark.parametrize("state", [RUNNING, STARTING])
def test_a_workload_that_the_triggerer_watches_is_left_as_it_is(process: Process, state: Hosts) -> None:
    process.task.deferrable = True
    process.task.invoke_defer_method = lambda context: process.task.defer(trigger=context, method_name="x")
    with pytest.raises(TaskDeferred):
        process.execute(state)
    assert not end_is_known(process.recorded)
    assert (process.cluster.done, list(read_logs(process.folder))) == (STARTS, [])


@pytest.mark.parametrize(("status", "is_error"), [(503, False), (401, False), (403, True)])
def test_a_job_that_cannot_be_removed_now_is_removed_by_the_cluster(
    process: Process, status: int, is_error: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    process.task._start = lambda context: (RunHosts._start(process.task, context), refuse())

    def refuse() -> None:
        process.cluster.refuses["remove"] = ApiException(status=status)

    with pytest.raises(ApiException) if is_error else nullcontext():
        process.execute()
    assert process.recorded.status is JobStatus.SUCCESS
    assert (
        "the Job could not be removed; the cluster removes it after its time to live" in capsys.readouterr().out
    ) != is_error


@pytest.mark.parametrize(
    ("what", "error", "created", "marked"),
    [
        ("service", ApiException(status=403), False, 0),
        ("job", ApiException(status=422), False, 0),
        ("job", ApiException(status=503), True, 0),
        ("adopt", ApiException(status=503), True, 1),
        ("adopt", ConfigError("no Indexed Jobs"), True, 1),
    ],
)
def test_a_request_that_failed_may_have_created_the_job(
    process: Process, what: str, error: Exception, created: bool, marked: int
) -> None:
    process.cluster.refuses[what] = error
    with pytest.raises(AirflowFailException if isinstance(error, ConfigError) else ApiException):
        process.execute()
    assert process.task.created is created
    assert (process.folder.read("attempts") or {})["created"] == marked
    passes = isinstance(error, ApiException) and error.status == 503
    assert (process.cluster.done.count("remove") == 2) == (created and not passes)


@pytest.mark.parametrize(
    ("test", "name"), [("x" * 40, "x" * 36), ("x" * 34 + "-" + "y" * 9, "x" * 34 + "-y"), ("x" * 35 + "-yy", "x" * 35)]
)
def test_the_name_of_a_job_is_that_of_its_test_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str, name: str
) -> None:
    process = Process(tmp_path, monkeypatch, name=test)
    process.execute()
    assert process.pushed["job_name"] == f"job-{name}-{replace(RUN, test=test).key[:8]}-1"


@pytest.mark.parametrize(
    ("job", "reason", "starts"),
    [("job", "WorkerLost", False), ("job", "ExitCode:3", True), ("job", None, True), (None, "WorkerLost", False)],
)
def test_a_job_whose_end_nobody_has_recorded_is_taken_over(
    process: Process, job: Any, reason: str | None, starts: bool
) -> None:
    process.cluster.job = job
    if reason is not None:
        pending = start_attempt(process.folder, process.context()["ti"], "i")
        mark_attempt_created(process.folder, pending)
        process.folder.write_workload(replace(pending, failure_reason=reason, pod="job-earlier", namespace="ns"))
    end = process.execute()
    number = 2 if reason == "ExitCode:3" else 1
    assert end.attempts == number
    assert process.cluster.read == {f"{NAME[:-1]}{number}" if starts else "job-earlier"}
    assert len(process.cluster.done) == len(STARTS if starts else ["identity"]) + 1


def test_the_logs_of_all_hosts_are_saved_that_of_the_first_to_fail_at_first(process: Process) -> None:
    stamp = (NOW - timedelta(seconds=61)).isoformat().encode()
    process.logs = {"p0": [stamp + b" all is well\n"], "p1": [stamp + b" ValueError: of host 1\n"]}
    with pytest.raises(AirflowException):
        process.execute(BROKEN)
    logs = read_logs(process.folder)
    assert [(log.host, log.saved, log.error, log.note) for log in logs] == [
        (1, True, "ValueError: of host 1", ""),
        (0, True, "", ""),
    ]
    assert [lines_of(process.folder, log) for log in logs] == [("ValueError: of host 1",), ("all is well",)]


def test_of_hosts_that_end_together_the_one_whose_log_has_the_first_error_is_recorded(process: Process) -> None:
    first, second = ((NOW - timedelta(seconds=seconds)).isoformat().encode() for seconds in (62, 60))
    process.logs = {"p0": [first + b" ValueError: of host 0\n"], "p1": [second + b" ConnectionError: of host 1\n"]}
    with pytest.raises(AirflowException, match=r"^ExitCode:1: .*0"):
        process.execute(hosts(pod(0, 1, ended=2), pod(1, 3), condition=FAILED))
    assert process.recorded.failure_reason == "ExitCode:1"


def test_a_host_whose_pod_the_cluster_has_removed_is_listed(process: Process) -> None:
    with pytest.raises(AirflowException):
        process.execute(hosts(pod(1, 3), condition=FAILED))
    assert [(log.host, log.saved, log.note) for log in read_logs(process.folder)] == [
        (1, True, ""),
        (0, False, "the cluster has removed its pod"),
    ]


def test_a_job_without_pods_has_no_logs_and_says_so(process: Process) -> None:
    with pytest.raises(AirflowException):
        process.execute(hosts(condition=FAILED))
    (log,) = read_logs(process.folder)
    assert (log.attempt, log.container, log.note) == (1, "base", "no pod exists whose logs could be read")


def test_the_task_log_shows_no_secret_of_the_first_host(process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    first = pod(0)
    first["spec"]["containers"][0]["env"] = [{"name": "API_KEY", "value": "literal-key"}]
    process.logs = {"p0": [b"2026-01-02T03:04:05Z the key is literal-key\n"]}
    process.execute(hosts(first, pod(1)), SUCCEEDED)
    shown = capsys.readouterr().out
    assert "the key is ***" in shown
    assert "literal-key" not in shown
