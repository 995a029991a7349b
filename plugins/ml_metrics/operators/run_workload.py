"""The task that runs the workload in a pod."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException
from kubernetes.client.exceptions import ApiException

from ml_metrics.clusters.lost_pods import outcome_of_lost_pod
from ml_metrics.clusters.manifests import pod as pod_of
from ml_metrics.clusters.outcome import outcome_of
from ml_metrics.model import JobStatus
from ml_metrics.operators.outage import is_outage
from ml_metrics.operators.tasks import folder_of, run_of
from ml_metrics.operators.workload_base import WorkloadRun
from ml_metrics.operators.workload_end import OverranError, is_known

if TYPE_CHECKING:
    from airflow.sdk import Context
    from kubernetes.client import models as k8s

    from ml_metrics.model import Workload

NOT_FOUND, CONFLICT = 404, 409


class RunWorkload(WorkloadRun):
    """Run the workload of a test in one pod."""

    def execute(self, context: Context) -> Any:
        """Start the pod and wait for it, or hand the waiting to the triggerer."""
        if self.is_told_already(context):
            return None
        with self.recorded(context):
            self.introduce(context)
            return self.through_outages(lambda: super(RunWorkload, self).execute(context))

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> Any:
        """Come back from the triggerer."""
        self.take_up(context)
        with self.recorded(context):
            try:
                return self.through_outages(lambda: super(RunWorkload, self).trigger_reentry(context, event))
            except AirflowException as error:
                if event.get("status") == "timeout":
                    raise OverranError(str(error)) from error
                if event.get("status") != "error" or self.seen is None or self.seen.status is not JobStatus.SUCCESS:
                    raise
                # it was the triggerer that was in trouble (some providers say no more of an outage), not the pod
                self.log.warning("the workload ended well all the same: %s", error)
                return None

    def build_pod_request_obj(self, context: Context | None = None, **options: Any) -> k8s.V1Pod:
        """The pod that `ml-metrics render` prints, in this run's folder; parameters are filled in."""
        if context is not None:
            run, folder = run_of(self.test.name, context), folder_of(self.test.name, context)
            # the same for every attempt, so that the goodput of a restarted job is that of one job
            job_name = {"JOB_NAME": f"{run.test}-{run.key[:8]}"}
            template = pod_of(self.test, run_dir=folder.path, env=job_name, labels=self.labels)
            self.use_template({**template, "spec": without_program(template)}, context)
        return super().build_pod_request_obj(context, **options)

    def get_or_create_pod(self, pod_request_obj: k8s.V1Pod, context: Context) -> k8s.V1Pod:
        """Take up the pod of a worker that died, also if it has ended since: a workload runs once."""
        namespace, name = pod_request_obj.metadata.namespace, pod_request_obj.metadata.name
        pod = self.find_pod(namespace, context=context)
        if pod is not None and pod.metadata.deletion_timestamp is None:
            before = folder_of(self.test.name, context).read_workload()
            if before is None or before.pod != pod.metadata.name or not is_known(before):
                self.take_up(context)
                return pod
            self.process_pod_deletion(pod)  # its end is told: it is only still there
        self.start_attempt(context, namespace, name)
        self.created = True  # from here on, an answer that got lost may have been a yes
        try:
            pod = super().get_or_create_pod(pod_request_obj, context)
        except ApiException as error:
            self.created = is_outage(error) or error.status == CONFLICT
            if error.status != CONFLICT:
                raise
            pod = pod_request_obj  # the provider asked twice, and the first answer was lost
        self.is_created(context)
        return pod

    def cleanup(self, pod: k8s.V1Pod, remote_pod: k8s.V1Pod, *rest: Any, **options: Any) -> None:
        """Look at the pod once more before it is deleted."""
        if self.created and is_outage(sys.exc_info()[1]):
            return  # it may well run: it is taken up when the API server is back
        self.seen = self.asked(self.look)
        self.note_end()  # if this process dies now, nobody can look any more
        if self.seen is not None and self.seen.failure_reason == "PodDeleted" and sys.exc_info()[1] is not None:
            return  # what is in flight tells more than what the provider would say of a pod that is not there
        super().cleanup(pod, remote_pod, *rest, **options)

    def look(self) -> Workload | None:
        """How the workload stands: read from its pod, or from the events of a pod that is gone."""
        from kubernetes.client import ApiClient

        if not self.created or self.begun is None or self.begun.pod is None:
            return None
        name, namespace, plain = self.begun.pod, self.own_namespace, ApiClient().sanitize_for_serialization
        field_selector = f"involvedObject.kind=Pod,involvedObject.name={name}"
        events = plain(self.client.list_namespaced_event(namespace, field_selector=field_selector))["items"]
        try:
            return outcome_of(plain(self.client.read_namespaced_pod(name, namespace)), events)
        except ApiException as error:
            if error.status != NOT_FOUND:
                raise
            return outcome_of_lost_pod(self.begun, events, plain(self.pod_manager.last))


def without_program(template: dict[str, Any]) -> dict[str, Any]:
    """The pod's spec without image, command and arguments, which the operator has, filled in and shown in the UI."""
    own = {"image", "command", "args"}
    first, *others = template["spec"]["containers"]
    return {**template["spec"], "containers": [{k: v for k, v in first.items() if k not in own}, *others]}
