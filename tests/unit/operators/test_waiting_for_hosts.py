"""What the task of a workload on several hosts starts, waits for, records, saves and removes."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from kubernetes.client.exceptions import ApiException

from ml_metrics.airflow_versions import AirflowFailException, TaskDeferred
from ml_metrics.clusters.hosts import INDEX, Hosts
from ml_metrics.config.definition import TestDefinition
from ml_metrics.errors import ConfigError
from ml_metrics.logs.documents import lines_of, read_logs
from ml_metrics.model import JobStatus, Run, Workload
from ml_metrics.operators import cluster, host_logs, run_hosts
from ml_metrics.operators.attempts import TaskTimeoutError, end_is_known, mark_attempt_created, start_attempt
from ml_metrics.operators.run_hosts import RunHosts
from ml_metrics.run_folder import RunFolder

NOW = datetime.now(UTC)
RUN = Run("t", "t", "r", "local")
FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
COMPLETE = {"type": "Complete", "status": "True"}


def pod(host: int, exit_code: int | None = None, *, waits: str = "", ended: int = 0) -> dict[str, Any]:
    """A host that runs, has ended some seconds ago, or waits for a reason."""
    at, end = (NOW - timedelta(minutes=5)).isoformat(), (NOW - timedelta(seconds=60 - ended)).isoformat()
    state: dict[str, Any] = {"running": {"startedAt": at}}
    if exit_code is not None:
        state = {"terminated": {"exitCode": exit_code, "startedAt": at, "finishedAt": end}}
    if waits:
        state = {"waiting": {"reason": waits}}
    phase = "Pending" if waits else "Running" if exit_code is None else "Failed" if exit_code else "Succeeded"
    return {
        "metadata": {"name": f"p{host}", "uid": f"u{host}", "annotations": {INDEX: str(host)}},
        "spec": {"containers": [{"name": "base"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "base", "state": state}]},
    }


def hosts(*pods: dict[str, Any], condition: dict[str, str] | None = None, since: float = 0.0) -> Hosts:
    """The state of a Job of two hosts, which was created some minutes ago."""
    metadata = {"name": "j", "uid": "j", "creationTimestamp": (NOW - timedelta(minutes=since)).isoformat()}
    conditions = [condition] if condition else []
    return Hosts({"metadata": metadata, "spec": {"completions": 2}, "status": {"conditions": conditions}}, pods)


RUNNING = hosts(pod(0), pod(1))
SUCCEEDED = hosts(pod(0, 0), pod(1, 0), condition=COMPLETE)
BROKEN = hosts(pod(0, 1, ended=20), pod(1, 3), condition=FAILED)
STARTING = hosts(pod(0))


class Cluster:
    """The objects of a run in a cluster that is asked again and again; the last answer stays."""

    def __init__(self) -> None:
        self.answers: list[Hosts | Exception] = [SUCCEEDED]
        self.done: list[str] = []
        self.read = set[str]()
        self.job: Any = None
        self.refuses: dict[str, Exception] = {}

    def _do(self, what: str) -> None:
        self.done.append(what)
        if error := self.refuses.get(what.partition(" ")[0]):
            raise error

    def newest_job(self) -> Any:
        return self.job

    def remove_all(self) -> None:
        self._do("remove")

    def create_service(self, test: TestDefinition, name: str) -> None:
        self._do(f"service {test.name} {name}")

    def adopt_service(self, name: str) -> None:
        self._do(f"adopt {name}")

    def read_hosts(self, name: str, *, with_events: bool = False) -> Hosts:
        del with_events
        self.read.add(name)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Process:
    """A process of the task, whose Job gets the name `job-NAME`."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
        monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path))
        monkeypatch.setattr(run_hosts, "POLL_SECONDS", 0.0)
        monkeypatch.setattr(host_logs, "RETRY_SECONDS", 0.001)
        monkeypatch.setattr(cluster, "SETTLING", timedelta())
        self.folder, self.cluster = RunFolder(str(tmp_path / "run")), Cluster()
        for module in ("run_hosts", "workload_base"):
            monkeypatch.setattr(f"ml_metrics.operators.{module}.folder_of", lambda *_: self.folder)
            monkeypatch.setattr(f"ml_metrics.operators.{module}.run_of", lambda test, _: replace(RUN, test=test))
        content = {"name": "t", "image": "i", "command": ["x"], "hosts": 2, "namespace": "ns", "retries": 1}
        test = TestDefinition.model_validate({**content, "startup_timeout": "1h", **more})
        made: Any = RunHosts(task_id="run_workload", test=test, kubernetes_conn_id=None)
        made._objects = lambda: self.cluster
        made.use_cluster, made.write_identity = lambda: None, lambda _: self.cluster.done.append("identity")
        made.build_job_request_obj = lambda _: SimpleNamespace(
            metadata=SimpleNamespace(name=f"job-{made.name}", namespace="ns")
        )
        made.create_job = lambda request: self.cluster._do(f"job {request.metadata.name}")
        self.logs: dict[str, list[bytes]] = {}
        made._open_log = lambda name: self.logs.get(name, [])
        made.open_tail = lambda name, log: [f"{log.container} of {name}\n".encode()]
        made.wait_until_reachable = lambda: False
        self.task = made
        self.pushed: dict[str, str] = {}

    def context(self, started: datetime = NOW) -> Any:
        states = {"r": {"run_workload": "running"}}
        ti = SimpleNamespace(
            log_url="", start_date=started, max_tries=3, try_number=1, dag_id="t", run_id="r", task_id="run_workload",
            xcom_push=lambda key, value: self.pushed.update({key: value}), get_task_states=lambda **_: states,
        )  # fmt: skip
        return {"ti": ti, "dag_run": SimpleNamespace(start_date=NOW, run_after=NOW)}

    def execute(self, *answers: Hosts | Exception, started: datetime = NOW) -> Workload:
        """Execute the task while the cluster answers this, and return what it has recorded."""
        self.cluster.answers = list(answers) or self.cluster.answers
        self.task.execute(self.context(started))
        return self.recorded

    @property
    def recorded(self) -> Workload:
        found = self.folder.read_workload()
        assert found is not None
        return found


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
    assert process.execute(hosts(pod(0), since=59), SUCCEEDED).status is JobStatus.SUCCESS


def test_hosts_that_run_are_not_held_to_the_time_for_their_start(process: Process) -> None:
    late = hosts(pod(0), pod(1), since=600)
    assert process.execute(late, SUCCEEDED).status is JobStatus.SUCCESS


def test_a_task_waits_no_longer_than_its_test_may_take(process: Process) -> None:
    long_ago = NOW - process.task.max_duration
    assert process.execute(RUNNING, SUCCEEDED, started=long_ago + timedelta(minutes=1)).status is JobStatus.SUCCESS


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
        process.execute(ApiException(status=422), RUNNING)
    assert process.cluster.done == [*STARTS, "remove"]


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
