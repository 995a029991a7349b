"""Inflicts the planned faults of a run from outside, while the operator waits for its workload.

A thread of the task follows the steps of the run and its pods. It touches nothing but pods that carry the key of the
run and belong to its current attempt, each by its uid.
"""

from __future__ import annotations

import json
import math
import random
import threading
import time
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from kubernetes.client import (
    ApiClient,
    CoreV1Api,
    V1DeleteOptions,
    V1Eviction,
    V1ObjectMeta,
    V1Preconditions,
)
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream
from kubernetes.stream.ws_client import ERROR_CHANNEL, STDOUT_CHANNEL
from kubernetes.utils.quantity import parse_quantity

from ml_metrics.airflow.clusters.manifests import NAME_LABEL, SLICE_LABEL
from ml_metrics.airflow.clusters.outcome import index_of, outcome_of
from ml_metrics.airflow.clusters.permissions import check_faults
from ml_metrics.airflow.connections import uses_local_cluster
from ml_metrics.airflow.operators import attempts
from ml_metrics.airflow.operators.cluster import OF_CLUSTER, is_passing
from ml_metrics.airflow.operators.run import RUN_KEY, folder_of
from ml_metrics.config.faults import ANYWHERE, COORDINATOR, EVERYWHERE, disks_of, fault_problems, planned
from ml_metrics.config.policy import current_policy
from ml_metrics.config.templates import known_of, rendered
from ml_metrics.core.errors import ConfigError, FailureLogged, MlMetricsError, StorageError
from ml_metrics.core.faults import (
    DELETE_POD,
    DISK_FULL,
    DOCUMENT,
    EVICT,
    IN_POD,
    LOSE_STORAGE,
    TERMINATE,
    FaultJournal,
    FaultState,
    PlannedFault,
    PlannedRestart,
)
from ml_metrics.core.model import WORKLOAD_CONTAINER, JobStatus
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import logger_of
from ml_metrics.measure import StepStream
from ml_metrics.pipeline import bring_back
from ml_metrics.store.storage import is_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow.sdk import Context

    from ml_metrics.airflow.operators.run_workload import RunWorkload
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Workload
    from ml_metrics.store.run_folder import RunFolder

log = logger_of(__name__)
TURN_SECONDS = 0.2
"""How often the thread looks whether a fault is due."""
START_SECONDS = 0.5
"""How often it asks the cluster whether the workload has started."""
REQUEST_SECONDS = 10
NEAR_SECONDS = 3.0
"""How long before a fault its pods are looked up, so that a busy cluster does not delay it."""
MAX_SKEW = 3600.0
AFTERMATH = 60.0
"""How many seconds a task waits for what a fault brings about, before it defers."""
IN_THE_POD = """
mkdir "/dev/shm/$0" 2>/dev/null || [ ! -d "/dev/shm/$0" ] || exit 0  # an earlier process has sent it
trap '' HUP INT TERM
date +%s.%N 2>/dev/null  # when it begins, by the clock that the workload has for its steps
what=$1 && shift
case $what in
signal)
    kill -s "$1" -- -1 ;;
pause)  # SECONDS, then AGAIN times: AT_WORK seconds, and SECONDS
    kill -s STOP -- -1
    (
        again=$3
        while sleep "$1" && [ "$again" -gt 0 ]; do
            kill -s CONT -- -1; sleep "$2"; kill -s STOP -- -1; again=$((again - 1))
        done
        kill -s CONT -- -1
    ) </dev/null >/dev/null 2>&1 & ;;
fill)  # SECONDS, and BLOCKS FOLDER for each: no more than the volume holds, which old clusters do not bound
    seconds=$1 && shift
    while [ $# -gt 0 ]; do
        dd if=/dev/zero of="$2/.$0" bs=65536 count="$1" 2>/dev/null && rm "$2/.$0" && exit 28
        (sleep "$seconds"; rm -f "$2/.$0") </dev/null >/dev/null 2>&1 &
        shift 2
    done ;;
memory)  # BYTES: the kernel ends the workload before the processes that take it
    for one in /proc/[0-9]*; do [ "$one" = "/proc/$$" ] || echo 1000 >"$one/oom_score_adj"; done 2>/dev/null
    for some in 1 2 3 4; do for each in 1 2 3 4 5 6 7 8 9 10; do
        dd if=/dev/zero of=/dev/null bs=$(($1 / 32)) count=100000 </dev/null >/dev/null 2>&1 &
        taken="$taken $!"
    done; done
    sleep 10; kill -s KILL $taken ;;
esac
"""
"""What a shell in the pod does. It is named after the fault, so that the same fault does nothing a second time."""
BLOCK, NOT_FULL = 65536, "28"
SIGNALS = {"kill": "KILL", TERMINATE: "TERM"}
CYCLE_SECONDS = 0.5
"""How often a slow host stands still."""
NOT_FOUND, CONFLICT, FORBIDDEN, TOO_MANY = 404, 409, 403, 429
NO_SIZES = "the volumes of the local cluster are folders of this machine, which have no size of their own"
NO_FOLDERS = "run folders are in a bucket: only who may change its permissions can take one away"


