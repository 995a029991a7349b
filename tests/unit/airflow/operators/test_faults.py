"""When a fault is inflicted, on which pods, and what another process does that takes over a plan."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.stream.ws_client import ERROR_CHANNEL, STDOUT_CHANNEL

from missing import missing
from ml_metrics import TestDefinition
from ml_metrics.airflow.clusters.outcome import INDEX
from ml_metrics.airflow.operators import attempts, faults
from ml_metrics.airflow.operators.faults import FaultWatch, journal_of, plan_of, record_restart
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.faults import FaultState
from ml_metrics.core.model import JobStatus, Workload
from ml_metrics.pipeline import RunState, StoredRuns, bring_back_all
from ml_metrics.store.run_folder import RunFolder
from servers.own_disk import namespace

KEY = "the-run"
NOW = datetime.now(UTC)


class Cluster:
    """A cluster with the pods of a run, and what was done to them."""

    def __init__(self, hosts: int) -> None:
        self.pods = [self.pod(host) for host in range(hosts)]
        self.done: list[tuple[str, str]] = []
        self.error: Exception | None = None

    @staticmethod
    def pod(host: int, name: str = "j", **metadata: Any) -> dict[str, Any]:
        state = {"running": {"startedAt": (NOW - timedelta(seconds=60)).isoformat()}}
        return {
            "metadata": {
                "name": f"{name}-{host}",
                "uid": f"uid-{name}-{host}",
                "creationTimestamp": (NOW - timedelta(seconds=65)).isoformat(),
                "labels": {"job-name": name},
                "annotations": {INDEX: str(host)},
                **metadata,
            },
            "spec": {"containers": [{"name": "base", "resources": {"limits": {"memory": "64Mi"}}}]},
            "status": {"containerStatuses": [{"name": "base", "state": state}]},
        }

    def list_namespaced_pod(self, namespace: str, *, label_selector: str, **_: Any) -> Any:
        assert (namespace, label_selector) == ("ns", f"ml-metrics/run-key={KEY}")
        return {"items": self.pods}

    def delete_namespaced_pod(self, name: str, _: str, *, body: Any, **__: Any) -> None:
        self._do("delete", name, body.preconditions.uid)

    def create_namespaced_pod_eviction(self, name: str, _: str, body: Any, **__: Any) -> None:
        self._do("evict", name, body.delete_options.preconditions.uid)

    def connect_get_namespaced_pod_exec(self) -> None: ...

    def _do(self, what: str, name: str, uid: str) -> None:
        if self.error is not None:
            raise self.error
        assert uid == f"uid-{name}"
        self.done.append((what, name))


class Process:
    """A process of the task that follows a plan."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, hosts: int = 2) -> None:
        self.folder, self.cluster, self.hosts = RunFolder(str(folder)), Cluster(hosts), hosts
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self.now, self.clock = folder, NOW.timestamp(), ""
        self.told: dict[str, Any] = {"status": "Success"}
        monkeypatch.setattr(faults, "CoreV1Api", lambda _: self.cluster)
        monkeypatch.setattr(faults, "stream", self._stream)
        monkeypatch.setattr(faults.time, "time", lambda: self.now)

    def _stream(self, _: Any, name: str, *__: Any, command: list[str], **___: Any) -> Any:
        fault, *rest = command[3:]
        assert fault.startswith("ml-metrics-fault-")
        self.cluster._do(" ".join(rest), name, f"uid-{name}")
        told = {ERROR_CHANNEL: json.dumps(self.told), STDOUT_CHANNEL: self.clock}
        return SimpleNamespace(run_forever=lambda **_: None, read_channel=told.get)

    def watch(self, *plan: dict[str, Any], attempt: int = 1) -> FaultWatch:
        content = {
            "name": "t", "image": "i", "command": ["x"], "hosts": self.hosts, "faults": plan,
            "resources": {"memory": "64Mi"}, "volumes": {"/cache": {"memory": "1Mi"}, "/data": {"scratch": "1Mi"}},
        }  # fmt: skip
        test = TestDefinition.model_validate(content)
        client = SimpleNamespace(api_client=ApiClient(Configuration()))
        pending = Workload(JobStatus.FAILURE, attempts=attempt, pod="j")
        operator = SimpleNamespace(test=test, client=client, pending=pending, created=True, own_namespace="ns")
        journal = journal_of(self.folder) or plan_of(test, {"params": {}})
        return FaultWatch(operator, self.folder, KEY, journal)

    def step(self, number: int, at: float = 0.0) -> None:
        with (self.path / "goodput.jsonl").open("a") as log:
            print(json.dumps({"step_count": number, "step_start_time": at or self.now}), file=log)

    def states(self) -> list[str]:
        journal = journal_of(self.folder)
        return [str(one.state) for one in journal.faults] if journal else []


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Process:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTER", "kubernetes")
    return Process(tmp_path / "t" / "01234567-89ab-cdef-0123-456789abcdef", monkeypatch)


