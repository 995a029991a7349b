"""The operators that run a workload on several hosts at once: a TPU slice, several GPU nodes, or several slices."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self

from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import ApiClient, CustomObjectsApi
from kubernetes.client import models as k8s
from kubernetes.client.exceptions import ApiException

from ml_metrics.airflow.clusters import outcome
from ml_metrics.airflow.clusters.manifests import GROUP, NAME_LABEL, PLURAL, VERSION, as_job, job_set_of, numbered
from ml_metrics.airflow.clusters.manifests import job as job_of
from ml_metrics.airflow.clusters.manifests import service as service_of
from ml_metrics.airflow.clusters.outcome import EVENT_REASONS, QUEUE_LABEL, Hosts, Stage, index_of, outcome_of
from ml_metrics.airflow.operators.attempts import TaskTimeoutError, end_is_known, is_missing
from ml_metrics.airflow.operators.cluster import is_outage, is_passing
from ml_metrics.airflow.operators.container_logs import join_in_time, known_secrets, logs_of, save_logs
from ml_metrics.airflow.operators.run import RUN_KEY, folder_of, run_of
from ml_metrics.airflow.operators.run_workload import CONFLICT, NOT_FOUND
from ml_metrics.airflow.operators.workload_base import CHUNK_BYTES, WorkerStoppedError, WorkloadBase, check_policy
from ml_metrics.airflow.private import JOB_NAME_PREFIX, TRIGGER_FAIL_REPR, checked
from ml_metrics.airflow.versions import TaskDeferred, without_events_on_startup
from ml_metrics.core.errors import ConfigError, StorageError
from ml_metrics.core.model import WORKLOAD_CONTAINER, JobStatus
from ml_metrics.measure import ContainerLog, Excerpt, Role, stamp_and_line, write_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from airflow.sdk import Context
    from kubernetes.client import BatchV1Api, CoreV1Api

    from ml_metrics.airflow.clusters.manifests import Manifest
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Workload
    from ml_metrics.measure import FirstError
    from ml_metrics.store.run_folder import RunFolder


MAX_FOLLOWED_HOSTS = 64
"""How many hosts are followed while they run. The logs of others are read after the end."""
MAX_LOG_BYTES = 16 * 1024 * 1024
"""How much of the log of a host is kept and saved: half of it from its beginning, half from its end."""
MAX_ALL_BYTES = 64 * 1024 * 1024
"""How much of the logs of all hosts together."""
MAX_LINE_BYTES = 256 * 1024
"""How much of a line is kept: a line may have no end."""
MAX_WAITING_LINES = 100_000
"""How many lines of the first host wait for the task log. A workload can write faster than Airflow logs."""
LEFT_OUT = "{} lines came faster than they can be logged: they are in the saved log only"
RETRY_SECONDS = 2.0
REMAINING_HOSTS_TIMEOUT_SECONDS = 60.0
"""How long to read the logs of hosts that were not followed."""
READERS = 16
"""How many of them are read at once."""
LAST_LINES_TIMEOUT_SECONDS = 10.0
"""How long to wait for the last lines after the workload has ended."""


def lines_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a log that comes in pieces, and of a line that is too long its beginning."""
    line = bytearray()
    for piece in pieces:
        *ends, rest = piece.split(b"\n")
        for end in ends:
            line += end[: MAX_LINE_BYTES - len(line)]
            yield bytes(line) + b"\n"
            line.clear()
        line += rest[: MAX_LINE_BYTES - len(line)]
    if line:
        yield bytes(line)