def journal_of(folder: RunFolder) -> FaultJournal | None:
    return folder.parsed(DOCUMENT, FaultJournal.from_document)


def plan_of(test: TestDefinition, context: Mapping[str, Any]) -> FaultJournal:
    """The faults of a run, its parameters filled in. Raises ConfigError for one that is impossible or not allowed."""
    faults = rendered(test.faults, known_of(context), f"{test.name}: faults")
    try:
        plan = planned(faults)
        problems = list(fault_problems(faults, dict(test)))
    except ValueError as error:
        raise ConfigError(f"{test.name}: faults: {error}") from error
    policy, settings = current_policy(), Settings.load()
    impossible = {
        DISK_FULL: NO_SIZES if test.cluster is None and uses_local_cluster(settings) else "",
        LOSE_STORAGE: "" if is_local(settings.storage_root) else NO_FOLDERS,
    }
    problems += [
        (one.number, f"{one.kind!r} is not possible: {why}") for one in plan if (why := impossible.get(one.kind))
    ]
    problems += [
        (one.number, f"{one.kind!r} is not in `faults` of the policy")
        for one in plan
        if not policy.allows("faults", one.kind)
    ]
    if problems:
        raise ConfigError("; ".join(f"{test.name}: faults[{number}]: {what}" for number, what in problems))
    return FaultJournal(plan)


def run_attempts(task: RunWorkload, context: Context) -> None:
    """Run an attempt, and further ones as long as planned faults end them. Other ends are those of the workload."""
    folder = folder_of(task.test.name, context)
    if not attempts.is_of_round(folder.read(attempts.DOCUMENT), context["ti"]):
        folder.remove(DOCUMENT)  # a run that was cleared meets all of them again
    elif (before := folder.read_workload()) is not None and attempts.is_planned(journal_of(folder), before):
        record_restart(folder, before)  # its worker may have died between the two records
    while True:
        journal = journal_of(folder) or _checked_plan(task, context)
        error: Exception | None = None
        task.faults = FaultWatch(task, folder, task.labels[RUN_KEY], journal)
        with task.faults:
            try:
                task.attempt(context)
            except Exception as failure:  # noqa: BLE001  (raised below, unless a fault has brought it about)
                error = failure
        passing = is_passing(error) or isinstance(error, MlMetricsError)
        observed = None if passing else as_planned(task.last_observed(), folder, task.pending)
        end = None
        if task.pending is not None and observed is not None:
            end = attempts.end_of(observed, error, task.pending, created=task.created)
        if end is None or not attempts.is_planned(journal_of(folder), end):
            if error is not None:
                raise error
            return
        log.warning("a planned fault has ended attempt %d (%s); it starts again", end.attempts, end.failure_reason)
        attempts.write_end(folder, task.with_links(end))
        record_restart(folder, end)
        task.forget_attempt()