def test_a_fault_is_inflicted_once_at_its_step(process: Process) -> None:
    watch = process.watch({"at": "step 3", "what": "kill", "where": "host 1"})
    process.step(9, at=NOW.timestamp() - 90)  # of an earlier attempt
    for number in range(3):
        process.step(number)
        watch.turn()
    assert process.cluster.done == []
    process.step(3, at=process.now - 0.2)
    watch.turn()
    watch.turn()
    assert process.cluster.done == [("signal KILL", "j-1")]
    (fault,) = watch.journal.faults
    assert (fault.state, fault.step_seen, fault.attempt, fault.hosts, fault.pods) == (
        FaultState.DONE,
        3,
        1,
        (1,),
        ("uid-j-1",),
    )
    assert (fault.begun_at or 0) - (fault.due_at or 0) == pytest.approx(0.2)


@pytest.mark.parametrize(("clock", "seconds"), [("0.35", 0.35), ("-60", -60.0), ("", 0.0), ("9000", 0.0)])
def test_a_fault_begins_by_the_clock_of_its_pod_where_that_has_one(
    process: Process, clock: str, seconds: float
) -> None:
    """The steps have the times of that clock; one that is hours off is none."""
    process.step(1)
    process.clock = f"{process.now + float(clock):.9f}\n" if clock else "1795988502.%N\n"
    watch = process.watch({"at": "step 1", "what": "freeze(30s)"})
    watch.turn()
    assert (watch.journal.faults[0].begun_at or 0) - NOW.timestamp() == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize("last", [1, 4])
