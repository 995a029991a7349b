"""The task that runs the workload in a pod, and tells truthfully how it went."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowException, TaskDeferred

from ml_metrics.clusters.manifests import pod as pod_of
from ml_metrics.clusters.outcome import outcome_of
from ml_metrics.errors import ConfigError
from ml_metrics.operators.connections import cluster_kubeconfig
from ml_metrics.operators.task import folder_of, run_of
from ml_metrics.operators.workload_end import end_of, unknown_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.sdk import Context
    from kubernetes.client import models as k8s

    from ml_metrics.model import Workload
    from ml_metrics.spec.test import TestSpec

GRACE = timedelta(minutes=5)
"""How much longer the task waits than the pod may run: the cluster ends the pod, Airflow only a cluster that hangs."""
RUN_KEY = "ml-metrics/run-key"
"""The label by which the pod of a run is found again."""


class RunWorkload(KubernetesPodOperator):
    """Run the workload of a test. `workload.json` says how it went, whatever happens to this process."""

    def __init__(self, *, test: TestSpec, **options: Any) -> None:
        super().__init__(
            name=test.name,
            namespace=test.namespace,
            image=test.image,
            cmds=list(test.command),
            arguments=list(test.args),
            startup_timeout_seconds=int(test.startup_timeout.total_seconds()),
            execution_timeout=test.startup_timeout + test.timeout + GRACE,
            log_events_on_failure=True,
            log_pod_spec_on_failure=False,
            **options,
        )
        self.test = test
        self.begun: Workload | None = None
        self.seen: Workload | None = None
        self.record_end: Callable[[BaseException | None], None] | None = None

    def execute(self, context: Context) -> Any:
        """Start the pod and wait for it, or hand the waiting to the triggerer."""
        with self._recorded(context):
            self._introduce(context)
            self._use_cluster()
            return super().execute(context)

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> Any:
        """Come back from the triggerer."""
        self.begun = folder_of(self.test.name, context).read_workload()
        with self._recorded(context):
            self._use_cluster()
            return super().trigger_reentry(context, event)

    def build_pod_request_obj(self, context: Context | None = None, **options: Any) -> k8s.V1Pod:
        """The pod that `ml-metrics render` prints, in this run's folder; parameters are filled in."""
        if context is not None:
            run, folder = run_of(self.test.name, context), folder_of(self.test.name, context)
            self.labels = {**self.labels, RUN_KEY: run.key}
            # the same for every attempt, so that the goodput of a restarted job is that of one job
            job_name = {"JOB_NAME": f"{run.test}-{run.key[:8]}"}
            template = pod_of(self.test, run_dir=folder.place, env=job_name, labels=self.labels)
            self.pod_template_dict = self.render_template({**template, "spec": _without_program(template)}, context)
        return super().build_pod_request_obj(context, **options)

    def get_or_create_pod(self, pod_request_obj: k8s.V1Pod, context: Context) -> k8s.V1Pod:
        """Take up the pod of a worker that died, also if it has ended since: a workload runs once."""
        folder = folder_of(self.test.name, context)
        pod = self.find_pod(pod_request_obj.metadata.namespace, context=context)
        if pod is not None:
            self.begun = folder.read_workload()
            return pod
        self.begun = unknown_end(folder.start_attempt(), self.image)
        folder.write_workload(self.begun)
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

    def _introduce(self, context: Context) -> None:
        """Say in the run folder which run this is, so that it can be judged and loaded with nothing but its folder."""
        run, folder = run_of(self.test.name, context), folder_of(self.test.name, context)
        identity = {"test": run.test, "dag_id": run.dag_id, "run_id": run.run_id, "deployment": run.deployment}
        folder.write("run", {**identity, "test_file": self.test.model_dump(mode="json", exclude_unset=True)})
        context["ti"].xcom_push(key="run_folder", value=folder.place)

    def _use_cluster(self) -> None:
        if self.test.hosts > 1 or self.test.cluster:
            raise ConfigError(
                f"{self.test.name}: tests of several hosts, and a GKE cluster named in the test, cannot be run yet; "
                "use an accelerator of one host, and the cluster of the connection `kubernetes_default`"
            )
        if kubeconfig := cluster_kubeconfig():
            self.config_file, self.kubernetes_conn_id, self.in_cluster = kubeconfig, None, False

    @contextmanager
    def _recorded(self, context: Context) -> Iterator[None]:
        """Write `workload.json` when the pod is done with, however that came about."""
        folder, log_url = folder_of(self.test.name, context), context["ti"].log_url

        def record_end(error: BaseException | None) -> None:
            begun = self.begun or unknown_end(1, self.image)
            folder.write_workload(replace(end_of(self.seen, error, begun), logs_link=log_url))

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


def _without_program(template: dict[str, Any]) -> dict[str, Any]:
    """The pod's spec without image, command and arguments, which the operator has, filled in and shown in the UI."""
    own = {"image", "command", "args"}
    first, *others = template["spec"]["containers"]
    return {**template["spec"], "containers": [{k: v for k, v in first.items() if k not in own}, *others]}
