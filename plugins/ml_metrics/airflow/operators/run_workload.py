"""The operator that runs the workload of a test: in a pod, on several hosts, or on several slices.

It is the provider's pod operator as far as the connection, the trigger and the pod's fields go. What it creates, reads
and removes is a kind of `PodObjects`; how often, `attempts.py` counts; what the workload prints, `logs.py` keeps.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import models as k8s
from kubernetes.client.exceptions import ApiException

from ml_metrics.airflow.clusters.local_cluster import refusal
from ml_metrics.airflow.clusters.outcome import QUEUE_LABEL, Stage, disruption, index_of
from ml_metrics.airflow.connections import check_places
from ml_metrics.airflow.operators import attempts
from ml_metrics.airflow.operators.attempts import (
    DELETED,
    ENDED_BY_HAND,
    StopSignal,
    TaskTimeoutError,
    WorkerStoppedError,
    is_ended,
    logs_command,
    workload_link,
)
from ml_metrics.airflow.operators.cluster import (
    KUBECONFIG,
    MAX_OUTAGES,
    OF_CLUSTER,
    CheckedHook,
    Settling,
    check_policy,
    default_kubeconfig,
    first_patience,
    is_outage,
    is_passing,
    kubeconfig_of,
    place_of,
    wait_for_answer,
)
from ml_metrics.airflow.operators.cluster import POLL_SECONDS as OUTAGE_POLL_SECONDS
from ml_metrics.airflow.operators.logs import (
    FETCH_SECONDS,
    HostLogs,
    known_secrets,
    lines_in,
    list_logs,
    logs_of,
    save_logs,
)
from ml_metrics.airflow.operators.objects import (
    CONFLICT,
    NOT_FOUND,
    JobObjects,
    JobSetObjects,
    PodObjects,
    already_exists,
    plain,
)
from ml_metrics.airflow.operators.pod_trigger import patient
from ml_metrics.airflow.operators.run import RUN_FOLDER, RUN_KEY, folder_of, run_of, start_of
from ml_metrics.airflow.storage_mark import mark_storage
from ml_metrics.airflow.versions import (
    TRIGGER_FAIL_REPR,
    AirflowFailException,
    AirflowTaskTimeout,
    TaskDeferred,
    check_attributes,
    checked,
    without_events_on_startup,
)
from ml_metrics.config.clusters import cluster_of, namespace_of
from ml_metrics.config.definition import MAX_OUTAGE, longest_attempt
from ml_metrics.config.params import Usual, allowed_by_hand, check_given, check_program, pinned_node
from ml_metrics.config.policy import current_policy, refused_by_hand
from ml_metrics.config.templates import known_of, rendered
from ml_metrics.core.errors import ConfigError, FailureLogged, StorageError, UnreadableInputError
from ml_metrics.core.extras import reaches_triggerer
from ml_metrics.core.model import WORKLOAD_CONTAINER, JobStatus
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import logger_of
from ml_metrics.measure import SAVED_LINES, ContainerLog, Role, Secrets, lines_of, read_logs
from ml_metrics.pipeline import has_tries_left, retry_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import jinja2
    from airflow.sdk import Context

    from ml_metrics.airflow.clusters.manifests import Manifest
    from ml_metrics.airflow.clusters.outcome import Hosts
    from ml_metrics.airflow.operators.faults import FaultWatch
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Workload
    from ml_metrics.store.run_folder import RunFolder


log = logger_of(__name__)
HOSTNAME = "kubernetes.io/hostname"
"""The label with which every kubelet names its node."""
SHOWN = ("image", "cmds", "arguments")
"""The fields whose values Airflow records and shows."""
CHUNK_BYTES = 16 * 1024
LOG_INTERVAL_SECONDS = 30
"""How often the triggerer copies the log of a single pod."""
CACHED_CLIENTS = ("hook", "client", "cluster_info", "cluster_hook")
"""The cached properties of the provider's operators that belong to one cluster."""
POLL_SECONDS, SHORT_POLL_SECONDS = 5.0, 1.0
CONFLICT_SECONDS = 60.0
"""A pod that is being deleted has half a minute, unless its test says otherwise."""
FIRST_CHECK = timedelta(seconds=30)
"""When the task checks hosts again that do not run yet. The time then doubles,"""
LAST_CHECK = timedelta(minutes=5)
"""up to this."""
ENDING = "ending"
"""The document about a pod that the cluster was ending when the triggerer took over."""
REMOVED = "the cluster has removed its pod"
GONE = {True: "the pod was deleted before its logs could be read", False: "no pod exists whose logs could be read"}