def test_the_pods_are_known_before_the_step_at_which_one_is_hit(
    process: Process, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    """The list of a busy cluster takes long, and there is one second from the step, however late, to its fault."""
    watch, lists = process.watch({"at": "step 40", "what": "kill", "where": "host 1"}), []
    known = process.cluster.list_namespaced_pod
    monkeypatch.setattr(
        process.cluster,
        "list_namespaced_pod",
        lambda *args, **more: [lists.append(process.now), known(*args, **more)][1],
    )
    for number in range(41):
        process.now += last if number == 40 else 1
        process.step(number)
        watch.turn()
    assert process.cluster.done == [("signal KILL", "j-1")]
    start, near = (process.now - last - at for at in lists)
    assert start == 39
    assert 0 <= near <= 2


@pytest.mark.parametrize("what", ["kill", "delete_pod"])
def test_a_fault_that_finds_its_pod_ended_waits_for_the_next_attempt(process: Process, what: str) -> None:
    watch = process.watch({"at": "step 3", "what": what, "where": "host 1"})
    for number in range(4):
        process.now += 1
        process.step(number)
        process.cluster.error = ApiException(status=404, reason="Handshake status 404 Not Found")
        watch.turn()
    process.cluster.pods = process.cluster.pods[:1]
    process.cluster.error = None
    watch.turn()
    assert (process.cluster.done, process.states()) == ([], ["planned"])
    process.cluster.pods.append(Cluster.pod(1))
    watch.turn()
    assert (len(process.cluster.done), process.states()) == (1, ["done"])


def test_steps_are_evidence_that_hosts_run_before_the_cluster_is(process: Process) -> None:
    """The kubelet tells of a start a second or two later, when the first steps of a quick program are over."""
    for pod in process.cluster.pods:
        pod["status"] = {}
    watch = process.watch({"at": "step 3", "what": "kill", "where": "host 1"}, {"at": "1s", "what": "kill"})
    process.step(9, at=NOW.timestamp() - 70)  # before the pods were made
    watch.turn()
    assert process.states() == []
    process.step(3)
    watch.turn()
    assert process.cluster.done == [("signal KILL", "j-1")]
    assert process.states() == ["done", "planned"]  # when the workload started is not known yet
    process.cluster.pods = Cluster(2).pods
    process.now += 1
    watch.turn()
    assert process.states() == ["done", "done"]


def test_times_count_from_the_start_and_from_the_fault_before(process: Process) -> None:
    watch = process.watch({"at": "90s", "what": "delete_pod", "where": "coordinator", "times": 2, "every": "1m"})
    done = []
    for second in (0, 29, 31, 60, 92):  # the workload has started a minute ago
        process.now = NOW.timestamp() + second
        watch.turn()
        done.append(len(process.cluster.done))
    assert done == [0, 0, 1, 1, 2]
    assert process.cluster.done == [("delete", "j-0")] * 2


@pytest.mark.parametrize(
    ("where", "hit"), [("host 1", {"j-1"}), ("coordinator", {"j-0"}), ("all", {"j-0", "j-1"}), ("any", {"j-0"})]
)
def test_only_pods_of_the_attempt_that_run_are_touched(process: Process, where: str, hit: set[str]) -> None:
    ended = Cluster.pod(1)
    ended["status"]["containerStatuses"][0]["state"] = {
        "terminated": {"exitCode": 1, "startedAt": NOW.isoformat(), "finishedAt": NOW.isoformat()}
    }
    of_before, leaving = Cluster.pod(0, "earlier"), Cluster.pod(0, deletionTimestamp=NOW.isoformat())
    whole, process.cluster.pods = process.cluster.pods, [of_before, leaving, ended]
    process.step(1)
    watch = process.watch({"at": "step 1", "what": "evict", "where": where})
    watch.turn()
    assert (process.cluster.done, process.states()) == ([], [])  # it waits until the workload runs
    process.cluster.pods = [of_before, *whole]
    process.now += 1
    watch.turn()
    names = {name for _, name in process.cluster.done}
    assert names == hit or (where == "any" and len(names) == 1)


@pytest.mark.parametrize(
    ("what", "commands"),
    [
        ("terminate", "signal TERM"),
        ("freeze(30s)", "pause 30.000 0 0"),
        ("slow(4x, 60s)", "pause 0.375 0.125 119"),  # 120 times 0.375 s
        ("out_of_memory", "memory 67108864"),
        ("disk_full(30s)", "fill 30.000 17 /cache"),
    ],
)
def test_the_pod_gets_one_command_which_also_undoes_it(process: Process, what: str, commands: str) -> None:
    process.step(1)
    watch = process.watch({"at": "step 1", "what": what, "where": "all"})
    watch.turn()
    process.now += 30
    watch.turn()
    assert process.cluster.done == [(commands, "j-0"), (commands, "j-1")]
    assert watch.is_needed, "the attempt may end yet"
    process.now += 100
    assert not watch.is_needed


@pytest.mark.parametrize("ends", ["in time", "by another process", "after the run", "by the housekeeping"])
@pytest.mark.parametrize("recreated", [False, True])
def test_a_folder_that_was_away_comes_back_in_every_ending(process: Process, ends: str, *, recreated: bool) -> None:
    checkpoints = process.path / "checkpoints"
    checkpoints.mkdir()
    (checkpoints / "saved").write_text("1")
    process.step(1)
    watch = process.watch({"at": "step 1", "what": "lose_storage(checkpoints, 30s)"})
    watch.turn()
    assert (checkpoints.exists(), watch.is_needed, watch.journal.faults[0].hosts) == (False, True, (0, 1))
    if recreated:
        checkpoints.mkdir()
        (checkpoints / "other").write_text("2")
    process.now += 29
    watch.turn()
    assert not (checkpoints / "saved").exists()
    process.now += 2
    match ends:
        case "in time":
            watch.turn()
        case "by another process":
            process.watch().turn()
        case "after the run":
            assert RunState(process.folder).faults is not None
        case _:
            bring_back_all(StoredRuns(str(process.path.parents[1]), ""))
    assert [one.name for one in checkpoints.iterdir()] == ["saved"]
    for _ in range(2):
        watch = process.watch()
        watch.turn()
    assert (process.states(), [one.name for one in checkpoints.iterdir()]) == (["done"], ["saved"])
    assert not process.watch(attempt=2).is_needed


def test_a_folder_that_is_not_there_cannot_be_taken_away(process: Process) -> None:
    (process.path / "link").symlink_to(process.path.parent)
    process.step(1)
    watch = process.watch(*({"at": "step 1", "what": f"lose_storage({name}, 3s)"} for name in ("none", "link/run")))
    watch.turn()
    assert process.states() == ["refused", "refused"]
    assert "the workload has no folder 'none'" in watch.journal.faults[0].note


@pytest.mark.parametrize("what", ["kill", "delete_pod", "evict", "slow(2x, 30s)", "freeze(30s)"])
@pytest.mark.parametrize("alive", [True, False])
def test_what_a_process_had_begun_is_neither_forgotten_nor_repeated(process: Process, what: str, alive: bool) -> None:
    """Another process finds out whether the fault has hit: then its pod is gone."""
    process.step(1)
    watch = process.watch({"at": "step 1", "what": what, "where": "host 1"})
    process.cluster.error = SystemExit()  # the process dies between its record and the request
    with pytest.raises(SystemExit):
        watch.turn()
    assert process.states() == ["begun"]
    process.cluster.error = None
    if not alive:
        process.cluster.pods = [Cluster.pod(0), Cluster.pod(1, uid="of-the-next-attempt")]
    later = process.watch()
    later.turn()
    later.turn()
    assert len(process.cluster.done) == alive
    assert process.states() == ["done"]


def test_a_freeze_whose_time_is_over_is_not_begun_again(process: Process) -> None:
    process.step(1)
    watch = process.watch({"at": "step 1", "what": "freeze(30s)", "where": "host 1"})
    process.cluster.error = SystemExit()
    with pytest.raises(SystemExit):
        watch.turn()
    process.cluster.error = None
    process.now += 300
    later = process.watch()
    later.turn()
    later.turn()
    assert (process.cluster.done, process.states()) == ([], ["done"])


def test_what_the_cluster_refuses_is_recorded_and_not_tried_again(process: Process) -> None:
    process.step(1)
    process.cluster.error = ApiException(status=403, reason="Forbidden")
    watch = process.watch({"at": "step 1", "what": "evict"}, {"at": "step 1", "what": "kill"})
    watch.turn()
    watch.turn()
    assert process.states() == ["refused", "refused"]
    assert "Forbidden" in watch.journal.faults[0].note


NOT_BOUND = {"reason": "NonZeroExitCode", "details": {"causes": [{"message": faults.NOT_FULL}]}}
NO_SHELL = {"reason": "InternalError", "message": 'exec: "/bin/sh": stat /bin/sh: no such file or directory'}


@pytest.mark.parametrize(
    ("told", "note"),
    [
        ({"reason": "BadRequest", "message": "the container is not known"}, "the container is not known"),
        (NOT_BOUND, "the cluster does not bound the volume: Kubernetes does since version 1.22"),
        (NO_SHELL, "the image has no /bin/sh, which inflicts it"),
        ({"reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": "137"}]}}, ""),
        ({"reason": "InternalError", "message": "the shell has ended with its container"}, ""),
        ({"reason": "InternalError", "message": "no such file: /proc/9"}, ""),
    ],
)
def test_a_command_that_ends_with_its_pod_is_done_and_one_that_cannot_begin_is_refused(
    process: Process, told: dict[str, Any], note: str
) -> None:
    process.step(1)
    process.told = {"status": "Failure", **told}
    watch = process.watch({"at": "step 1", "what": "disk_full(30s)"})
    watch.turn()
    assert (process.states(), watch.journal.faults[0].note) == (["refused" if note else "done"], note)


