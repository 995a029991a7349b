"""What the task of a workload starts, waits for, records, saves and removes: of a pod, or of several hosts."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk.exceptions import AirflowException
from kubernetes.client.exceptions import ApiException

from ml_metrics import ConfigError, TestDefinition
from ml_metrics.airflow.clusters.outcome import Hosts, OnePod, Stage
from ml_metrics.airflow.operators import run_workload
from ml_metrics.airflow.operators.attempts import (
    TaskTimeoutError,
    end_is_known,
    mark_attempt_created,
    start_attempt,
    times_of,
    unknown_end,
)
from ml_metrics.airflow.operators.chosen_operator import workload_operator
from ml_metrics.airflow.operators.gke import RunWorkloadOnGke
from ml_metrics.airflow.operators.objects import JobObjects, JobSetObjects, PodObjects
from ml_metrics.airflow.operators.run_workload import FIRST_CHECK, LAST_CHECK
from ml_metrics.airflow.versions import AirflowFailException, TaskDeferred
from ml_metrics.core.errors import StorageError
from ml_metrics.core.model import JobStatus
from ml_metrics.measure import lines_of, read_logs
from unit.airflow.operators.running import (
    BROKEN,
    FAILED,
    NOW,
    RUN,
    RUNNING,
    STARTING,
    SUCCEEDED,
    Process,
    hosts,
    one,
    pod,
)

NAME, POD = f"job-t-{RUN.key[:8]}-1", f"t-{RUN.key[:8]}-1"
STARTS = ["identity", "remove", f"create {NAME}", f"adopt {NAME}"]
POD_STARTS = [step.replace(NAME, POD) for step in STARTS]
GONE = ApiException(status=404)
DRAINED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(tmp_path, monkeypatch)


@pytest.fixture
def single(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(tmp_path, monkeypatch, 1)


EXISTS = ApiException(status=409)
EXISTS.body = '{"reason": "AlreadyExists"}'


def raising(error: Exception) -> NoReturn:
    raise error


def earlier(process: Process, name: str, reason: str | None = None) -> None:
    """Let an earlier process have started an attempt, and recorded its end if a reason is given."""
    pending = start_attempt(process.folder, process.context()["ti"], "i")
    mark_attempt_created(process.folder, pending)
    end = replace(pending, pod=name, namespace="ns", failure_reason=reason or pending.failure_reason)
    process.folder.write_workload(end)


def test_a_job_that_succeeds_is_recorded_and_removed(process: Process) -> None:
    end = process.execute(STARTING, RUNNING, SUCCEEDED)
    assert (end.status, end.failure_reason, end.attempts) == ("success", None, 1)
    assert process.cluster.asked == {NAME}
    assert process.cluster.done == [*STARTS, "remove"]
    assert process.pushed == {"job_name": NAME, "job_namespace": "ns"}
    assert (process.folder.read("attempts") or {})["created"] == 1


def test_a_pod_that_succeeds_is_recorded_and_removed(single: Process, capsys: pytest.CaptureFixture[str]) -> None:
    single.logs = {"p0": [b"2026-01-02T03:04:05Z the only line\n"]}
    end = single.execute(one(waits="ContainerCreating"), one(), one(0))
    assert (end.status, end.attempts) == ("success", 1)
    assert single.cluster.done == [*POD_STARTS, "remove"]
    assert single.pushed == {"pod_name": POD, "pod_namespace": "ns"}
    assert capsys.readouterr().out.count("the only line") == 1
    (log,) = read_logs(single.folder)
    assert (log.file, lines_of(single.folder, log)) == ("attempt-1-base.log", ("base of p0",))


def test_every_line_of_a_pod_is_in_the_task_log_however_fast_they_come(
    single: Process, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ml_metrics.airflow.operators.logs.MAX_WAITING_LINES", 3)
    single.logs = {"p0": [f"2026-01-02T03:04:05.{number:03}Z line {number};\n".encode() for number in range(50)]}
    single.execute(one(0))
    shown = capsys.readouterr().out
    assert [shown.count(f"line {number};") for number in range(50)] == [1] * 50


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-5))])
def test_lines_that_the_triggerer_has_copied_are_not_asked_for_again(
    single: Process, zone: tzinfo, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier(single, POD)
    single.cluster.answers, single.cluster.there = [one(0)], True
    asked: list[dict[str, Any]] = []
    pieces = [b"2026-01-02T03:04:05Z the li", b"nes after them\n"]
    del single.task._open_log
    single.task.client = SimpleNamespace(
        read_namespaced_pod_log=lambda *_, **how: asked.append(how) or SimpleNamespace(stream=lambda _: pieces)
    )
    last = datetime.now(zone) - timedelta(seconds=41.5)
    single.task.trigger_reentry(single.context(), {"status": "success", "last_log_time": last})
    assert {one["since_seconds"] for one in asked if one.get("follow")} <= {42, 43}
    assert "[base] the lines after them" in capsys.readouterr().out


@pytest.mark.parametrize(("count", "answers"), [(2, (hosts(pod(0, 0), pod(1, 0)), SUCCEEDED)), (1, (one(0),))])
def test_a_task_does_not_wait_in_the_triggerer_for_what_has_ended(
    count: int, answers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(tmp_path, monkeypatch, count)
    process.task.deferrable = True
    assert process.execute(*answers).status == "success"


def test_a_job_that_fails_states_why_and_is_removed(process: Process) -> None:
    with pytest.raises(AirflowException, match=r"^ExitCode:3: .*1") as raised:
        process.execute(RUNNING, BROKEN)
    assert not isinstance(raised.value, AirflowFailException), "the test may be tried again"
    assert (process.recorded.status, process.recorded.failure_reason) == ("failure", "ExitCode:3")
    assert process.cluster.done == [*STARTS, "remove"]


def test_an_attempt_whose_pods_the_cluster_has_removed_has_its_time(process: Process) -> None:
    """Its cost is that of the time from its start, which only what was seen before tells."""
    with pytest.raises(AirflowException, match="PodDeleted"):
        process.execute(STARTING, RUNNING, hosts(condition=FAILED))
    assert process.recorded.started_at == RUNNING.outcome().started_at
    assert times_of(process.recorded) == ((process.recorded.started_at, process.recorded.ended_at),)


@pytest.mark.parametrize(
    ("count", "answers", "message", "reason"),
    [
        (2, [RUNNING, GONE], "the Job was deleted before its workload had ended", "JobDeleted"),
        (2, [hosts(pod(0), pod(1, waits="ErrImagePull"))], "^the hosts cannot start: ErrImagePull: ", "ErrImagePull"),
        (2, [hosts(pod(0), since=60.1)], "the hosts are still starting after 1:00:00", "StartupTimeout"),
        (1, [one(), GONE], "the pod was deleted before its workload had ended", "PodDeleted"),
        (1, [one(waits="InvalidImageName")], "^the pod cannot start: InvalidImageName: ", "InvalidImageName"),
        (1, [one(waits="ContainerCreating", since=60.1)], "the pod is still starting after", "StartupTimeout"),
        (1, [one(3)], "^ExitCode:3: ", "ExitCode:3"),
    ],
)
def test_waiting_that_is_useless_ends(
    count: int, answers: list[Any], message: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(tmp_path, monkeypatch, count)
    with pytest.raises(AirflowException, match=message):
        process.execute(*answers)
    assert process.recorded.failure_reason == reason
    assert end_is_known(process.recorded)
    assert process.cluster.done == [*(STARTS if count > 1 else POD_STARTS), "remove"]


def test_the_time_for_the_start_is_a_time_of_its_own(process: Process) -> None:
    long_ago = NOW - process.task.max_duration + timedelta(minutes=30)
    for answer in (hosts(pod(0), since=30), hosts(pod(0), pod(1), since=600)):
        assert process.execute(answer, SUCCEEDED, started=long_ago).status is JobStatus.SUCCESS


def test_a_task_that_waited_too_long_ends_its_workload(process: Process) -> None:
    with pytest.raises(TaskTimeoutError, match="the task ran too long"):
        process.execute(RUNNING, started=NOW - process.task.max_duration - timedelta(seconds=1))
    assert (process.recorded.status, process.recorded.failure_reason) == ("timeout", "ExecutionTimeout")
    assert process.cluster.done[-1] == "remove"


def test_an_end_counts_however_late_it_is_seen(process: Process) -> None:
    assert process.execute(SUCCEEDED, started=NOW - timedelta(days=365)).status is JobStatus.SUCCESS


def test_sidecars_have_half_a_minute_and_fail_nothing(single: Process) -> None:
    late = one(0, ended=20, sidecar="proxy")
    late.pods[0]["status"]["phase"] = "Running"
    assert single.execute(late).status is JobStatus.SUCCESS
    assert not late.over(NOW - timedelta(seconds=15))


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
    process.cluster.answers, process.task.created = [RUNNING], created
    process.task.pending = replace(unknown_end(1, "i"), pod="job-t")
    process.task.end_workload()
    assert process.cluster.done == (["remove"] if created else [])
    assert (process.task.observed is not None) is created, "its last state is read before"


@pytest.mark.parametrize("status", [503, 401, 403, 409])
def test_what_cannot_be_removed_now_is_removed_by_the_cluster(
    process: Process, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    started = process.task._start

    def start(*given: Any) -> None:
        started(*given)
        process.cluster.refuses["remove"] = ApiException(status=status)

    process.task._start = start
    process.execute()
    assert process.recorded.status is JobStatus.SUCCESS
    assert "could not be removed now; its deadline ends it" in capsys.readouterr().out


def test_a_pod_of_the_same_name_that_still_ends_is_waited_for(single: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_workload, "CONFLICT_SECONDS", 60.0)
    created = single.cluster.create

    def create(body: Any) -> None:
        created(body)
        if single.cluster.done.count(f"create {POD}") == 3:
            single.cluster.refuses.clear()
            return
        raise EXISTS

    monkeypatch.setattr(single.cluster, "create", create)
    assert single.execute(one(0)).status is JobStatus.SUCCESS
    assert single.cluster.done.count(f"create {POD}") == 3


def test_a_workload_whose_end_cannot_be_recorded_stays_for_the_next_try(
    single: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single.task, "record_observed", lambda: raising(StorageError("no bucket")))
    with pytest.raises(StorageError):
        single.execute(one(0))
    assert single.cluster.done.count("remove") == 1, "only that of what was there before"
    assert not end_is_known(single.recorded)


def test_a_workload_that_runs_is_followed_though_it_would_be_refused_now(single: Process) -> None:
    earlier(single, POD)
    single.cluster.there = True
    single.task.write_identity = lambda _: raising(ConfigError("the policy refuses this run"))
    assert single.execute(one(0)).status is JobStatus.SUCCESS


def test_warnings_of_the_cluster_are_in_the_task_log_also_if_nothing_starts(
    single: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = one(waits="ContainerCreating", since=60.1)
    event = {"type": "Warning", "reason": "FailedMount", "message": "no such volume"}
    with pytest.raises(AirflowException, match="still starting"):
        single.execute(OnePod.of(waits.pods[0], (event,)))
    assert "FailedMount: no such volume" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("what", "error", "created", "marked"),
    [
        ("create", ApiException(status=403), False, 0),
        ("create", ApiException(status=422), False, 0),
        ("create", ApiException(status=503), True, 0),
        ("create", EXISTS, True, 1),
        ("create", ApiException(status=409, reason="Conflict"), False, 0),
        ("adopt", ApiException(status=503), True, 1),
        ("adopt", ConfigError("no Indexed Jobs"), True, 1),
    ],
)
def test_a_request_that_failed_may_have_created_the_workload(
    process: Process, what: str, error: Any, created: bool, marked: int
) -> None:
    process.cluster.refuses[what] = error
    lost = process.cluster.there = error is EXISTS  # the response to an earlier request
    refused = AirflowFailException if isinstance(error, ConfigError) else ApiException
    with nullcontext() if lost else pytest.raises(refused):
        process.execute()
    assert process.task.created is created
    assert (process.folder.read("attempts") or {})["created"] == marked
    passes = getattr(error, "status", 0) == 503
    assert (process.cluster.done.count("remove") == 2) == (created and not passes)


@pytest.mark.parametrize("kind", [PodObjects, JobObjects, JobSetObjects])
@pytest.mark.parametrize("test", ["x" * 63, "x" * 23 + "-" + "y" * 11 + "-" + "z" * 20])
def test_the_names_of_the_largest_workload_are_valid(kind: type[PodObjects], test: str) -> None:
    name = kind.name_of(replace(RUN, test=test), 100)
    assert name.endswith(f"{replace(RUN, test=test).key[:8]}-100")
    assert "--" not in name
    assert len(name + {PodObjects: "", JobObjects: "-9999", JobSetObjects: "-slice-1023-9999"}[kind]) <= 63


@pytest.mark.parametrize(
    ("there", "reason", "starts"),
    [
        (True, "", False),
        (True, "ExitCode:3", True),
        (True, None, True),
        (False, "", False),
    ],
)
def test_a_workload_whose_end_nobody_has_recorded_is_taken_over(
    process: Process, there: bool, reason: str | None, starts: bool
) -> None:
    """If it is not there any more, somebody has deleted it: it is not started again."""
    process.cluster.there = there
    if reason is not None:
        earlier(process, "job-earlier", reason)
    number = 2 if reason else 1
    assert process.execute().attempts == number
    assert process.cluster.asked == {f"{NAME[:-1]}{number}" if starts else "job-earlier"}
    assert len(process.cluster.done) == len(STARTS if starts else ["identity"]) + 1


def test_what_was_never_created_is_started(single: Process) -> None:
    start_attempt(single.folder, single.context()["ti"], "i")
    assert single.execute(one(0)).attempts == 1
    assert single.cluster.done == [*POD_STARTS, "remove"]


@pytest.mark.parametrize("drained", [True, False])
def test_a_drained_pod_is_told_by_what_was_seen_while_it_ended(
    drained: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, later = (Process(tmp_path, monkeypatch, 1) for _ in range(2))
    first.task.deferrable = True
    seen = one()
    seen.pods[0]["metadata"]["name"] = POD
    seen.pods[0]["status"]["conditions"] = [DRAINED] if drained else []
    with pytest.raises(TaskDeferred):
        first.execute(seen)
    later.cluster.there = False
    with pytest.raises(AirflowException, match="deleted"):
        later.execute(GONE)
    found = later.recorded
    assert (found.failure_reason, found.detail == "evicting") == (
        ("Evicted", True) if drained else ("PodDeleted", False)
    )
    assert [log.note for log in read_logs(later.folder)] == ["the pod was deleted before its logs could be read"]


def test_what_was_seen_of_another_pod_does_not_count(single: Process) -> None:
    single.folder.write("ending", {"pod": "another", "status": {"reason": "Evicted"}})
    with pytest.raises(AirflowException, match="deleted"):
        single.execute(GONE)
    assert single.recorded.failure_reason == "PodDeleted"


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


@pytest.mark.parametrize(
    ("line", "code", "file", "notes"),
    [
        ("Permission denied: '/data'", 1, "kubeconfig", 1),
        ("Permission denied: '/data'", 0, "kubeconfig", 0),
        ("Permission denied: '/data'", 1, None, 0),
        ("no such value", 1, "kubeconfig", 0),
    ],
)
def test_a_file_that_the_local_cluster_refuses_its_workload_is_told_beside_the_log(
    single: Process, line: str, code: int, file: str | None, notes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    single.task.config_file, single.task.open_tail = file, lambda *_: [line.encode()]
    with pytest.raises(AirflowException) if code else nullcontext():
        single.execute(one(code))
    (log,) = read_logs(single.folder)
    assert log.note.count("local_cluster_folders") == notes
    assert capsys.readouterr().out.count("local_cluster_folders") == notes


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


@pytest.mark.parametrize("count", [1, 2])
def test_the_task_log_shows_no_secret(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process, first = Process(tmp_path, monkeypatch, count), pod(0) if count > 1 else one(0).pods[0]
    first["spec"]["containers"][0]["env"] = [{"name": "API_KEY", "value": "literal-key"}]
    process.logs = {"p0": [b"2026-01-02T03:04:05Z the key is literal-key\n"]}
    process.execute(*((hosts(first, pod(1)), SUCCEEDED) if count > 1 else (OnePod.of(first),)))
    shown = capsys.readouterr().out
    assert "the key is ***" in shown
    assert "literal-key" not in shown


CLUSTER = {"project": "p", "location": "l", "name": "c"}
POD_TRIGGER = "airflow.providers.cncf.kubernetes.triggers.pod.KubernetesPodTrigger"
GKE_TRIGGER = "airflow.providers.google.cloud.triggers.kubernetes_engine.GKEStartPodTrigger"
TIMER = "airflow.providers.standard.triggers.temporal.DateTimeTrigger"


def deferred(process: Process, state: Hosts) -> TaskDeferred:
    process.task.deferrable = True
    with pytest.raises(TaskDeferred) as raised:
        process.task._defer(process.context(datetime.now(UTC)), state)
    return raised.value


def pause_of(end: TaskDeferred) -> float:
    path, options = end.trigger.serialize()
    assert (path, end.method_name) == (TIMER, "resume")
    return float((options["moment"] - datetime.now(UTC)).total_seconds())


@pytest.mark.parametrize(("more", "path"), [({}, POD_TRIGGER), ({"cluster": CLUSTER}, GKE_TRIGGER)])
def test_running_hosts_hold_no_worker_until_one_ends(more: dict[str, Any], path: str, process: Process) -> None:
    if more:
        test = TestDefinition.model_validate({**dict(process.task.test), **more})
        process.task = RunWorkloadOnGke(task_id="run_workload", test=test)
        process.task.__dict__["cluster_info"] = ("https://cluster", "authority")
    end = deferred(process, hosts(pod(0, 0), pod(1)))
    found, options = end.trigger.serialize()
    assert found == path, "a trigger that each triggerer has, with or without plugins"
    assert (options["pod_name"], options["pod_namespace"]) == ("p1", "ns"), "a host that still runs"
    assert (options["logging_interval"], options["get_logs"]) == (None, False), "it does not wake up for lines of logs"
    assert end.method_name == "trigger_reentry"
    assert end.timeout is not None
    assert end.timeout > timedelta(hours=1)
    assert more or options["config_dict"] == {"clusters": []}, "the kubeconfig that was checked"


@pytest.mark.parametrize("state", [one(), one(waits="ContainerCreating")])
def test_a_pod_holds_no_worker_from_its_creation_and_the_triggerer_copies_its_log(single: Process, state: Any) -> None:
    end = deferred(single, state)
    path, options = end.trigger.serialize()
    assert (path, options["pod_name"], options["get_logs"], options["logging_interval"]) == (
        POD_TRIGGER,
        "p0",
        True,
        30,
    )
    single.task._trigger_failed = True
    assert pause_of(deferred(single, state)) > FIRST_CHECK.total_seconds() - 2


@pytest.mark.parametrize("state", [RUNNING, STARTING])
def test_a_workload_that_the_triggerer_watches_is_left_as_it_is(process: Process, state: Hosts) -> None:
    process.task.deferrable = True
    with pytest.raises(TaskDeferred):
        process.execute(state)
    assert not end_is_known(process.recorded)
    assert (process.cluster.done, list(read_logs(process.folder))) == (STARTS, [])


def test_a_provider_that_sets_no_limit_waits_no_longer_than_the_task_may_run(process: Process) -> None:
    with pytest.raises(TaskDeferred) as raised:
        process.task.defer(trigger=TimeDeltaTrigger(timedelta(hours=1)), method_name="resume")
    assert raised.value.timeout == process.task.max_duration


@pytest.mark.parametrize(
    ("waited", "pause"),
    [
        (timedelta(), FIRST_CHECK),
        (timedelta(minutes=1), timedelta(minutes=1)),
        (timedelta(minutes=30), LAST_CHECK),
        (timedelta(minutes=59, seconds=50), timedelta(seconds=10)),
        (timedelta(hours=2), timedelta(seconds=1)),
    ],
)
@pytest.mark.parametrize("queued", [False, True])
def test_hosts_that_do_not_run_yet_are_looked_at_ever_more_seldom(
    waited: timedelta, pause: timedelta, queued: bool, process: Process
) -> None:
    state = hosts(pod(0))
    state.job["metadata"]["creationTimestamp"] = (datetime.now(UTC) - waited).isoformat()
    state.job["spec"]["suspend"] = queued
    assert state.stage is (Stage.QUEUED if queued else Stage.STARTING)
    assert pause_of(deferred(process, state)) == pytest.approx(pause.total_seconds(), abs=2)


def test_a_trigger_that_fails_is_replaced_by_a_timer_for_once(
    process: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[Any] = []
    process.task.execute = calls.append
    process.task.trigger_reentry({}, {"status": "error", "message": "403"})
    assert "the triggerer no longer watches the pod: 403" in capsys.readouterr().out
    assert pause_of(deferred(process, RUNNING)) == pytest.approx(FIRST_CHECK.total_seconds(), abs=2)
    process.task.trigger_reentry({}, {"status": "success"})
    assert "no longer watches" not in capsys.readouterr().out
    assert deferred(process, RUNNING).trigger.serialize()[0] == POD_TRIGGER
    assert calls == [{}, {}]


def test_a_trigger_that_dies_or_times_out_does_not_fail_the_task(
    process: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[Any] = []
    process.task.execute = calls.append
    process.task.resume_execution("__fail__", {"error": "Trigger timeout"}, {})
    process.task.resume_execution("__fail__", None, {})
    shown = capsys.readouterr().out
    assert "no longer watches the pod: Trigger timeout" in shown
    assert "no longer watches the pod: unknown reason" in shown
    process.task.resume_execution("resume", {"event": None}, {})
    assert calls == [{}] * 3, "the cluster is asked how the hosts are"


def test_what_the_triggerer_says_of_a_pod_does_not_count(single: Process) -> None:
    """It reports outages as errors, and may be late: the cluster knows how the workload has ended."""
    for status in ("error", "timeout", "failed"):
        earlier(single, POD)
        single.cluster.answers, single.cluster.there = [one(0)], True
        single.task.trigger_reentry(single.context(), {"status": status, "message": "no"})
        assert single.recorded.status is JobStatus.SUCCESS


@pytest.mark.parametrize(
    ("more", "name", "kind"),
    [
        ({"hosts": 1}, "RunWorkload", PodObjects),
        ({}, "RunWorkload", JobObjects),
        ({"hosts": 1, "job_set": {"slices": 1}}, "RunWorkload", JobSetObjects),
        ({"cluster": CLUSTER}, "RunWorkloadOnGke", JobObjects),
        ({"cluster": CLUSTER, "job_set": {"slices": 2}}, "RunWorkloadOnGke", JobSetObjects),
    ],
)
def test_the_operator_of_a_test(more: dict[str, Any], name: str, kind: type) -> None:
    content = {"name": "t", "image": "i", "command": ["x"], "hosts": 2}
    made: Any = workload_operator(TestDefinition.model_validate({**content, **more}), task_id="run_workload")
    assert (type(made).__name__, made._objects_class) == (name, kind)


@pytest.mark.parametrize("status", [500, 403])
def test_a_cluster_that_does_not_show_the_pod_has_not_lost_it(single: Process, status: int) -> None:
    single.task.created = True
    for attempt in (None, replace(unknown_end(1, "i"), namespace="ns")):
        single.task.pending = attempt
        assert single.task.observe() is None, "an attempt without a pod has nothing to observe"
    single.task.pending = replace(unknown_end(1, "i"), namespace="ns", pod="p")
    single.cluster.answers = [ApiException(status=status)]
    with pytest.raises(ApiException):
        single.task.observe()