class HostLogs:
    """Follows the logs of hosts in threads. Only the thread of the caller writes to the task log."""

    def __init__(
        self,
        open_log: Callable[[str], Iterable[bytes]],
        log: Callable[[str], None],
        mask: Callable[[str], str] = str,
        hosts: int = 1,
    ) -> None:
        self._open_log, self._log, self._mask = open_log, log, mask
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._left_out = 0
        self._threads: dict[int, Thread] = {}
        self._ended: set[int] = set()
        self._over = Event()
        self._most = min(MAX_LOG_BYTES, MAX_ALL_BYTES // hosts)
        self._excerpts: dict[int, Excerpt] = {}
        self._saved = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    @property
    def first_errors(self) -> Mapping[int, FirstError]:
        return {host: error for host, one in sorted(self._excerpts.items()) if (error := one.first_error)}

    def follow(self, pods: Iterable[dict[str, Any]]) -> None:
        """Follow every host that has started, until it has ended."""
        for pod in pods:
            host, workload = index_of(pod), outcome_of(pod, [])
            if workload.ended_at is not None:
                self._ended.add(host)
            if workload.started_at is not None and host < MAX_FOLLOWED_HOSTS and host not in self._threads:
                thread = Thread(target=self._follow, args=(host, pod["metadata"]["name"]), daemon=True)
                self._threads[host] = thread
                thread.start()

    def log_for(self, seconds: float) -> None:
        """Write lines of the first host to the task log, for a number of seconds."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                self._log(self._lines.get(timeout=left))
            except Empty:
                return

    def save(self, folder: RunFolder, attempt: int, pods: Iterable[dict[str, Any]]) -> list[str]:
        """Read the logs to their ends, save them to the run folder, and return the names of their files."""
        if self._saved:
            return []
        self._saved = True
        self._ended.update(self._threads)
        join_in_time(self._threads.values(), LAST_LINES_TIMEOUT_SECONDS)
        self._over.set()
        # also all hosts of a workload that had ended when it was first seen
        others = [pod for pod in pods if index_of(pod) not in self._threads]
        self._read_in_time(sorted(others, key=lambda pod: outcome_of(pod, []).status is JobStatus.SUCCESS))
        while not self._lines.empty():
            self._log(self._lines.get())
        if self._left_out:
            self._log(LEFT_OUT.format(self._left_out))
        saved = []
        for host, excerpt in sorted(self._excerpts.items()):
            name = f"attempt-{attempt}-host-{host}.log"
            try:
                write_log(folder, name, excerpt.data())
                saved.append(name)
            except StorageError as error:  # a missing log does not fail the task
                self._log(f"a log could not be saved: {error}")
        return saved

    def _read_in_time(self, pods: Iterable[dict[str, Any]]) -> None:
        """Read the logs of ended hosts, several at once, as long as there is time."""
        waiting: SimpleQueue[dict[str, Any]] = SimpleQueue()
        for pod in pods:
            waiting.put(pod)

        def read() -> None:
            with suppress(Empty):
                while time.monotonic() < deadline:
                    pod = waiting.get_nowait()
                    self._read(index_of(pod), pod["metadata"]["name"])

        deadline = time.monotonic() + REMAINING_HOSTS_TIMEOUT_SECONDS
        readers = [Thread(target=read, daemon=True) for _ in range(min(waiting.qsize(), READERS))]
        for reader in readers:
            reader.start()
        join_in_time(readers, REMAINING_HOSTS_TIMEOUT_SECONDS)

    def _follow(self, host: int, pod: str) -> None:
        """Read a log to its end. A stream can end before its container, for example when the API server restarts."""
        newest, last = "", False
        while not last and not self._over.is_set():
            last = host in self._ended
            complete, newest = self._read(host, pod, newest)
            last = last and complete
            if not last:
                self._over.wait(RETRY_SECONDS)

    def _read(self, host: int, pod: str, after: str = "") -> tuple[bool, str]:
        """Read the log after a time. Return whether the cluster answered, and the time of the newest line."""
        newest, excerpt = after, self._excerpts.setdefault(host, Excerpt(self._most))
        try:
            for raw in self._open_log(pod):
                stamp, line = stamp_and_line(raw)
                if stamp <= after:
                    continue  # already read before the stream broke
                newest, line = stamp, self._mask(line)
                excerpt.add(stamp, line)
                if host == 0:
                    self._show(line.rstrip("\n"))
        except Exception as error:  # noqa: BLE001  (an unreadable log must not end the workload)
            if not is_outage(error):
                self._lines.put(f"the log of host {host} cannot be read: {error}")
            return not is_outage(error), newest
        return True, newest

    def _show(self, line: str) -> None:
        """Put a line on its way to the task log, unless too many wait already."""
        if self._lines.qsize() >= MAX_WAITING_LINES:
            self._left_out += 1
            return
        if self._left_out:
            self._lines.put(LEFT_OUT.format(self._left_out))
            self._left_out = 0
        self._lines.put(line)


FORBIDDEN = 403
MAX_PODS_WITH_EVENTS = 5
"""For how many hosts that have not started events are read: more would not add information."""


@dataclass(frozen=True, slots=True)
class HostObjects:
    """The objects of one run in the cluster."""

    core: CoreV1Api
    batch: BatchV1Api
    namespace: str
    labels: dict[str, str]

    def newest_job(self) -> Any:
        present = [job for job in self._jobs() if job.metadata.deletion_timestamp is None]
        return max(present, key=lambda job: job.metadata.creation_timestamp, default=None)

    def create_service(self, test: TestDefinition, name: str) -> None:
        with ignoring(CONFLICT):
            body = service_of(test, name=name, labels={RUN_KEY: self.labels[RUN_KEY]})
            self.core.create_namespaced_service(self.namespace, body)

    def adopt_service(self, name: str) -> None:
        """Make the Job the owner of its service, so that the cluster removes both together."""
        job = self.batch.read_namespaced_job(name, self.namespace)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job.metadata.uid}
        self.core.patch_namespaced_service(name, self.namespace, {"metadata": {"ownerReferences": [owner]}})
        if job.spec.completion_mode != "Indexed":
            raise ConfigError(
                f"{name}: this cluster has no Indexed Jobs, which several hosts need; use Kubernetes 1.24 or later"
            )

    def read_hosts(self, name: str, *, with_events: bool = False) -> Hosts:
        plain = ApiClient().sanitize_for_serialization
        job = plain(self.batch.read_namespaced_job(name, self.namespace))
        pods = plain(self.core.list_namespaced_pod(self.namespace, label_selector=f"job-name={name}"))["items"]
        return Hosts(job, tuple(pods), *self.explanations(job, pods) if with_events else ())

    def explanations(
        self, job: dict[str, Any], pods: Sequence[dict[str, Any]]
    ) -> tuple[tuple[dict[str, Any], ...], dict[str, Any] | None]:
        """Return the events of a Job and of hosts that have not started, and what Kueue has decided about the Job."""
        waiting = [pod["metadata"]["uid"] for pod in pods if outcome_of(pod, []).started_at is None]
        selectors = [f"involvedObject.uid={uid}" for uid in (job["metadata"]["uid"], *waiting[:MAX_PODS_WITH_EVENTS])]
        events = [event for selector in selectors for event in self._events(selector)]
        failed = any(
            one.get("type") == "Failed" and one.get("status") == "True"
            for one in (job.get("status") or {}).get("conditions") or []
        )
        # no pod shows why: the cluster has ended it and removed it
        if failed and not any((pod.get("status") or {}).get("phase") == "Failed" for pod in pods):
            prefix = f"{job['metadata']['name']}-"
            events += [
                event
                for reason in EVENT_REASONS
                for event in self._events(f"involvedObject.kind=Pod,reason={reason}")
                if str(event["involvedObject"].get("name")).startswith(prefix)
            ]
        return tuple(events), self._admission(job) if job["spec"].get("suspend") else None

    def _events(self, selector: str) -> list[dict[str, Any]]:
        found = self.core.list_namespaced_event(self.namespace, field_selector=selector)
        return list(ApiClient().sanitize_for_serialization(found)["items"])

    def _admission(self, job: dict[str, Any]) -> dict[str, Any] | None:
        """Return the Workload in which Kueue records what it decides about a Job; None if it cannot be read."""
        try:
            found: Any = CustomObjectsApi(self.core.api_client).list_namespaced_custom_object(
                outcome.GROUP,
                outcome.VERSION,
                self.namespace,
                outcome.PLURAL,
                label_selector=f"{outcome.OWNER_LABEL}={job['metadata']['uid']}",
            )
        except ApiException as error:
            if error.status not in {FORBIDDEN, NOT_FOUND}:
                raise
            return None
        return next(iter(found["items"]), None)

    def remove_all(self) -> None:
        for job in self._jobs():
            with ignoring(NOT_FOUND):
                self.batch.delete_namespaced_job(job.metadata.name, self.namespace, propagation_policy="Background")
        for service in self.core.list_namespaced_service(self.namespace, label_selector=self.selector).items:
            with ignoring(NOT_FOUND):
                self.core.delete_namespaced_service(service.metadata.name, self.namespace)

    def _jobs(self) -> list[k8s.V1Job]:
        found: list[k8s.V1Job] = self.batch.list_namespaced_job(self.namespace, label_selector=self.selector).items
        return found

    @property
    def selector(self) -> str:
        return f"{RUN_KEY}={self.labels[RUN_KEY]}"


NO_JOB_SETS = (
    f"this cluster has no JobSets ({GROUP}/{VERSION}), which `job_set` needs: install the JobSet controller, or leave "
    "`job_set` out"
)


@dataclass(frozen=True, slots=True)
class JobSetObjects(HostObjects):
    """The objects of one run in the cluster."""

    def newest_job(self) -> Manifest | None:
        present = [one for one in self._job_sets() if not one["metadata"].get("deletionTimestamp")]
        return max(present, key=lambda one: str(one["metadata"]["creationTimestamp"]), default=None)

    def create_job_set(self, body: Manifest) -> None:
        """Create a JobSet. Raises ConfigError if the cluster does not know them."""
        try:
            self._api.create_namespaced_custom_object(GROUP, VERSION, self.namespace, PLURAL, body)
        except ApiException as error:
            raise (ConfigError(NO_JOB_SETS) if error.status == NOT_FOUND else error) from error

    def read_hosts(self, name: str, *, with_events: bool = False) -> Hosts:
        plain = ApiClient().sanitize_for_serialization
        found: Any = self._api.get_namespaced_custom_object(GROUP, VERSION, self.namespace, PLURAL, name)
        pods = plain(self.core.list_namespaced_pod(self.namespace, label_selector=f"{NAME_LABEL}={name}"))["items"]
        hosts = numbered(found, pods)
        job = as_job(found, hosts)
        return Hosts(job, hosts, *self.explanations(job, hosts) if with_events else ())

    def remove_all(self) -> None:
        for one in self._job_sets():
            with ignoring(NOT_FOUND):
                self._api.delete_namespaced_custom_object(
                    GROUP, VERSION, self.namespace, PLURAL, one["metadata"]["name"], propagation_policy="Background"
                )

    def _job_sets(self) -> list[Manifest]:
        try:
            found: Any = self._api.list_namespaced_custom_object(
                GROUP, VERSION, self.namespace, PLURAL, label_selector=self.selector
            )
        except ApiException as error:
            raise (ConfigError(NO_JOB_SETS) if error.status == NOT_FOUND else error) from error
        return list(found["items"])

    @property
    def _api(self) -> Any:
        return CustomObjectsApi(self.core.api_client)


@contextmanager
def ignoring(status: int) -> Iterator[None]:
    """Ignore a status: an earlier process or the cluster itself has done it already."""
    try:
        yield
    except ApiException as error:
        if error.status != status:
            raise


POLL_SECONDS, POLL_SECONDS_WITH_FAULTS = 5.0, 1.0
FIRST_CHECK = timedelta(seconds=30)
"""When the task checks hosts again that do not run yet. The time then doubles,"""
LAST_CHECK = timedelta(minutes=5)
"""up to this."""
REMOVED = "the cluster has removed its pod"


@checked
class RunHosts(WorkloadBase, KubernetesJobOperator):
    """Run the workload of a test as a Job with one pod for each host."""

    kind_of_object = "job"
    max_name_length = 36
    """Longer names of tests are cut in names of Jobs: host names, which add a number, have at most 63 characters."""
    pod: k8s.V1Pod | None = None
    """The pod that the triggerer watches."""

    def __init__(self, *, test: TestDefinition, **options: Any) -> None:
        own: dict[str, Any] = {
            "completions": test.hosts,
            "parallelism": test.hosts,
            "completion_mode": "Indexed",
            "backoff_limit": 0,  # the workload fails with its first host; Airflow starts the next attempt
            "suspend": True if test.queue else None,
            "random_name_suffix": False,
            "logging_interval": None,  # logs are read at the end
            "get_logs": False,
            **without_events_on_startup(),
        }
        super().__init__(test=test, **{**own, **options})
        self.hosts: Hosts | None = None
        self._logs: HostLogs | None = None
        self._secrets_are_known = False
        self._trigger_failed = False

    def execute(self, context: Context) -> None:
        """Start the Job, or take over the Job of a worker that died, and wait for its end."""
        if self.already_ended(context):
            return
        with self.recorded(context):
            self.write_identity(context)
            self.run_attempts(context, lambda: self._attempt(context))

    def _attempt(self, context: Context) -> None:
        with self._clean_up():
            self.retry_after_outages(lambda: self._find_or_start(context))
            self.retry_after_outages(lambda: self._wait_and_save_logs(context))

    def forget_attempt(self) -> None:
        super().forget_attempt()
        self.hosts, self._logs, self.job, self.job_request_obj = None, None, None, None

    def resume(self, context: Context, event: Any = None) -> None:  # noqa: ARG002  (the event of the timer)
        self.execute(context)

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> None:
        self._trigger_failed = event.get("status") == "error"
        if self._trigger_failed:
            self.log.warning("the triggerer no longer watches the pod: %s", event.get("message"))
        self.execute(context)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Continue even if the trigger itself failed: the task gets the state of the hosts from the cluster."""
        if next_method == TRIGGER_FAIL_REPR:
            reason = (next_kwargs or {}).get("error", "unknown reason")
            return self.trigger_reentry(context, {"status": "error", "message": str(reason)})
        return super().resume_execution(next_method, next_kwargs, context)

    def build_job_request_obj(self, context: Context | None = None) -> k8s.V1Job:
        """Return the Job that `ml-metrics render` prints, with the folder and the parameters of this run."""
        if context is None:
            return super().build_job_request_obj(context)
        run, folder = run_of(self.test.name, context), folder_of(self.test.name, context)
        made = job_of(
            self.test,
            name=f"{JOB_NAME_PREFIX}{self.name}",
            run_dir=self.workload_path(folder),
            env={"JOB_NAME": run.job_name},
            labels={RUN_KEY: run.key},
        )
        self.use_template({"apiVersion": "v1", "kind": "Pod", **made["spec"]["template"]}, context)
        self.ttl_seconds_after_finished = made["spec"]["ttlSecondsAfterFinished"]
        self.labels = {**made["metadata"]["labels"], **self.labels}
        job = super().build_job_request_obj(context)
        added = job.spec.template.metadata  # by the provider, and not allowed in pods of a Job
        added.name = added.namespace = None
        added.labels.pop(QUEUE_LABEL, None)  # the queue admits the Job, and must not queue its pods again
        check_policy(self.test, job.spec.template, job.metadata.namespace)
        return job

    def end_workload(self) -> None:
        if self.created:
            self._last_observed()
            self.remove_objects()

    def remove_objects(self) -> None:
        self._objects().remove_all()

    def observe(self) -> Workload | None:
        if not self.created or self.pending is None or self.pending.pod is None:
            return None
        try:
            self.hosts = self._objects().read_hosts(self.pending.pod, with_events=True)
        except ApiException as error:
            if error.status != NOT_FOUND:
                raise
            last = self.hosts.outcome() if self.hosts else self.pending
            detail = "the Job was deleted before its workload had ended"
            return replace(last, status=JobStatus.FAILURE, failure_reason="JobDeleted", detail=detail)
        return self.hosts.outcome()

    def name_of_object(self, end: Workload) -> str | None:
        return self.pending.pod if self.pending else end.pod

    def _objects(self) -> HostObjects:
        return HostObjects(self.client, self.job_client, self.own_namespace, dict(self.labels))

    def _find_or_start(self, context: Context) -> None:
        """Take over the Job of an earlier process if its end is unknown. Otherwise remove it, and start a new one.

        A Job that somebody has deleted meanwhile is taken over as well: its end is the deletion.
        """
        folder = folder_of(self.test.name, context)
        before = folder.read_workload()
        objects = self._objects()
        job = objects.newest_job()
        unknown = job is not None and before is not None and not end_is_known(before)
        if unknown or is_missing(folder, context["ti"]):
            self.take_over(context)
            return
        objects.remove_all()
        self._start(context)

    def _start(self, context: Context) -> None:
        run = run_of(self.test.name, context)
        self.start_attempt(context, None, None)
        # the same in every process
        attempt = self.pending.attempts if self.pending else 1
        self.name = f"{run.test[: self.max_name_length].rstrip('-')}-{run.key[:8]}-{attempt}"
        request = self.job_request_obj = self.build_job_request_obj(context)
        name, namespace = request.metadata.name, request.metadata.namespace
        self.start_attempt(context, namespace, name)
        context["ti"].xcom_push(key="job_name", value=name)
        context["ti"].xcom_push(key="job_namespace", value=namespace)
        self.created = True  # from here on, a lost response may have been a success
        try:
            self._create(request)
            self.mark_created(context)
            self._check_created(name)
        except ApiException as error:
            self.created = is_outage(error)
            raise

    def _create(self, request: k8s.V1Job) -> None:
        self._objects().create_service(self.test, request.metadata.name)
        self.job = self.create_job(request)

    def _check_created(self, name: str) -> None:
        self._objects().adopt_service(name)

    def _wait_and_save_logs(self, context: Context) -> None:
        with HostLogs(self._open_log, self.log.info, self._without_secrets, self.test.pods) as self._logs:
            try:
                error = self._wait(context, self._logs)
                self.observed = self.as_planned(self.observe())
                self.record_observed()  # the Job is removed next
                self.save_logs()
                failed = self.observed is not None and self.observed.status is JobStatus.FAILURE
                if self.hosts is not None and self.hosts.errors and failed:
                    self.observed = self.hosts.outcome()  # the logs state which host failed first
            except (TaskDeferred, WorkerStoppedError):
                raise
            except BaseException as failure:
                if not is_passing(failure):
                    self.save_logs()
                raise
        if error is not None:
            raise error
        if self.observed is not None and self.observed.status is not JobStatus.SUCCESS:
            raise AirflowException(f"{self.observed.failure_reason}: {self.observed.detail}")

    def _wait(self, context: Context, logs: HostLogs) -> AirflowException | None:
        """Wait for the end of the Job. Return the error if waiting is useless or takes too long."""
        limit = context["ti"].start_date + self.max_duration
        while True:
            try:
                self.hosts = self._objects().read_hosts(str(self.pending and self.pending.pod))
            except ApiException as error:
                if error.status != NOT_FOUND:
                    raise
                return AirflowException("the Job was deleted before its workload had ended")
            stage = self.hosts.stage
            if self.hosts.over(datetime.now(UTC)):
                return None
            if datetime.now(UTC) > limit:
                return TaskTimeoutError("the task ran too long")
            if stage is not Stage.RUNNING:
                if reason := self.hosts.start_failure:
                    return AirflowException(f"the hosts cannot start: {reason}")
                since = self.hosts.waiting_since
                if since is not None and datetime.now(UTC) - since >= self.test.startup_timeout:
                    return AirflowException(f"the hosts are still {stage} after {self.test.startup_timeout}")
            if self.deferrable and not self.keeps_process and (stage is not Stage.RUNNING or self.hosts.running_pod):
                self._defer(context, self.hosts)
            self._find_secrets(self.hosts.pods)
            logs.follow(self.hosts.pods)
            logs.log_for(POLL_SECONDS_WITH_FAULTS if self.test.faults else POLL_SECONDS)

    def _defer(self, context: Context, hosts: Hosts) -> None:
        """Leave the worker: until a host has ended, or for a while if not all run yet or the trigger failed."""
        running = hosts.stage is Stage.RUNNING
        if running and not self._trigger_failed:
            metadata = k8s.V1ObjectMeta(name=hosts.running_pod, namespace=self.own_namespace)
            self.pod = k8s.V1Pod(metadata=metadata, status=k8s.V1PodStatus(phase="Running"))
            self.invoke_defer_method(context=context)
        now = datetime.now(UTC)
        waited = timedelta() if running else now - (hosts.waiting_since or now)
        left = max(self.test.startup_timeout - waited, timedelta(seconds=1))
        pause = min(max(FIRST_CHECK, waited), LAST_CHECK, left)
        self.defer(trigger=TimeDeltaTrigger(pause), method_name="resume")

    def fetch_logs(self, folder: RunFolder, attempt: int) -> list[ContainerLog]:
        """Save the logs of all hosts, that of the host that failed first at first; of sidecars the last lines."""
        hosts = self.hosts
        self._find_secrets(hosts.pods if hosts else ())
        if hosts is None or not hosts.pods:
            note = "no pod exists whose logs could be read"
            return [ContainerLog(attempt, WORKLOAD_CONTAINER, Role.WORKLOAD, note=note)]
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

    def _find_secrets(self, pods: Sequence[dict[str, Any]]) -> None:
        if pods and not self._secrets_are_known:
            self._secrets_are_known = True
            self.hidden = known_secrets(pods)

    def _without_secrets(self, line: str) -> str:
        return self.hidden.without_values(line)

    def _open_log(self, pod: str) -> Iterable[bytes]:
        response = self.client.read_namespaced_pod_log(
            pod, self.own_namespace, container=WORKLOAD_CONTAINER, follow=True, timestamps=True, _preload_content=False
        )
        return lines_of(response.stream(CHUNK_BYTES))

    @contextmanager
    def _clean_up(self) -> Iterator[None]:
        """Remove the objects of the run when the block ends, unless a later process may take them over."""
        try:
            yield
        except (TaskDeferred, WorkerStoppedError):
            raise
        except BaseException as error:
            if self.created and not is_passing(error):
                self._last_observed()
                self._remove_all()
            raise
        self._remove_all()

    def _remove_all(self) -> None:
        try:
            self._objects().remove_all()
        except Exception as error:
            if not is_passing(error):
                raise
            self.log.warning("the Job could not be removed; the cluster removes it after its time to live: %s", error)


class RunJobSet(RunHosts):
    """Run the workload of a test as a JobSet with one Job for each slice."""

    kind_of_object = "pod"
    max_name_length = 24
    """The names of its pods also contain the slice."""

    def _objects(self) -> JobSetObjects:
        return JobSetObjects(self.client, self.job_client, self.own_namespace, dict(self.labels))

    def name_of_object(self, end: Workload) -> str | None:
        """Return the name of the first pod: the console has no pages of JobSets."""
        return end.pod

    def _check_created(self, name: str) -> None:
        """Nothing is left to do: a JobSet has a service of its own."""

    def _create(self, request: k8s.V1Job) -> None:
        plain: Any = ApiClient().sanitize_for_serialization(request)
        self._objects().create_job_set(job_set_of(self.test, plain))