def test_an_outage_delays_a_fault(process: Process) -> None:
    process.step(1)
    process.cluster.error = ApiException(status=503)
    watch = process.watch({"at": "step 1", "what": "delete_pod"})
    with pytest.raises(ApiException):
        watch.turn()
    process.cluster.error = None
    process.now += 40
    watch.turn()
    assert (len(process.cluster.done), process.states()) == (1, ["done"])


def test_restarts_of_the_plan_take_no_retry_away(process: Process) -> None:
    ti: Any = SimpleNamespace(max_tries=3)
    process.step(1)
    process.watch({"at": "step 1", "what": "kill"}).turn()
    failed = {"status": JobStatus.FAILURE, "failure_reason": "ExitCode:137", "ended_at": NOW}
    for attempt, left in ((1, True), (2, False)):
        pending = attempts.start_attempt(process.folder, ti, "i")
        assert pending.attempts == attempt
        end = replace(pending, **failed)
        process.folder.write_workload(end)
        assert attempts.retries_left(process.folder, end, 0) is left
        lost = replace(end, failure_reason="WorkerLost")
        assert not attempts.retries_left(process.folder, lost, 0), "no fault ends what may still run"
        assert (attempts.end_of_round(process.folder, ti, 0) is None) is left
        if left:
            record_restart(process.folder, end)
            record_restart(process.folder, end)
    journal = journal_of(process.folder)
    assert journal is not None
    assert [one.attempt for one in journal.restarts] == [1]


