"""The task that runs the workload on several hosts at once: a TPU slice, or nodes of GPUs."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.operators.job import JOB_NAME_PREFIX, KubernetesJobOperator
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk.exceptions import AirflowException, TaskDeferred
from kubernetes.client.exceptions import ApiException

from ml_metrics.clusters.hosts import Hosts, Stage
from ml_metrics.model import WORKLOAD_CONTAINER, JobStatus
from ml_metrics.operators.host_logs import HostLogs
from ml_metrics.operators.host_objects import HostObjects
from ml_metrics.operators.outage import is_outage
from ml_metrics.operators.run_workload import NOT_FOUND
from ml_metrics.operators.tasks import folder_of, run_of
from ml_metrics.operators.workload_base import LOG_INTERVAL, WorkloadRun
from ml_metrics.operators.workload_end import OverranError, is_known

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow.sdk import Context
    from kubernetes.client import models as k8s

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Workload

POLL_SECONDS = 5.0


class RunHosts(WorkloadRun, KubernetesJobOperator):
    """Run the workload of a test as a Job with one pod for each host: all of them, or none."""

    kind_of_object = "job"

    def __init__(self, *, test: TestDefinition, **options: Any) -> None:
        own: dict[str, Any] = {
            "completions": test.hosts,
            "parallelism": test.hosts,
            "completion_mode": "Indexed",
            "backoff_limit": 0,  # a host that failed has ended the workload; Airflow starts the next attempt
            "suspend": True if test.queue else None,
            "random_name_suffix": False,
        }
        super().__init__(test=test, **{**own, **options})
        self.hosts: Hosts | None = None

    def execute(self, context: Context) -> None:
        """Start the Job, or take up the one of a worker that died, and see it through."""
        if self.is_told_already(context):
            return
        with self.recorded(context), self._torn_down():
            self.introduce(context)
            self.through_outages(lambda: self._find_or_start(context))
            self.through_outages(lambda: self._see_through(context))

    def resume(self, context: Context, event: Any = None) -> None:  # noqa: ARG002  (a time has passed, it says)
        """Come back from the triggerer."""
        self.execute(context)

    def build_job_request_obj(self, context: Context | None = None) -> k8s.V1Job:
        """The Job that `ml-metrics render` prints, in this run's folder; parameters are filled in."""
        if context is None:
            return super().build_job_request_obj(context)
        run, folder = run_of(self.test.name, context), folder_of(self.test.name, context)
        made = HostObjects.job(self.test, f"{JOB_NAME_PREFIX}{self.name}", run, folder.path)
        self.use_template(HostObjects.template(made), context)
        self.ttl_seconds_after_finished = made["spec"]["ttlSecondsAfterFinished"]
        self.labels = {**made["metadata"]["labels"], **self.labels}
        return HostObjects.corrected(super().build_job_request_obj(context))

    def end_workload(self) -> None:
        """Take the Job and its service away."""
        self._killed = True
        if self.created:
            self._last_seen()
            self._objects().remove_all()

    def look(self) -> Workload | None:
        """How the workload stands: read from its Job and the pods of all hosts."""
        if not self.created or self.begun is None or self.begun.pod is None:
            return None
        try:
            self.hosts = self._objects().ask(self.begun.pod, with_events=True)
        except ApiException as error:
            if error.status != NOT_FOUND:
                raise
            last = self.hosts.outcome() if self.hosts else self.begun
            detail = "the Job was deleted before its workload had ended"
            return replace(last, status=JobStatus.FAILURE, failure_reason="JobDeleted", detail=detail)
        return self.hosts.outcome()

    def name_of_object(self, end: Workload) -> str | None:
        """The name of the Job."""
        return self.begun.pod if self.begun else end.pod

    def _objects(self) -> HostObjects:
        return HostObjects(self.client, self.job_client, self.own_namespace, dict(self.labels))

    def _find_or_start(self, context: Context) -> None:
        """Take up the Job that an earlier process left, if nobody knows its end. What else it left is taken away."""
        before = folder_of(self.test.name, context).read_workload()
        objects = self._objects()
        job = objects.newest_job()
        if job is not None and before is not None and not is_known(before):
            self.take_up(context)
            return
        objects.remove_all()
        self._start(context)

    def _start(self, context: Context) -> None:
        run = run_of(self.test.name, context)
        self.start_attempt(context, None, None)
        self.name = HostObjects.name(run, self.begun.attempts if self.begun else 1)
        request = self.job_request_obj = self.build_job_request_obj(context)
        name, namespace = request.metadata.name, request.metadata.namespace
        self.start_attempt(context, namespace, name)
        context["ti"].xcom_push(key="job_name", value=name)
        context["ti"].xcom_push(key="job_namespace", value=namespace)
        self.created = True  # from here on, an answer that got lost may have been a yes
        try:
            objects = self._objects()
            objects.create_service(self.test, name)
            self.job = self.create_job(request)
            self.is_created(context)
            objects.adopt_service(name)
        except ApiException as error:
            self.created = is_outage(error)
            raise

    def _see_through(self, context: Context) -> None:
        """Wait until the Job has ended, or has waited too long; tell and keep its logs."""
        with HostLogs(self._open_log, self.log.info) as logs:
            trouble = self._wait(context, logs)
            self.seen = self.look()
            self.note_end()  # if this process dies now, nobody can look any more
            pods = self.hosts.pods if self.hosts else ()
            for place in logs.keep(folder_of(self.test.name, context), self.begun.attempts if self.begun else 1, pods):
                self.log.info("kept %s", place)
        if trouble is not None:
            raise trouble
        if self.seen is not None and self.seen.status is not JobStatus.SUCCESS:
            raise AirflowException(f"{self.seen.failure_reason}: {self.seen.detail}")

    def _wait(self, context: Context, logs: HostLogs) -> AirflowException | None:
        """Wait for the end; what is wrong, if the waiting had to end first."""
        limit = context["ti"].start_date + self.longest
        while True:
            try:
                self.hosts = self._objects().ask(str(self.begun and self.begun.pod))
            except ApiException as error:
                if error.status != NOT_FOUND:
                    raise
                return AirflowException("the Job was deleted before its workload had ended")
            stage = self.hosts.stage
            if stage is Stage.ENDED:
                return None
            if datetime.now(UTC) > limit:
                return OverranError("the time of the task is up")
            if stage is not Stage.RUNNING and (too_long := self._waited_too_long(self.hosts)):
                return too_long
            if self.deferrable and stage is not Stage.RUNNING:
                # a queue may take hours; while it runs, a worker listens to it
                self.defer(trigger=TimeDeltaTrigger(timedelta(seconds=LOG_INTERVAL)), method_name="resume")
            logs.listen(self.hosts.pods)
            logs.tell_for(POLL_SECONDS)

    def _waited_too_long(self, hosts: Hosts) -> AirflowException | None:
        if reason := hosts.start_failure:
            return AirflowException(f"the hosts cannot start: {reason}")
        since = hosts.waiting_since
        if since is None or datetime.now(UTC) - since < self.test.startup_timeout:
            return None
        return AirflowException(f"the hosts are still {hosts.stage} after {self.test.startup_timeout}")

    def _open_log(self, pod: str) -> Iterable[bytes]:
        log: Iterable[bytes] = self.client.read_namespaced_pod_log(
            pod, self.own_namespace, container=WORKLOAD_CONTAINER, follow=True, timestamps=True, _preload_content=False
        )
        return log

    @contextmanager
    def _torn_down(self) -> Iterator[None]:
        """Leave nothing behind, however the task ends; only what may be taken up again is left alone."""
        try:
            yield
        except TaskDeferred:
            raise
        except BaseException as error:
            if self.created and not is_outage(error):
                self._last_seen()
                self._remove_all()
            raise
        self._remove_all()

    def _remove_all(self) -> None:
        try:
            self._objects().remove_all()
        except Exception as error:
            if not is_outage(error):
                raise
            self.log.warning("the Job could not be removed; the cluster does it when its time is up: %s", error)