@checked
class RunWorkload(KubernetesPodOperator):
    """Runs the workload of a test, and records its outcome in `workload.json` however the task ends.

    A workload belongs to its run, not to a process: if a worker dies or is stopped, the next try takes it over.
    """

    # the provider's operators would fill in every field with Airflow's whole context, which has all connections
    template_fields: Any = SHOWN
    template_ext: Any = ()
    template_fields_renderers: ClassVar[dict[str, str]] = {}

    def __init__(self, *, test: TestDefinition, **options: Any) -> None:
        self.test, self.cluster, self.max_duration = test, cluster_of(test), longest_attempt(test)
        self.is_single = test.pods == 1 and test.job_set is None
        single = {"logging_interval": LOG_INTERVAL_SECONDS}
        several = {"logging_interval": None, "get_logs": False, **without_events_on_startup()}  # read at the end
        own: dict[str, Any] = {
            **retry_options(test.retries),
            "execution_timeout": self.max_duration,
            "startup_timeout_seconds": int(test.startup_timeout.total_seconds()),
            **(single if self.is_single else several),
        }
        super().__init__(
            name=test.name,
            namespace=namespace_of(test),
            image=test.image,
            cmds=list(test.command),
            arguments=list(test.args),
            random_name_suffix=False,
            **{**own, **options},
        )
        check_attributes(self)
        self.pending: Workload | None = None
        """The current attempt, as it was recorded when it started."""
        self.hosts: Hosts | None = None
        """What the cluster last had of it."""
        self.observed: Workload | None = None
        """The last known state of the workload in the cluster."""
        self.created = False
        """Whether the cluster has, or may have, accepted the workload."""
        self.faults: FaultWatch | None = None
        """What inflicts the planned faults of the current attempt."""
        self.hidden = Secrets()
        """What logs must not show."""
        self.due: datetime | None = None
        """When the run began."""
        self._logs: HostLogs | None = None
        self._secrets_are_known = self._trigger_failed = False
        self._shown_until: Any = None
        """When the triggerer last copied the log."""
        self._unrecorded: RunFolder | None = None
        """The run folder, as long as the end of the workload is not recorded in it."""
        self._folder: RunFolder | None = None
        self._ti: Any = None
        self._task_page = ""
        self._signal: StopSignal | None = None
        """From when the task may have a workload."""
        self._saved_logs_of = 0
        """The attempt whose logs were saved."""

    def execute(self, context: Context) -> None:
        """Start the workload, or take over that of a worker that died, and wait for its end."""
        if self.already_ended(context):
            return
        with self.recorded(context):
            self._identify(context)
            if not self.test.faults:
                self.attempt(context)
                return
            from ml_metrics.airflow.operators.faults import run_attempts  # only the tests that have some import it

            run_attempts(self, context)

    def _identify(self, context: Context) -> None:
        """Write the identity of the run. A workload that the cluster has accepted is followed, even if refused now."""
        if not attempts.is_missing(folder_of(self.test.name, context), context["ti"]):
            self.write_identity(context)
            return
        self.attach(context)
        try:
            self.write_identity(context)
        except ConfigError as error:
            self.log.warning("the workload goes on, though its run would be refused now: %s", error)

    def resume(self, context: Context, event: Any = None) -> None:
        self.execute(context)

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> None:
        """Continue with what the cluster knows. The verdict of the trigger does not count: it may be an outage."""
        self._trigger_failed = event.get("status") == "error"
        if self._trigger_failed:
            self.log.warning("the triggerer no longer watches the pod: %s", event.get("message"))
        self._shown_until = event.get("last_log_time")
        self.execute(context)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Continue even if the trigger itself failed."""
        if next_method == TRIGGER_FAIL_REPR:
            reason = (next_kwargs or {}).get("error", "unknown reason")
            return self.trigger_reentry(context, {"status": "error", "message": str(reason)})
        return super().resume_execution(next_method, next_kwargs, context)

    def defer(self, *, trigger: Any, timeout: Any = None, **options: Any) -> NoReturn:
        """Wait for a limited time only. The providers of Airflow 3.1 and 3.2 set no limit of their own.

        A second try waits as the provider does: it may be one because the triggerer cannot import this package.
        """
        if self.due is not None and self._ti.try_number == 1 and reaches_triggerer():
            trigger = patient(trigger, self.due)
        super().defer(trigger=trigger, timeout=timeout or self.max_duration, **options)

    def attempt(self, context: Context) -> None:
        with self._before_failure(self._clean_up):
            self.retry_after_outages(lambda: self._find_or_start(context))
            self.retry_after_outages(lambda: self._wait_and_save_logs(context))
        self._remove_all()

    def _find_or_start(self, context: Context) -> None:
        """Take over what an earlier process started if its end is unknown. Otherwise remove it, and start anew.

        What somebody has deleted meanwhile is taken over as well: its end is the deletion.
        """
        folder, objects = folder_of(self.test.name, context), self._objects()
        before = folder.read_workload()
        unknown = objects.is_there() and before is not None and not attempts.end_is_known(before)
        if unknown or attempts.is_missing(folder, context["ti"]):
            self.take_over(context)
            self._tell_place(context)
            return
        objects.remove_all()
        self._start(context, folder)

    def _start(self, context: Context, folder: RunFolder) -> None:
        self.pending = self.pending or attempts.start_attempt(folder, context["ti"], self.image)
        name = self._objects().name_of(run_of(self.test.name, context), self.pending.attempts)
        body = self.request(context, name)
        namespace = body["metadata"]["namespace"]
        self.pending = replace(self.pending, namespace=namespace, pod=name)
        folder.write_workload(self.pending)
        self._tell_place(context)
        self.created = True  # from here on, a lost response may have been a success
        try:
            self._create(body)
        except ApiException as error:
            self.created = is_outage(error)
            raise
        attempts.mark_attempt_created(folder, self.pending)
        self._objects().adopt(name)

    def _tell_place(self, context: Context) -> None:
        """Tell Airflow where the workload is; it forgets this before each try."""
        if self.pending is None or self.pending.pod is None:
            return
        kind, name, namespace = "pod" if self.is_single else "job", self.pending.pod, self.own_namespace
        context["ti"].xcom_push(key=f"{kind}_name", value=name)
        context["ti"].xcom_push(key=f"{kind}_namespace", value=namespace)
        self.link(context, name, namespace)

    def _create(self, body: Manifest) -> None:
        """Create the objects of an attempt, again while those of the same name end or a quota changes."""
        end = time.monotonic() + CONFLICT_SECONDS
        while True:
            try:
                return self._objects().create(body)
            except ApiException as error:
                if already_exists(error) and self._objects().is_there():
                    return None  # the response to an earlier request was lost
                if error.status != CONFLICT or time.monotonic() > end:
                    raise
            time.sleep(SHORT_POLL_SECONDS)

    def link(self, context: Context, name: str, namespace: str) -> None:
        """Record a link from the task to its workload, where the cluster has pages of them."""

    def request(self, context: Context, name: str) -> Manifest:
        run, folder = run_of(self.test.name, context), folder_of(self.test.name, context)
        generation = (self.pending or folder.next_start()).generation
        options: dict[str, Any] = {"run_dir": folder.workload_path(generation), "env": {"JOB_NAME": run.job_name}}
        if not self.is_single:
            options |= {"name": name}
        made = self._objects().made(labels=self.labels, **options)
        template = made if self.is_single else {"apiVersion": "v1", "kind": "Pod", **made["spec"]["template"]}
        self.use_template(template, context)
        self.name = name
        found = self.build_pod_request_obj(context)
        if self.is_single and (node := pinned_node(context["dag_run"].conf or {}, self.test.params)):
            found.spec.node_selector = {**(found.spec.node_selector or {}), HOSTNAME: node}
        pod: Manifest = plain(found)
        check_policy(self.test, pod)
        if self.is_single:
            return pod
        about = {key: pod["metadata"][key] for key in ("annotations", "labels") if pod["metadata"].get(key)}
        about["labels"].pop(QUEUE_LABEL, None)  # the queue admits the Job, and must not queue its pods again
        # the workload fails with its first host, and Airflow starts the next attempt
        spec = {**made["spec"], "backoffLimit": 0, "template": {"metadata": about, "spec": pod["spec"]}}
        return {**made, "metadata": {**made["metadata"], "namespace": found.metadata.namespace}, "spec": spec}

    def _wait_and_save_logs(self, context: Context) -> None:
        kept = 0 if self.is_single else self.test.pods
        with (
            HostLogs(self._open_log, self.log.info, self._without_secrets, kept) as self._logs,
            self._before_failure(lambda _: self.save_logs()),
        ):
            error = self._wait(context, self._logs)
            self.observed = self.observed_as_planned()
            self.record_observed()  # it is removed next
            self.save_logs()
            failed = self.observed is not None and self.observed.status is JobStatus.FAILURE
            if self.hosts is not None and self.hosts.errors and failed:
                self.observed = self.hosts.outcome()  # the logs state which host failed first
        end = self.observed
        if end is not None and end.status is not JobStatus.SUCCESS:
            for event in self.hosts.events if self.hosts else ():
                if event.get("type") == "Warning":
                    self.log.warning("%s: %s", event.get("reason"), event.get("message"))
            error = error or AirflowException(f"{end.failure_reason}: {end.detail}")
        if error is not None:
            raise error

    def _wait(self, context: Context, logs: HostLogs) -> AirflowException | None:
        """Wait for the end of the workload. Return the error if waiting is useless or takes too long."""
        limit = context["ti"].start_date + self.max_duration
        what = "pod" if self.is_single else "Job"
        while True:
            try:
                self.hosts = self._objects().read(str(self.pending and self.pending.pod))
            except ApiException as error:
                if error.status != NOT_FOUND:
                    raise
                return AirflowException(f"the {what} was deleted before its workload had ended")
            stage = self._stage_of(self.hosts)
            if self.hosts.over(datetime.now(UTC)):
                return None
            if datetime.now(UTC) > limit:
                return TaskTimeoutError("the task ran too long")
            if stage is not Stage.RUNNING:
                who, are = ("the pod", "is") if self.is_single else ("the hosts", "are")
                if reason := self.hosts.start_failure:
                    return AirflowException(f"{who} cannot start: {reason}")
                since = self.hosts.waiting_since
                if since is not None and datetime.now(UTC) - since >= self.test.startup_timeout:
                    return AirflowException(f"{who} {are} still {stage} after {self.test.startup_timeout}")
            needed = self.faults is not None and self.faults.is_needed
            if self.deferrable and not needed and (stage is not Stage.RUNNING or self.hosts.running_pod):
                self._defer(context, self.hosts)
            self._find_secrets(self.hosts)
            logs.follow(self.hosts.pods)
            soon = self.test.faults or (self.is_single and stage is not Stage.RUNNING)
            logs.log_for(SHORT_POLL_SECONDS if soon else POLL_SECONDS)  # or until the log ends, as the workload does

    def _stage_of(self, hosts: Hosts) -> Stage:
        """Also keep when the workload started, which pods tell only as long as they are there."""
        stage = hosts.stage
        if stage is Stage.RUNNING and self.pending is not None and self.pending.started_at is None:
            self.pending = replace(self.pending, started_at=hosts.outcome().started_at)
        return stage

    def _defer(self, context: Context, hosts: Hosts) -> None:
        """Leave the worker: until a pod has ended, or for a while if not all run yet or the trigger failed."""
        running = hosts.stage is Stage.RUNNING
        if (running or self.is_single) and not self._trigger_failed:
            if self.is_single and disruption(hosts.pods[0].get("status") or {}) and self._folder is not None:
                seen = hosts.pods[0]  # soon nothing else shows why the cluster ends it
                self._folder.write(ENDING, {"pod": seen["metadata"]["name"], "status": seen["status"]})
            name = hosts.running_pod or hosts.pods[0]["metadata"]["name"]
            metadata = k8s.V1ObjectMeta(name=name, namespace=self.own_namespace)
            self.pod = k8s.V1Pod(metadata=metadata, status=k8s.V1PodStatus(phase="Running" if running else "Pending"))
            self.invoke_defer_method(self._shown_until, context=context)
        now = datetime.now(UTC)
        waited = timedelta() if running else now - (hosts.waiting_since or now)
        left = max(self.test.startup_timeout - waited, timedelta(seconds=1))
        pause = min(max(FIRST_CHECK, waited), LAST_CHECK, left)
        self.defer(trigger=TimeDeltaTrigger(pause), method_name="resume")

    @contextmanager
    def _before_failure(self, act: Callable[[BaseException], None]) -> Iterator[None]:
        """Act before an error leaves the block, unless a later process may take over the objects of the run."""
        try:
            yield
        except (TaskDeferred, WorkerStoppedError):
            raise
        except BaseException as error:  # the timeout of Airflow is one too
            if not is_passing(error):
                act(error)
            raise

    def _clean_up(self, error: BaseException) -> None:
        # where its end cannot be recorded, it stays for the next try
        if self.created and not isinstance(error, StorageError):
            self.last_observed()
            self._remove_all()

    def _remove_all(self) -> None:
        try:
            self.remove_objects()
        except OF_CLUSTER as error:
            self.log.warning("the workload could not be removed now; its deadline ends it: %s", error)

    def remove_objects(self) -> None:
        self._objects().remove_all()

    def observe(self) -> Workload | None:
        """Return the state of the workload in the cluster; None if it was never there."""
        if not self.created or self.pending is None or self.pending.pod is None:
            return None
        try:
            self.hosts = self._objects().read(self.pending.pod, with_events=True)
        except ApiException as error:
            if error.status != NOT_FOUND:
                raise
            document = self._folder.read(ENDING) if self._folder is not None and self.is_single else None
            ending = document if document and document.get("pod") == self.pending.pod else None
            lost = self._objects().lost(self.pending, self.hosts, ending)
            if self.is_single:
                self.hosts = None
            return lost
        return self.hosts.outcome()

    def _objects(self) -> PodObjects:
        return self._objects_class(self.client, self.own_namespace, self.labels[RUN_KEY], self.test)

    @property
    def _objects_class(self) -> type[PodObjects]:
        return PodObjects if self.is_single else JobObjects if self.test.job_set is None else JobSetObjects

    @cached_property
    def hook(self) -> Any:
        if self.on_gke:
            return super().hook
        # it connects with what was checked: a kubeconfig may name programs
        return CheckedHook(
            conn_id=self.kubernetes_conn_id,
            in_cluster=self.in_cluster,
            config_file=self.config_file,
            cluster_context=self.cluster_context,
        )

    def convert_config_file_to_dict(self) -> None:
        path = self.config_file or (default_kubeconfig() if KUBECONFIG in os.environ else None)
        self._config_dict = kubeconfig_of(path, None, self.cluster_context, "") if path else None

    def on_kill(self) -> None:
        """End the workload if the task timed out, or somebody ended it. If its worker is stopped, leave it."""
        timed_out = isinstance(sys.exc_info()[1], AirflowTaskTimeout)
        ended = True if self._signal is None or timed_out else self._signal.has_come()
        if ended:
            self.end_by_hand()
        elif ended is False and self._unrecorded is not None:
            self._unrecorded = None  # the end stays unknown until another process records it
            raise WorkerStoppedError

    def end_by_hand(self) -> None:
        self.save_logs()
        self.end_workload()
        if self._unrecorded is not None:
            self._record_end(self._unrecorded, attempts.TaskStoppedError(ENDED_BY_HAND))

    def end_workload(self) -> None:
        if self.created:
            self.last_observed()
            self.remove_objects()

    def save_logs(self, folder: RunFolder | None = None) -> None:
        """Save the last lines of all containers, once for each attempt. A failure to do so is logged, and no more."""
        attempt, folder = self.pending.attempts if self.pending else 0, folder or self._folder
        if not self.created or folder is None or self._saved_logs_of == attempt:
            return
        self._saved_logs_of = attempt
        with FailureLogged(self.log.warning, "the logs of the containers could not be saved"):
            logs = [self._explained(folder, log) for log in self.fetch_logs(folder, attempt)]
            failing = list_logs(folder, logs, self.hidden)
            saved = sum(log.saved for log in logs)
            about = f", for example that of the {failing.title}" if failing else ""
            self.log.info("saved the last lines of %d logs%s, below %s", saved, about, folder.path)

    def _explained(self, folder: RunFolder, log: ContainerLog) -> ContainerLog:
        """Return the log with a note if the local cluster, which has a kubeconfig, refused its container a file."""
        if not (self.config_file and log.failed):
            return log
        note = refusal((log.note, *lines_of(folder, log)), Settings.load())
        if note:
            self.log.warning("%s: %s", log.title, note)
        return replace(log, note="; ".join(filter(None, (log.note, note))))

    def fetch_logs(self, folder: RunFolder, attempt: int) -> list[ContainerLog]:
        """Save the logs of all pods, that of the host that failed first at first; of sidecars the last lines."""
        if self.hosts is None and self.observed is None:
            self.last_observed()
        hosts = self.hosts
        if hosts is None or not hosts.pods:
            return [ContainerLog(attempt, WORKLOAD_CONTAINER, Role.WORKLOAD, note=GONE[self.is_single])]
        self._find_secrets(hosts)
        if self.is_single:
            (pod,) = hosts.pods
            if self._logs:
                self._logs.show_rest(pod)
            named = [(str(pod["metadata"]["name"]), log) for log in logs_of(pod, attempt)]
            return save_logs(folder, named, self.open_tail, self.hidden)
        whole = set(self._logs.save(folder, attempt, hosts.pods)) if self._logs else set()
        if self._logs:
            errors = self._logs.first_errors.items()
            masked = {host: replace(error, text=self.hidden.masked(error.text)) for host, error in errors}
            hosts = self.hosts = replace(hosts, errors=masked)
        first = hosts.failed_first
        pods = sorted(hosts.pods, key=lambda pod: (index_of(pod) != first, index_of(pod)))
        named = [(str(pod["metadata"]["name"]), log) for pod in pods for log in logs_of(pod, attempt, index_of(pod))]
        told = {host: error.text for host, error in hosts.errors.items()}
        saved = [replace(log, saved=True, error=told.get(log.host or 0, "")) for _, log in named if log.file in whole]
        others = [(pod, log) for pod, log in named if log.file not in whole]
        present = {index_of(pod) for pod in pods}
        removed = [
            ContainerLog(attempt, WORKLOAD_CONTAINER, Role.WORKLOAD, host, saved=name in whole, note=REMOVED)
            for host in range(hosts.count)
            if host not in present and (name := f"attempt-{attempt}-host-{host}.log")
        ]
        return [*saved, *save_logs(folder, others, self.open_tail, self.hidden), *removed]

    def _find_secrets(self, hosts: Hosts) -> None:
        if hosts.pods and not self._secrets_are_known:
            self._secrets_are_known = True
            self.hidden = known_secrets(hosts.pods)

    def _without_secrets(self, line: str) -> str:
        return self.hidden.without_values(line)

    def _open_log(self, pod: str) -> Iterable[bytes]:
        # by the clock of the node; a line of the last second may come twice
        ago = datetime.now(UTC) - self._shown_until if self._shown_until else None
        response = self.client.read_namespaced_pod_log(
            pod,
            self.own_namespace,
            container=WORKLOAD_CONTAINER,
            follow=True,
            timestamps=True,
            _preload_content=False,
            **({"since_seconds": max(1, ceil(ago.total_seconds()))} if ago else {}),
        )
        return lines_in(response.stream(CHUNK_BYTES))

    def open_tail(self, pod: str, log: ContainerLog) -> Iterable[bytes]:
        response = self.client.read_namespaced_pod_log(
            pod,
            self.own_namespace,
            container=log.container,
            previous=log.previous,
            tail_lines=SAVED_LINES,
            _preload_content=False,
            _request_timeout=(FETCH_SECONDS, FETCH_SECONDS),
        )
        pieces: Iterable[bytes] = response.stream(CHUNK_BYTES)
        return pieces

    def write_identity(self, context: Context) -> None:
        """Write to the run folder which run it holds, so that the folder alone is enough to judge and load the run.

        Raises ConfigError if the other tasks would not find what this run writes: before its workload costs money.
        """
        check_places(settings := Settings.load())
        mark_storage(settings)
        run, folder = run_of(self.test.name, context), folder_of(self.test.name, context)
        params = dict(context["params"])
        identity = {**asdict(run), "test_file": self.test.model_dump(mode="json", exclude_unset=True), "params": params}
        # what a scheduled run would use; the templates of the test file are filled in by now
        defaults = {name: param.default for name, param in self.test.params.items()}
        usual = Usual(self.image, tuple(self.cmds), tuple(self.arguments), defaults)
        folder.write("run", {**identity, **start_of(run, folder, context["dag_run"], params, usual)})
        if found := "; ".join(refused_by_hand(self.test, params, current_policy())):
            raise ConfigError(f"{self.test.name}: the policy of the administrator refuses this run: {found}")
        self.apply_overrides(params)
        context["ti"].xcom_push(key=RUN_FOLDER, value=folder.path)
        self.labels = {**self.labels, RUN_KEY: run.key}

    def apply_overrides(self, params: Mapping[str, Any]) -> None:
        """Use another image or command if the run was triggered with one. Raises ConfigError if it may not be used."""
        own, allowed = self.test.params, allowed_by_hand(self.test.by_hand, Settings.load().by_hand)
        check_program(params, own, allowed)
        check_given(params, own)
        given: dict[str, Any] = {name: params.get(name) for name in allowed if name not in own}
        self.image = given.get("image") or self.image
        if given.get("command"):
            self.cmds, self.arguments = list(given["command"]), []

    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """Fill in image and argv with the parameters and dates of the run only, unless the policy says otherwise."""
        if current_policy().airflow_templates:
            super().render_template_fields(context, jinja_env)
            return
        for name in SHOWN:
            setattr(self, name, rendered(getattr(self, name), known_of(context), f"{self.test.name}: {name}"))

    def use_template(self, template: dict[str, Any], context: Context) -> None:
        """The template's image and argv are left out: the operator sets them and shows them in the UI."""
        first, *others = template["spec"]["containers"]
        first = {key: value for key, value in first.items() if key not in {"image", "command", "args"}}
        template = {**template, "spec": {**template["spec"], "containers": [first, *others]}}
        if current_policy().airflow_templates:
            self.pod_template_dict = self.render_template(template, context)
        else:
            self.pod_template_dict = rendered(template, known_of(context), f"{self.test.name}: pod")
        # otherwise the provider overwrites the policy of the test with its own default
        containers = self.pod_template_dict["spec"]["containers"]
        workload = next(one for one in containers if one["name"] == WORKLOAD_CONTAINER)
        self.termination_message_policy = workload.get("terminationMessagePolicy", "File")

    def already_ended(self, context: Context) -> bool:
        """Return whether an earlier process recorded the end of the workload, but died before Airflow knew it."""
        try:
            folder = folder_of(self.test.name, context)
            end = attempts.end_of_round(folder, context["ti"], self.test.retries)
        except (ConfigError, UnreadableInputError) as error:  # another try would find the same
            raise AirflowFailException(str(error)) from error
        if end is None:
            return False
        self._remove_recorded(context, folder)
        if end.status is not JobStatus.SUCCESS:
            raise AirflowFailException(f"{end.failure_reason}: {end.detail}")
        self.log.info("the workload succeeded before the process died that waited for it")
        return True

    def _remove_recorded(self, context: Context, folder: RunFolder) -> None:
        """Remove the workload of a process that recorded its end and died. Logs that it did not save are saved."""
        workload = folder.read_workload()
        if workload is None or workload.pod is None:
            return
        with FailureLogged(log.warning, f"the workload {workload.pod} has ended, and may still be in the cluster"):
            self.attach(context)
            if workload.attempts not in {one.attempt for one in read_logs(folder)}:
                self.observe()
                self.save_logs(folder)
            self.remove_objects()

    def take_over(self, context: Context) -> None:
        self.pending, self.created = folder_of(self.test.name, context).read_workload(), True

    def attach(self, context: Context) -> None:
        """Take over the workload of a run in a process that starts none, and connect to its cluster."""
        self.take_over(context)
        self.labels = {**self.labels, RUN_KEY: run_of(self.test.name, context).key}
        self.use_cluster()

    def use_cluster(self) -> None:
        for client in CACHED_CLIENTS:
            self.__dict__.pop(client, None)
        if self.on_gke:
            return
        place = place_of(self.test)
        self.kubernetes_conn_id, self.namespace = place.connection, place.namespace or self.namespace
        self.cluster_context = place.context or self.cluster_context
        self.in_cluster = self.in_cluster if place.in_cluster is None else place.in_cluster
        if place.kubeconfig:
            self.config_file, self.in_cluster = place.kubeconfig, False

    def retry_after_outages(self, action: Callable[[], Any]) -> Any:
        """Call an action, and again after an outage of the API server. The action must find what it started before."""
        outages, settling = 0, Settling()
        while True:
            self.use_cluster()
            try:
                return action()
            except OF_CLUSTER as error:
                if settling.excuses(error):
                    self.log.warning("the API server refuses the request; trying again: %s", attempts.message_of(error))
                    time.sleep(OUTAGE_POLL_SECONDS)
                    continue
                outages += 1
                if not is_outage(error) or outages > MAX_OUTAGES or not self.wait_until_reachable():
                    raise
                settling = Settling()
                self.log.warning("the API server is reachable again (%s); the log is read from the beginning", error)

    def observed_as_planned(self) -> Workload | None:
        observed = self.observe()
        if not self.test.faults or self._folder is None:
            return observed
        from ml_metrics.airflow.operators.faults import as_planned

        return as_planned(observed, self._folder, self.pending)

    def forget_attempt(self) -> None:
        self.pending, self.observed, self.created, self.hosts, self._logs = None, None, False, None, None

    def wait_until_reachable(self) -> bool:
        def request() -> None:
            self.use_cluster()
            self.client.list_namespaced_pod(self.own_namespace, limit=1)

        timeout = MAX_OUTAGE if self.created else first_patience()
        self.log.warning("the API server does not answer; waiting up to %s for it", timeout)
        return wait_for_answer(request, timeout)

    @property
    def on_gke(self) -> bool:
        return self.cluster is not None and self.cluster.on_gke

    @property
    def own_namespace(self) -> str:
        recorded = self.pending.namespace if self.pending else None
        return recorded or self.namespace or self.hook.get_namespace() or self._incluster_namespace or "default"

    @contextmanager
    def recorded(self, context: Context) -> Iterator[None]:
        """Record the outcome in `workload.json` when the block ends, for whatever reason, unless the task defers."""
        folder = self._unrecorded = self._folder = folder_of(self.test.name, context)
        self._ti, self._signal, self._task_page = context["ti"], StopSignal(context["ti"]), context["ti"].log_url
        self.due = context["dag_run"].start_date or context["dag_run"].run_after
        try:
            yield
        except WorkerStoppedError:
            raise attempts.TaskStoppedError("the worker is stopped; the next try takes over the workload") from None
        except BaseException as error:  # raised again below
            if isinstance(error, TaskDeferred) or (isinstance(error, StorageError) and has_tries_left(context["ti"])):
                raise  # an unavailable bucket shows nothing about the workload, which the next try takes over
            if self._unrecorded is None:
                raise
            end = self._record_end(folder, error)
            # another try of the task would start the workload more often than `retries` allows
            final = attempts.end_is_known(end) and not attempts.retries_left(folder, end, self.test.retries)
            if final or isinstance(error, ConfigError):
                if isinstance(error, AirflowTaskTimeout) and self.observed is None:
                    self.end_by_hand()  # Airflow calls `on_kill` for AirflowTaskTimeout, but not for the next exception
                raise AirflowFailException(str(error)) from error
            raise
        if self._unrecorded is not None:
            self._record_end(folder, None)

    def record_observed(self) -> None:
        """Record the observed state already, since no later process could observe it if this one dies."""
        if self._unrecorded is not None and self.observed is not None and self.pending is not None:
            end = attempts.end_of(self.observed, None, self.pending, created=True)
            attempts.write_end(self._unrecorded, self.with_links(end))

    def _record_end(self, folder: RunFolder, error: BaseException | None) -> Workload:
        self._unrecorded = None
        pending = self.pending or attempts.end_without_attempt(folder, self.image)
        end = attempts.end_of(self.last_observed(), error, pending, created=self.created)
        # the gate may delete a workload before the process of its task hears of its own end, at its next heartbeat
        if end.failure_reason in DELETED and self._signal is not None and is_ended(self._signal.ti):
            end = replace(end, failure_reason="Killed", detail=ENDED_BY_HAND)
        end = self.with_links(end)
        attempts.write_end(folder, end)
        self.save_logs()
        return end

    def last_observed(self) -> Workload | None:
        """Return what was observed; if that is nothing, try once more without waiting for an outage to end."""
        if self.observed is None:
            try:
                self.observed = self.observe()
            except OF_CLUSTER as error:
                if not is_passing(error):
                    raise
                self.log.warning("the end of the workload could not be read from the cluster: %s", error)
        return self.observed

    def with_links(self, end: Workload) -> Workload:
        page, cluster = self._task_page, self.cluster if self.on_gke else None
        kind, name = "pod", end.pod  # the console has no pages of JobSets: that of their first pod
        if self.test.hosts > 1 and self.test.job_set is None:
            kind, name = "job", self.pending.pod if self.pending else end.pod
        link = workload_link(cluster, end.namespace, kind, name)
        return replace(end, logs_link=page, workload_link=link, logs_command=logs_command(cluster, end, page))
