"""The operator that runs a workload on several hosts at once: a TPU slice, or several GPU nodes."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.operators.job import JOB_NAME_PREFIX, KubernetesJobOperator
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import models as k8s
from kubernetes.client.exceptions import ApiException

from ml_metrics.airflow_versions import TaskDeferred, without_events_on_startup
from ml_metrics.clusters.containers import logs_of
from ml_metrics.clusters.hosts import Hosts, Stage, index_of
from ml_metrics.clusters.manifests import job as job_of
from ml_metrics.clusters.queue import QUEUE_LABEL
from ml_metrics.logs.documents import ContainerLog, Role
from ml_metrics.model import WORKLOAD_CONTAINER, JobStatus
from ml_metrics.operators.attempts import TaskTimeoutError, end_is_known, is_missing
from ml_metrics.operators.cluster import is_outage, is_passing
from ml_metrics.operators.container_logs import known_secrets, save_logs
from ml_metrics.operators.host_logs import HostLogs, lines_of
from ml_metrics.operators.host_objects import HostObjects
from ml_metrics.operators.run_workload import NOT_FOUND
from ml_metrics.operators.saves_logs import CHUNK_BYTES
from ml_metrics.operators.stop_signal import WorkerStoppedError
from ml_metrics.operators.tasks import folder_of, run_of
from ml_metrics.operators.workload_base import RUN_KEY, WorkloadBase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow.sdk import Context

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.logs.excerpt import FirstError
    from ml_metrics.model import Workload
    from ml_metrics.run_folder import RunFolder

POLL_SECONDS = 5.0
FIRST_CHECK = timedelta(seconds=30)
"""When the task checks hosts again that do not run yet. The time then doubles,"""
LAST_CHECK = timedelta(minutes=5)
"""up to this."""
REMOVED = "the cluster has removed its pod"


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
        with self.recorded(context), self._clean_up():
            self.write_identity(context)
            self.retry_after_outages(lambda: self._find_or_start(context))
            self.retry_after_outages(lambda: self._wait_and_save_logs(context))

    def resume(self, context: Context, event: Any = None) -> None:  # noqa: ARG002  (the event of the timer)
        """Continue after a while."""
        self.execute(context)

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> None:
        """Continue after the watched pod has ended, or could not be watched."""
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
        self.check_policy(job.spec.template, job.metadata.namespace)
        return job

    def end_workload(self) -> None:
        """Remove the Job and its service."""
        if self.created:
            self._last_observed()
            self.remove_objects()

    def remove_objects(self) -> None:
        """Remove the Job and its service."""
        self._objects().remove_all()

    def observe(self) -> Workload | None:
        """Return the state of the workload from its Job and the pods of all hosts."""
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
        """Return the name of the Job."""
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
        """Wait until the Job has ended or cannot start, while its log is copied, and save the logs of all hosts."""
        with HostLogs(self._open_log, self.log.info, self._without_secrets, self.test.pods) as self._logs:
            try:
                error = self._wait(context, self._logs)
                self.observed = self.observe()
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
            if stage is not Stage.RUNNING and (failure := self._startup_error(self.hosts)):
                return failure
            if self.deferrable and (stage is not Stage.RUNNING or self.hosts.running_pod):
                self._defer(context, self.hosts)
            self._find_secrets(self.hosts.pods)
            logs.follow(self.hosts.pods)
            logs.log_for(POLL_SECONDS)

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

    def _startup_error(self, hosts: Hosts) -> AirflowException | None:
        if reason := hosts.start_failure:
            return AirflowException(f"the hosts cannot start: {reason}")
        since = hosts.waiting_since
        if since is None or datetime.now(UTC) - since < self.test.startup_timeout:
            return None
        return AirflowException(f"the hosts are still {hosts.stage} after {self.test.startup_timeout}")

    def fetch_logs(self, folder: RunFolder, attempt: int) -> list[ContainerLog]:
        """Save the logs of all hosts, that of the host that failed first at first; of sidecars the last lines."""
        hosts = self.hosts
        self._find_secrets(hosts.pods if hosts else ())
        if hosts is None or not hosts.pods:
            note = "no pod exists whose logs could be read"
            return [ContainerLog(attempt, WORKLOAD_CONTAINER, Role.WORKLOAD, note=note)]
        whole = set(self._logs.save(folder, attempt, hosts.pods)) if self._logs else set()
        if self._logs:
            hosts = self.hosts = replace(hosts, errors=self._first_errors(self._logs))
        first = hosts.failed_first
        pods = sorted(hosts.pods, key=lambda pod: (index_of(pod) != first, index_of(pod)))
        named = [(str(pod["metadata"]["name"]), log) for pod in pods for log in logs_of(pod, attempt, index_of(pod))]
        saved = [replace(log, saved=True, error=self._error_of(log)) for _, log in named if log.file in whole]
        others = [(pod, log) for pod, log in named if log.file not in whole]
        present = {index_of(pod) for pod in pods}
        removed = [
            ContainerLog(attempt, WORKLOAD_CONTAINER, Role.WORKLOAD, host, saved=name in whole, note=REMOVED)
            for host in range(hosts.count)
            if host not in present and (name := f"attempt-{attempt}-host-{host}.log")
        ]
        return [*saved, *save_logs(folder, others, self.open_tail, self.hidden), *removed]

    def _first_errors(self, logs: HostLogs) -> dict[int, FirstError]:
        return {host: replace(error, text=self.hidden.masked(error.text)) for host, error in logs.first_errors.items()}

    def _error_of(self, log: ContainerLog) -> str:
        error = self.hosts.errors.get(log.host or 0) if self.hosts else None
        return error.text if error else ""

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