def _checked_plan(task: RunWorkload, context: Context) -> FaultJournal:
    plan = plan_of(task.test, context)
    kinds = {one.kind for one in plan.faults}
    task.retry_after_outages(lambda: check_faults(task.client.api_client, task.own_namespace, kinds))
    return plan


def as_planned(observed: Workload | None, folder: RunFolder, pending: Workload | None) -> Workload | None:
    """A program that ends well because a fault has told it to end has not finished its work."""
    journal = journal_of(folder)
    if observed is None or observed.status is not JobStatus.SUCCESS or journal is None or observed.ended_at is None:
        return observed
    if not journal.terminated(pending.attempts if pending else 1, observed.ended_at.timestamp()):
        return observed
    detail = "it ended with exit code 0 when a planned fault told it to terminate"
    return replace(observed, status=JobStatus.FAILURE, failure_reason="Terminated", detail=detail)


def record_restart(folder: RunFolder, end: Workload) -> None:
    """Record that a fault has ended an attempt, and that another one follows."""
    journal = journal_of(folder)
    if journal is not None and end.ended_at is not None:
        restart = PlannedRestart(end.attempts, end.ended_at.timestamp(), end.failure_reason or "", end.detail or "")
        others = tuple(one for one in journal.restarts if one.attempt != end.attempts)
        folder.write(DOCUMENT, replace(journal, restarts=(*others, restart)).document())


@dataclass(frozen=True, slots=True)
class Target:
    """A pod of the run that has not ended."""

    name: str
    uid: str
    host: int
    created_at: float
    started_at: float | None
    """When its workload started. The cluster knows it a second or two later, and has None until then."""
    memory: str = ""
    """The memory limit of the workload."""