def test_a_restart_is_recorded_though_the_worker_dies_after_the_end_of_the_attempt(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is recorded as soon as it is seen, the logs are saved next, and the restart after that."""
    ti: Any = SimpleNamespace(max_tries=3)
    process.step(1)
    watch = process.watch({"at": "step 1", "what": "kill"})
    watch.turn()
    pending = attempts.start_attempt(process.folder, ti, "i")
    process.folder.write_workload(
        replace(pending, status=JobStatus.FAILURE, failure_reason="ExitCode:137", ended_at=NOW)
    )
    monkeypatch.setattr(faults, "folder_of", lambda *_: process.folder)
    process.cluster.pods = []
    task: Any = watch.operator
    task.labels, task.attempt, task.last_observed = {faults.RUN_KEY: KEY}, lambda _: None, lambda: None
    for _ in range(2):
        faults.run_attempts(task, {"ti": ti})  # type: ignore[arg-type,typeddict-item]
    journal = journal_of(process.folder)
    assert journal is not None
    assert [(one.attempt, one.reason) for one in journal.restarts] == [(1, "ExitCode:137")]


def test_the_end_of_an_attempt_that_a_fault_ended_is_recorded_before_the_next_begins(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    ti: Any = SimpleNamespace(max_tries=3)
    process.step(1)
    watch = process.watch({"at": "step 1", "what": "kill"})
    watch.turn()
    monkeypatch.setattr(faults, "folder_of", lambda *_: process.folder)
    process.cluster.pods = []
    task: Any = watch.operator
    task.pending = attempts.start_attempt(process.folder, ti, "i")
    ends, recorded = [("failure", "ExitCode:137"), ("success", None)], []

    def attempt(_: Any) -> None:
        assert task.faults.is_needed, "the worker stays with the workload"
        if recorded:
            task.pending = attempts.start_attempt(process.folder, ti, "i")

    def last_observed() -> Workload:
        status, reason = ends.pop(0)
        return replace(task.pending, status=JobStatus(status), failure_reason=reason, ended_at=NOW)

    task.labels, task.attempt, task.last_observed = {faults.RUN_KEY: KEY}, attempt, last_observed
    task.with_links, task.forget_attempt = lambda end: end, lambda: recorded.append(process.folder.read_workload())
    faults.run_attempts(task, {"ti": ti})  # type: ignore[arg-type,typeddict-item]
    journal = journal_of(process.folder)
    assert journal is not None
    assert [(one.attempt, one.reason) for one in journal.restarts] == [(1, "ExitCode:137")]
    assert [(one.attempts, one.failure_reason) for one in recorded] == [(1, "ExitCode:137")]
    assert (task.pending.attempts, ends) == (2, [])


def test_a_template_that_makes_no_fault_is_refused_before_the_workload_starts() -> None:
    content = {"name": "t", "image": "i", "command": ["x"], "params": {"n": "x"}}
    for fault, told in (
        ({"at": "step {{ params.n }}", "what": "kill"}, "'step x' is not a time of a fault"),
        ({"at": "step 1", "what": "kill", "where": "host {{ params.host }}"}, "there is no host 3"),
    ):
        test = TestDefinition.model_validate({**content, "faults": [fault]})
        with pytest.raises(ConfigError, match=told):
            plan_of(test, {"params": {"n": "x", "host": 3}})


@pytest.mark.parametrize(
    ("what", "name", "value", "told"),
    [
        ("disk_full(3s)", "CLUSTER", "local", "the volumes of the local cluster are folders of this machine"),
        ("lose_storage(a, 3s)", "STORAGE_ROOT", "gs://bucket/runs", "run folders are in a bucket"),
    ],
)
def test_what_the_place_of_a_run_precludes_is_refused_before_it_starts(
    what: str, name: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"AIRFLOW__ML_METRICS__{name}", value)
    content = {"name": "t", "image": "i", "command": ["x"], "volumes": {"/cache": {"memory": "1Mi"}}}
    test = TestDefinition.model_validate({**content, "faults": [{"at": "step 1", "what": what}]})
    with pytest.raises(ConfigError, match=told):
        plan_of(test, {"params": {}})


def in_a_folder_of_one_megabyte(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run what a shell in a pod runs, which here sends no signal."""
    assert argv[0] == "fill"
    shell = ["sh", "-c", faults.IN_THE_POD.replace("/dev/shm/", f"{folder}/marks/"), "ml-metrics-fault-0", *argv]
    inner = f'mount -t tmpfs -o size=1m none {folder}/cache && "$@"; echo $?; cd {folder}/cache; stat -fc %f .; ls -A'
    later = '; until [ -z "$(ls -A)" ]; do sleep .05; done; stat -fc %f .'
    command = [*namespace(), "sh", "-c", inner + later, "sh", *shell]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_disk_is_full_for_a_while_and_then_free(tmp_path: Path) -> None:
    if not namespace():
        missing("no process may have file systems of its own here (unshare -m)")
    for name in ("cache", "marks"):
        (tmp_path / name).mkdir()
    done = in_a_folder_of_one_megabyte(tmp_path, "fill", "0.3", "17", str(tmp_path / "cache"))
    began, code, left, file, free = done.stdout.split()
    assert abs(float(began) - datetime.now(UTC).timestamp()) < 30
    assert (code, left, file) == ("0", "0", ".ml-metrics-fault-0"), done.stderr
    assert int(free) > 0
    again = in_a_folder_of_one_megabyte(tmp_path, "fill", "0.3", "17", str(tmp_path / "cache"))
    assert again.stdout.split()[:2] == ["0", free], "a fault that was sent already"
    (tmp_path / "marks" / "ml-metrics-fault-0").rmdir()
    small = in_a_folder_of_one_megabyte(tmp_path, "fill", "0.3", "3", str(tmp_path / "cache"))
    assert small.stdout.split()[1:3] == [faults.NOT_FULL, free]


def test_a_turn_that_fails_is_logged_once_and_the_next_ones_are_taken(
    process: Process, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors, over = [RuntimeError("no answer"), RuntimeError("no answer")], Event()

    def turn() -> None:
        if errors:
            raise errors.pop()
        over.set()

    watch = process.watch()
    monkeypatch.setattr(faults, "TURN_SECONDS", 0.01)
    monkeypatch.setattr(watch, "turn", turn)
    with watch:
        assert over.wait(30)
    assert [one.getMessage() for one in caplog.records] == [
        "the faults of the run cannot be followed at the moment: RuntimeError: no answer"
    ]
