"""The task that runs the workload in a pod, and tells truthfully how it went."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout, TaskDeferred

from ml_metrics.clusters.outcome import outcome_of
from ml_metrics.errors import MlMetricsError
from ml_metrics.model import JobStatus, Run, Workload
from ml_metrics.operators.connections import cluster_kubeconfig
from ml_metrics.operators.task import folder_of, run_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.sdk import Context
    from kubernetes.client import models as k8s

    from ml_metrics.run_folder import RunFolder
    from ml_metrics.spec.test import TestSpec

GRACE = timedelta(minutes=5)
"""How much longer the task waits than the pod may run: the cluster ends the pod, Airflow only a cluster that hangs."""


class RunWorkload(KubernetesPodOperator):
    """Run the workload of a test. `workload.json` says how it went, whatever happens to this process."""

    def __init__(self, *, test: TestSpec, **options: Any) -> None:
        super().__init__(
            name=test.name,
            image=test.image,
            cmds=list(test.command),
            arguments=list(test.args),
            active_deadline_seconds=int(test.timeout.total_seconds()),
            startup_timeout_seconds=int(test.startup_timeout.total_seconds()),
            execution_timeout=longest(test),
            log_events_on_failure=True,
            log_pod_spec_on_failure=False,
            **options,
        )
        self.test = test
        self.seen: Workload | None = None
        self.record_end: Callable[[BaseException | None], None] | None = None

    def execute(self, context: Context) -> Any:
        """Start the pod and wait for it, or hand the waiting to the triggerer."""
        self._prepare(context)
        with self._recorded(context):
            return super().execute(context)

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> Any:
        """Come back from the triggerer."""
        self._use_cluster()
        with self._recorded(context):
            return super().trigger_reentry(context, event)

    def get_or_create_pod(self, pod_request_obj: k8s.V1Pod, context: Context) -> k8s.V1Pod:
        """Take up the pod of a worker that died, also if it has ended since: a workload runs once."""
        pod = self.find_pod(pod_request_obj.metadata.namespace, context=context)
        if pod is not None:
            return pod
        folder = folder_of(self.test.name, context)
        attempt = folder.start_attempt()
        folder.write_workload(unknown_end(attempt, self.image))
        return super().get_or_create_pod(pod_request_obj, context)

    def cleanup(self, pod: k8s.V1Pod, remote_pod: k8s.V1Pod, *rest: Any, **options: Any) -> None:
        """Look at the pod once more before it is deleted."""
        self.seen = self._look_at(pod)
        super().cleanup(pod, remote_pod, *rest, **options)

    def on_kill(self) -> None:
        """Somebody ended the task by hand, or its time was up: the pod goes, and the run says so."""
        super().on_kill()
        if self.record_end is not None:
            self.record_end(AirflowException("the task was ended from outside"))

    def _prepare(self, context: Context) -> None:
        self._use_cluster()
        run, folder = run_of(self.test.name, context), folder_of(self.test.name, context)
        identity = {"test": run.test, "dag_id": run.dag_id, "run_id": run.run_id, "deployment": run.deployment}
        folder.write("run", {**identity, "test_file": self.test.model_dump(mode="json", exclude_unset=True)})
        self.env_vars = [*self.env_vars, *environment(run, folder)]
        self.labels = {**self.labels, **labels(run, self.test)}
        context["ti"].xcom_push(key="run_folder", value=folder.place)

    def _use_cluster(self) -> None:
        if kubeconfig := cluster_kubeconfig():
            self.config_file, self.kubernetes_conn_id, self.in_cluster = kubeconfig, None, False

    @contextmanager
    def _recorded(self, context: Context) -> Iterator[None]:
        """Write `workload.json` when the pod is done with, however that came about."""
        folder, log_url = folder_of(self.test.name, context), context["ti"].log_url

        def record_end(error: BaseException | None) -> None:
            begun = folder.read_workload() or unknown_end(1, self.image)
            folder.write_workload(replace(end_of(self.seen, error, begun), attempts=begun.attempts, logs_link=log_url))

        self.record_end = record_end
        try:
            yield
        except TaskDeferred:
            raise
        except BaseException as error:
            record_end(error)
            raise
        record_end(None)

    def _look_at(self, pod: k8s.V1Pod | None) -> Workload | None:
        """The pod as the cluster knows it now; None if it knows no such pod, or cannot be asked."""
        from kubernetes.client import ApiClient
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        if pod is None or pod.metadata.name is None:
            return None
        try:
            found = self.client.read_namespaced_pod(pod.metadata.name, pod.metadata.namespace)
            events = self.client.list_namespaced_event(
                found.metadata.namespace, field_selector=f"involvedObject.uid={found.metadata.uid}"
            )
        except (ApiException, HTTPError) as error:
            self.log.warning("the cluster does not tell how the pod ended: %s", error)
            return None
        plain = ApiClient().sanitize_for_serialization
        return outcome_of(plain(found), plain(events)["items"])


def environment(run: Run, folder: RunFolder) -> list[k8s.V1EnvVar]:
    """What a workload finds in its environment, under the names that the older templates used."""
    from kubernetes.client import models as k8s

    values = {
        "ML_METRICS_RUN_DIR": folder.place,
        "MODEL_DIR": folder.place,
        "JOB_NAME": f"{run.test}-{run.key[:8]}",
    }
    fields = {"POD_NAME": "metadata.name", "POD_UID": "metadata.uid", "POD_NAMESPACE": "metadata.namespace"}
    return [
        *(k8s.V1EnvVar(name=name, value=value) for name, value in values.items()),
        *(
            k8s.V1EnvVar(
                name=name, value_from=k8s.V1EnvVarSource(field_ref=k8s.V1ObjectFieldSelector(field_path=field))
            )
            for name, field in fields.items()
        ),
    ]


def labels(run: Run, test: TestSpec) -> dict[str, str]:
    """By what a pod is found again."""
    return {**test.labels, "ml-metrics/test": run.test, "ml-metrics/run-key": run.key}


def unknown_end(attempt: int, image: str | None) -> Workload:
    """What is true from the moment the pod is asked for until its end is known: if this stays, the worker was lost."""
    return Workload(
        status=JobStatus.FAILURE,
        failure_reason="WorkerLost",
        detail="the Airflow task ended before the end of the workload was known; clear `run_workload` to take it up",
        queued_at=datetime.now(UTC),
        attempts=attempt,
        image=image,
    )


def end_of(seen: Workload | None, error: BaseException | None, begun: Workload) -> Workload:
    """How the workload went, from what was seen of its pod and from how the task ended."""
    ended_at = datetime.now(UTC)
    if seen is None:
        reason, status = reason_without_pod(error)
        return replace(begun, status=status, failure_reason=reason, detail=str(error or "")[:500], ended_at=ended_at)
    if isinstance(error, AirflowTaskTimeout) and seen.status is not JobStatus.SUCCESS:
        status = JobStatus.TIMEOUT if seen.started_at else JobStatus.MISSED
        return replace(seen, status=status, failure_reason="ExecutionTimeout", ended_at=seen.ended_at or ended_at)
    return replace(seen, ended_at=seen.ended_at or ended_at)


def reason_without_pod(error: BaseException | None) -> tuple[str, JobStatus]:
    """Why there is no pod to look at."""
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    match error:
        case None:
            return "PodDeleted", JobStatus.SUCCESS  # it ended well, and somebody removed it before we looked
        case ApiException() if error.status in {400, 403, 409, 422}:
            return "PodRejected", JobStatus.MISSED
        case ApiException() | HTTPError() | MlMetricsError():
            return "ClusterUnreachable", JobStatus.MISSED
        case _:
            return "PodDeleted", JobStatus.FAILURE


def longest(test: TestSpec) -> timedelta:
    """How long the task may wait: for the pod to start, for its deadline, and for a cluster that is slow to say so."""
    return test.startup_timeout + test.timeout + GRACE