@dataclass
class FaultWatch:
    """Inflicts the faults of one attempt in a thread. What a pod undoes by itself needs no process here.

    Args:
        operator: waits for the workload; its `client` and `pending` attempt change while the thread runs.
        folder: where the journal is, and what the workload writes.
        run_key: the label of the pods of the run.
    """

    operator: Any
    folder: RunFolder
    run_key: str
    journal: FaultJournal
    steps: StepStream = field(init=False)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)
    _client: Any = None
    _core: Any = None
    _asked_at: float = 0.0
    _is_there: bool = False
    """Whether all pods of the attempt exist: its steps are read from then on."""
    _has_started: bool = False
    """Whether the cluster tells that all of them run."""
    _told: str = ""
    _first: tuple[float, int] | None = None
    """When the first step was seen, and which."""
    _known: list[Target] = field(default_factory=list)
    _known_at: float = -math.inf

    def __post_init__(self) -> None:
        self.steps = StepStream(self.folder, self.operator.test.metric_collection_config)
        self._thread = threading.Thread(target=self._run, daemon=True, name="faults")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(3 * REQUEST_SECONDS)

    @property
    def is_needed(self) -> bool:
        """Whether there is something left to do, or a fault may yet end this attempt: the next one starts at once."""
        pending, now = self.operator.pending, time.time()
        return any(
            one.is_open
            or one.is_away
            or (pending and one.attempt == pending.attempts and now < (one.ends_at or one.done_at or 0.0) + AFTERMATH)
            for one in self.journal.faults
        )

    def _run(self) -> None:
        while not self._over.wait(TURN_SECONDS):
            with FailureLogged(self._warn_once, "the faults of the run cannot be followed at the moment"):
                self.turn()
                self._told = ""

    def _warn_once(self, warning: str) -> None:
        if warning != self._told:
            log.warning("%s", warning)
            self._told = warning

    def turn(self) -> None:
        """Do what is due now."""
        waiting = [one for one in self.journal.faults if one.is_open]
        waited_for = {one.step for one in waiting if one.step is not None}
        now = time.time()
        if waiting and not self._has_started:
            self._find_start(now)
        if waited_for and self._is_there:
            self.steps.read_new(waited_for)
        if any(one.is_away and (one.ends_at or 0.0) <= now for one in self.journal.faults):
            self.journal = bring_back(self.folder, now) or self.journal
        if any(self._is_near(one, now) for one in waiting) and now - self._known_at > NEAR_SECONDS:
            self._known, self._known_at = self._running(), now
        for fault in (self.journal.faults[one.number] for one in waiting):
            due_at = self._due_at(fault)
            if due_at is not None and due_at <= now:
                self._inflict(replace(fault, due_at=due_at, step_seen=self.steps.newest))
                self._known_at = -math.inf  # it may have ended them

    def _is_near(self, fault: PlannedFault, now: float) -> bool:
        """Whether a fault is due soon, if the steps go on as they have so far."""
        due_at, newest = self._due_at(fault), self.steps.newest
        if due_at is not None or fault.step is None or newest is None:
            return due_at is not None and now < due_at < now + NEAR_SECONDS
        self._first = self._first or (now, newest)
        since, first = self._first
        return (fault.step - newest) * (now - since) < NEAR_SECONDS * (newest - first)

    def _find_start(self, now: float) -> None:
        if now - self._asked_at < START_SECONDS:
            return
        self._asked_at = now
        targets = self.targets()
        if len(targets) < self.operator.test.pods:
            return
        # a step counts again in an attempt that gets there again; ends are known to the second
        ended = max((one.ended_at + 1 for one in self.journal.restarts), default=0.0)
        self.steps.since = max(ended, min(one.started_at or one.created_at for one in targets))
        self._is_there = True
        started = [one.started_at for one in targets if one.started_at is not None]
        if len(started) < len(targets):
            return
        self._has_started, self._known, self._known_at = True, targets, now
        if self.journal.started_at is None:
            self._write(replace(self.journal, started_at=max(started)))

    def _due_at(self, fault: PlannedFault) -> float | None:
        """When a fault is or was due; None if that is not known yet."""
        if fault.due_at is not None:
            return fault.due_at
        if fault.step is not None:
            return self.steps.first_at.get(fault.step)
        since = self.journal.started_at
        if fault.follows is not None:
            since = self.journal.faults[fault.follows].done_at
        return None if since is None or fault.after is None else since + fault.after

    def _inflict(self, fault: PlannedFault) -> None:
        """Record a fault, inflict it on its pods, and record that. What an earlier process has begun is finished."""
        is_known = time.time() - self._known_at < 2 * NEAR_SECONDS
        running = {one.uid: one for one in (self._known if is_known else self._running())}
        is_begun = fault.state is FaultState.BEGUN
        if is_begun:
            over = fault.ends_at is not None and fault.ends_at <= time.time()  # while no process looked
            victims = [running[uid] for uid in fault.pods if uid in running and not over]
        else:
            victims = self._victims(fault, list(running.values()))
            if not victims:
                return  # the workload is starting: the fault waits for it
            fault = replace(
                fault,
                state=FaultState.BEGUN,
                begun_at=time.time(),
                attempt=self.operator.pending.attempts,
                hosts=tuple(one.host for one in victims),
                pods=tuple(one.uid for one in victims),
            )
            self._write(self.journal.with_fault(fault))
        try:
            hit = [self._act(fault, one) for one in (victims[:1] if fault.kind == LOSE_STORAGE else victims)]
        except RefusedError as refusal:
            fault = replace(fault, state=FaultState.REFUSED, note=str(refusal))
            log.warning("the fault %r (%s) was refused: %s", fault.what, fault.at, refusal)
        else:
            if not is_begun and not any(hit):  # they have all ended: it waits for the next attempt
                self._write(self.journal.with_fault(replace(fault, state=FaultState.PLANNED, begun_at=None)))
                return
            begun = min((one for one in hit if one), default=fault.begun_at)
            fault = replace(fault, state=FaultState.DONE, begun_at=begun, done_at=time.time())
            hosts = ", ".join(map(str, fault.hosts))
            log.warning("inflicted a planned fault: %s on host %s (%s)", fault.what, hosts, fault.at)
        self._write(self.journal.with_fault(fault))

    def _victims(self, fault: PlannedFault, running: list[Target]) -> list[Target]:
        """The pods that a fault is meant for; none as long as they do not all run."""
        if fault.where == EVERYWHERE or fault.kind == LOSE_STORAGE:
            return running if len(running) >= self.operator.test.pods else []
        if fault.where == ANYWHERE:
            drawn = random.Random(f"{self.run_key} {fault.number}").randrange(self.operator.test.pods)  # noqa: S311
            wanted = drawn
        else:
            wanted = 0 if fault.where == COORDINATOR else int(fault.where.removeprefix("host"))
        return [one for one in running if one.host == wanted]

    def _act(self, fault: PlannedFault, target: Target) -> float | None:
        """When it began; None if the pod had ended before."""
        if fault.kind in IN_POD:
            return self._command(fault, target, *self._order(fault, target))
        if fault.kind != LOSE_STORAGE:
            return fault.begun_at if self._remove(fault.kind, target) else None
        try:
            there = self.folder.take_away(fault.folder, fault.aside)
        except StorageError as error:
            raise RefusedError(str(error)) from error
        if not there:
            raise RefusedError(f"the workload has no folder {fault.folder!r}")
        return fault.begun_at

    def _order(self, fault: PlannedFault, target: Target) -> tuple[str, ...]:
        """The arguments of the shell in the pod."""
        left = max(0.0, (fault.ends_at or 0.0) - time.time())
        match fault.kind:
            case "freeze":
                return "pause", f"{left:.3f}", "0", "0"
            case "slow":
                at_work = CYCLE_SECONDS / fault.factor
                stands = CYCLE_SECONDS - at_work
                again = max(0, round((left - stands) / CYCLE_SECONDS))
                return "pause", f"{stands:.3f}", f"{at_work:.3f}", str(again)
            case "out_of_memory":
                if not target.memory:
                    raise RefusedError("the container has no limit of memory")
                return "memory", str(int(parse_quantity(target.memory)))
            case "disk_full":
                disks = disks_of(self.operator.test.volumes).items()
                sized = [(str(int(parse_quantity(size)) // BLOCK + 1), folder) for folder, size in disks]
                return "fill", f"{left:.3f}", *chain.from_iterable(sized)
        return "signal", SIGNALS[fault.kind]

    def _remove(self, kind: str, target: Target) -> bool:
        """Whether the pod was still there."""
        options = V1DeleteOptions(preconditions=V1Preconditions(uid=target.uid))
        core, namespace = self._core, self.operator.own_namespace
        try:
            if kind == DELETE_POD:
                core.delete_namespaced_pod(target.name, namespace, body=options, _request_timeout=REQUEST_SECONDS)
            else:
                metadata = V1ObjectMeta(name=target.name, namespace=namespace)
                body = V1Eviction(metadata=metadata, delete_options=options)
                core.create_namespaced_pod_eviction(target.name, namespace, body, _request_timeout=REQUEST_SECONDS)
        except ApiException as error:
            if error.status in {NOT_FOUND, CONFLICT}:
                return False  # the pod has ended meanwhile, or another one has its name
            if error.status == FORBIDDEN or (error.status == TOO_MANY and kind == EVICT):
                raise RefusedError(str(error.reason or error.body)) from error
            raise
        return True

    def _command(self, fault: PlannedFault, target: Target, *argv: str) -> float | None:
        """Let a shell in the pod inflict a fault, on all processes but itself and the one with the number 1.

        Returns when that began, by the clock of the pod; None if the pod had ended before.
        """
        try:
            answer = stream(
                self._core.connect_get_namespaced_pod_exec,
                target.name,
                self.operator.own_namespace,
                container=WORKLOAD_CONTAINER,
                command=["/bin/sh", "-c", IN_THE_POD, f"ml-metrics-fault-{fault.number}", *argv],
                stdin=False,
                stdout=True,
                stderr=True,
                tty=False,
                _preload_content=False,
                _request_timeout=REQUEST_SECONDS,
            )
            answer.run_forever(timeout=REQUEST_SECONDS)
            told = json.loads(answer.read_channel(ERROR_CHANNEL) or "{}")
        except ApiException as error:
            if "403" in str(error.reason) or error.status == FORBIDDEN:
                raise RefusedError(f"the cluster allows no command in the pod: {error.reason}") from error
            if "404" in str(error.reason) or "400" in str(error.reason):
                return None  # the pod has ended meanwhile
            raise
        # a command that ends with its container has no exit code of its own
        if told.get("status") == "Failure" and told.get("reason") not in {"NonZeroExitCode", "InternalError"}:
            raise RefusedError(str(told.get("message")))
        if any(one.get("message") == NOT_FULL for one in (told.get("details") or {}).get("causes") or ()):
            raise RefusedError("the cluster does not bound the volume: Kubernetes does since version 1.22")
        if told.get("reason") == "InternalError" and "sh" in str(told.get("message")) and "no such file" in str(told):
            raise RefusedError("the image has no /bin/sh, which inflicts it")
        try:
            began = float(answer.read_channel(STDOUT_CHANNEL))
        except ValueError:  # an image without `date`, or with one that knows whole seconds
            return fault.begun_at
        return began if abs(began - (fault.begun_at or 0.0)) < MAX_SKEW else fault.begun_at

    def _running(self) -> list[Target]:
        """The pods whose workload runs: steps are evidence of it before the cluster is."""
        has_steps = self.steps.newest is not None
        return [one for one in self.targets() if has_steps or one.started_at is not None]

    def targets(self) -> list[Target]:
        """The pods of the current attempt that have not ended, as the cluster knows them now."""
        client, pending = self.operator.__dict__.get("client"), self.operator.pending
        if client is None or pending is None or pending.pod is None or not self.operator.created:
            return []
        if client is not self._client:
            # of its own: a command in a pod changes the client while it runs
            self._core, self._client = CoreV1Api(ApiClient(client.api_client.configuration)), client
        try:
            found = self._core.list_namespaced_pod(
                self.operator.own_namespace,
                label_selector=f"{RUN_KEY}={self.run_key}",
                _request_timeout=REQUEST_SECONDS,
            )
        except OF_CLUSTER as error:
            if is_passing(error):
                return []
            raise
        pods: Iterable[dict[str, Any]] = ApiClient().sanitize_for_serialization(found)["items"]
        return sorted(self._of_attempt(pods, pending.pod), key=lambda one: one.host)

    def _of_attempt(self, pods: Iterable[dict[str, Any]], name: str) -> Iterable[Target]:
        for pod in pods:
            metadata = pod["metadata"]
            labels, workload = metadata.get("labels") or {}, outcome_of(pod, [])
            of_attempt = name in {metadata["name"], labels.get("job-name"), labels.get(NAME_LABEL)}
            if not of_attempt or metadata.get("deletionTimestamp") or workload.ended_at or workload.queued_at is None:
                continue
            slice_number = str(labels.get(SLICE_LABEL, "0"))
            host = int(slice_number) * self.operator.test.hosts + index_of(pod)
            limits = next((one.get("resources") or {}).get("limits") or {}
                          for one in pod["spec"]["containers"] if one["name"] == WORKLOAD_CONTAINER)  # fmt: skip
            created_at = workload.queued_at.timestamp()
            started_at = workload.started_at.timestamp() if workload.started_at else None
            memory = limits.get("memory", "")
            yield Target(metadata["name"], metadata["uid"], host, created_at, started_at, memory)

    def _write(self, journal: FaultJournal) -> None:
        self.journal = replace(journal, steps_from=tuple(sorted(self.steps.sources))[:10])
        self.folder.write(DOCUMENT, self.journal.document())


class RefusedError(MlMetricsError):
    """The cluster does not allow a fault."""
